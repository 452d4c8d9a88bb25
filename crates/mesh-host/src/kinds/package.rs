//! The kind `package`: packages that have to be installed. Removes only those that the host installed.

use std::{borrow::Cow, collections::BTreeMap, rc::Rc};

use mesh_wire::kinds::PackageSpec;

use super::{Claim, Kind, Memory};
use crate::{
    failure::Failure,
    machine::{
        Machine,
        packages::{Installed, PackageStep},
    },
    step::Step,
};

/// The kind.
#[derive(Debug)]
pub struct Package;

impl Kind for Package {
    type Spec = PackageSpec;
    type Observed = Rc<Installed>;
    /// Whether each package that was ever declared here was installed before.
    type Before = BTreeMap<String, bool>;

    /// None: that two modules need the same package is no clash.
    fn claims(_: &PackageSpec) -> Vec<Claim> {
        Vec::new()
    }

    fn subject(_: &PackageSpec) -> Cow<'_, str> {
        Cow::Borrowed("packages")
    }

    async fn observe(machine: &Machine, _: &PackageSpec) -> Result<Rc<Installed>, Failure> {
        machine.packages.look().await
    }

    fn before(spec: &PackageSpec, observed: &Rc<Installed>, earlier: Option<&Self::Before>) -> Self::Before {
        let mut before = earlier.cloned().unwrap_or_default();
        for name in &spec.names {
            before.entry(name.clone()).or_insert(observed.contains_key(name));
        }
        before
    }

    fn plan(
        spec: &PackageSpec,
        observed: &Rc<Installed>,
        memory: &Memory<Self>,
    ) -> Result<Vec<Step>, Failure> {
        // What was declared earlier and no longer is.
        let mut steps = remove(observed, &memory.before, &spec.names);
        let missing = |name: &&String| !observed.contains_key(*name);
        let names: Vec<String> = spec.names.iter().filter(missing).cloned().collect();
        if !names.is_empty() {
            steps.push(Step::Package(PackageStep::Install { names, repository: spec.repository.clone() }));
        }
        Ok(steps)
    }

    fn remove(
        _: &PackageSpec,
        observed: &Rc<Installed>,
        before: &Self::Before,
    ) -> Result<Vec<Step>, Failure> {
        Ok(remove(observed, before, &[]))
    }
}

/// What takes away the packages that the host installed, but for these.
fn remove(observed: &Installed, before: &BTreeMap<String, bool>, but: &[String]) -> Vec<Step> {
    let ours = |(name, was_there): &(&String, &bool)| {
        !**was_there && observed.contains_key(*name) && !but.contains(name)
    };
    let names: Vec<String> = before.iter().filter(ours).map(|(name, _)| name.clone()).collect();
    if names.is_empty() { Vec::new() } else { vec![Step::Package(PackageStep::Remove { names })] }
}
