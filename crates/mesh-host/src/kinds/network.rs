//! The kind `network`: a bridge network of the engine. Replaced and removed only where a host made it and nothing is in it.

use std::borrow::Cow;

use mesh_wire::kinds::NetworkSpec;

use super::{Claim, Kind, Memory};
use crate::{
    failure::Failure,
    machine::{
        Machine,
        engine::{EngineStep, LABEL_KIND, Network as Found, labels},
    },
    step::Step,
};

/// The kind.
#[derive(Debug)]
pub struct Network;

/// What the engine has of a network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkObserved {
    /// The network of this name.
    pub found: Option<Found>,
    /// The containers in it, running or not, in alphabetical order.
    pub users: Vec<String>,
}

impl Kind for Network {
    type Spec = NetworkSpec;
    type Observed = NetworkObserved;
    type Before = ();

    fn claims(spec: &NetworkSpec) -> Vec<Claim> {
        vec![Claim::new("network", &spec.name)]
    }

    fn subject(spec: &NetworkSpec) -> Cow<'_, str> {
        Cow::Borrowed(&spec.name)
    }

    async fn observe(machine: &Machine, spec: &NetworkSpec) -> Result<NetworkObserved, Failure> {
        let contents = machine.engine.look().await?;
        let in_it = contents.containers.iter().filter(|(_, found)| found.networks.contains(&spec.name));
        Ok(NetworkObserved {
            found: contents.networks.get(&spec.name).cloned(),
            users: in_it.map(|(name, _)| name.clone()).collect(),
        })
    }

    fn before(_: &NetworkSpec, _: &NetworkObserved, _: Option<&()>) {}

    fn plan(spec: &NetworkSpec, observed: &NetworkObserved, _: &Memory<Self>) -> Result<Vec<Step>, Failure> {
        let create = Step::Engine(EngineStep::CreateNetwork(Found {
            name: spec.name.clone(),
            subnet: spec.subnet.clone(),
            internal: spec.internal,
            labels: labels("network", &spec.name),
        }));
        let Some(found) = &observed.found else { return Ok(vec![create]) };
        if !is_ours(found) {
            return Err(Failure::new(format!(
                "the engine has a network {} that the mesh did not make: remove it, or declare another name",
                spec.name
            )));
        }
        let differences = differences(spec, found);
        if differences.is_empty() {
            return Ok(Vec::new());
        }
        if observed.users.is_empty() {
            return Ok(vec![Step::Engine(EngineStep::RemoveNetwork(spec.name.clone())), create]);
        }
        Err(Failure::new(format!(
            "{}, and it cannot be changed while containers are in it: {}; take them out of it, or declare a network of \
             another name",
            differences.join(" and "),
            observed.users.join(", ")
        )))
    }

    fn remove(spec: &NetworkSpec, observed: &NetworkObserved, (): &()) -> Result<Vec<Step>, Failure> {
        let ours = observed.found.as_ref().is_some_and(is_ours);
        Ok(ours.then(|| Step::Engine(EngineStep::RemoveNetwork(spec.name.clone()))).into_iter().collect())
    }
}

fn is_ours(found: &Found) -> bool {
    found.labels.contains_key(LABEL_KIND)
}

/// What is other than declared.
fn differences(spec: &NetworkSpec, found: &Found) -> Vec<String> {
    let mut differences = Vec::new();
    if spec.subnet.is_some() && found.subnet != spec.subnet {
        let addresses = found.subnet.as_deref().unwrap_or("others");
        differences.push(format!("its addresses are {addresses}"));
    }
    if found.internal != spec.internal {
        let word = if found.internal { "it is internal" } else { "it is not internal" };
        differences.push(word.to_owned());
    }
    differences
}
