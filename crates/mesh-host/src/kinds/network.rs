//! The kind `network`: a bridge network of the engine. Removed only where a host made it and nothing is in it.

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

impl Kind for Network {
    type Spec = NetworkSpec;
    type Observed = Option<Found>;
    type Before = ();

    fn claims(spec: &NetworkSpec) -> Vec<Claim> {
        vec![Claim::new("network", &spec.name)]
    }

    fn subject(spec: &NetworkSpec) -> Cow<'_, str> {
        Cow::Borrowed(&spec.name)
    }

    async fn observe(machine: &Machine, spec: &NetworkSpec) -> Result<Option<Found>, Failure> {
        Ok(machine.engine.look().await?.networks.get(&spec.name).cloned())
    }

    fn before(_: &NetworkSpec, _: &Option<Found>, _: Option<&()>) {}

    fn plan(spec: &NetworkSpec, observed: &Option<Found>, _: &Memory<Self>) -> Result<Vec<Step>, Failure> {
        let create = || {
            Step::Engine(EngineStep::CreateNetwork(Found {
                name: spec.name.clone(),
                subnet: spec.subnet.clone(),
                labels: labels("network", &spec.name),
            }))
        };
        match observed {
            None => Ok(vec![create()]),
            Some(found) if !is_ours(found) => Err(Failure::new(format!(
                "the engine has a network {} that the mesh did not make: remove it, or declare another name",
                spec.name
            ))),
            Some(found) if spec.subnet.is_none() || found.subnet == spec.subnet => Ok(Vec::new()),
            // Fails in the engine's words while containers are in it: they are not torn out of it.
            Some(_) => Ok(vec![Step::Engine(EngineStep::RemoveNetwork(spec.name.clone())), create()]),
        }
    }

    fn remove(spec: &NetworkSpec, observed: &Option<Found>, (): &()) -> Result<Vec<Step>, Failure> {
        let ours = observed.as_ref().is_some_and(is_ours);
        Ok(ours.then(|| Step::Engine(EngineStep::RemoveNetwork(spec.name.clone()))).into_iter().collect())
    }
}

fn is_ours(found: &Found) -> bool {
    found.labels.contains_key(LABEL_KIND)
}
