//! The kind `package`: packages that have to be installed. Removes only those that the host installed.

use std::{borrow::Cow, collections::BTreeMap};

use mesh_wire::kinds::PackageSpec;

use super::{Claim, Kind, Memory};
use crate::{
    failure::Failure,
    machine::{Machine, packages::PackageStep},
    step::Step,
};

/// The kind.
#[derive(Debug)]
pub struct Package;

impl Kind for Package {
    type Spec = PackageSpec;
    /// The installed version of each declared package.
    type Observed = BTreeMap<String, Option<String>>;
    /// Whether each package that was ever declared here was installed before.
    type Before = BTreeMap<String, bool>;

    /// None: that two modules need the same package is no clash.
    fn claims(_: &PackageSpec) -> Vec<Claim> {
        Vec::new()
    }

    fn subject(_: &PackageSpec) -> Cow<'_, str> {
        Cow::Borrowed("packages")
    }

    async fn observe(machine: &Machine, spec: &PackageSpec) -> Result<Self::Observed, Failure> {
        machine.packages.look(&spec.names).await
    }

    fn before(_: &PackageSpec, observed: &Self::Observed, earlier: Option<&Self::Before>) -> Self::Before {
        let mut before = earlier.cloned().unwrap_or_default();
        for (name, version) in observed {
            before.entry(name.clone()).or_insert(version.is_some());
        }
        before
    }

    fn plan(spec: &PackageSpec, observed: &Self::Observed, _: &Memory<Self>) -> Result<Vec<Step>, Failure> {
        let missing = |name: &&String| observed.get(*name).is_none_or(Option::is_none);
        let names: Vec<String> = spec.names.iter().filter(missing).cloned().collect();
        if names.is_empty() {
            return Ok(Vec::new());
        }
        Ok(vec![Step::Package(PackageStep::Install { names, repository: spec.repository.clone() })])
    }

    fn remove(
        _: &PackageSpec,
        observed: &Self::Observed,
        before: &Self::Before,
    ) -> Result<Vec<Step>, Failure> {
        let ours = |(name, version): (&String, &Option<String>)| {
            (version.is_some() && before.get(name) == Some(&false)).then(|| name.clone())
        };
        let names: Vec<String> = observed.iter().filter_map(ours).collect();
        if names.is_empty() {
            return Ok(Vec::new());
        }
        Ok(vec![Step::Package(PackageStep::Remove { names })])
    }
}
