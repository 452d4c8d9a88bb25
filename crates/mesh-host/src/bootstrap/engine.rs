//! Step 0: the container engine. What the bundle carries to make one is left out where the machine has one of its own.

use mesh_bundle::bundle::CarriedResource;
use mesh_ids::ResourceId;
use mesh_wire::{Resource, Spec};

use crate::{
    failure::Failure,
    machine::{Machine, units::Load},
};

const SOCKET: &str = "podman.socket";

/// The bundle's resources without those that would make an engine on a machine that has one. What an earlier run
/// carried stays: taking it off the list would take it off the machine.
pub(super) async fn without_needless(
    resources: &[CarriedResource],
    before: &[Resource],
    machine: &Machine,
) -> Result<Vec<CarriedResource>, Failure> {
    if machine.engine.version().await.is_none() {
        return Ok(resources.to_vec());
    }
    let has_socket = machine.units.look(SOCKET).await?.load == Load::Loaded;
    let needless: Vec<ResourceId> = resources
        .iter()
        .map(|carried| &carried.resource)
        .filter(|resource| !before.iter().any(|known| known.id == resource.id))
        .filter(|resource| match &resource.spec {
            Spec::Package(package) => package.names.iter().any(|name| name == "podman"),
            Spec::Unit(unit) => unit.name == SOCKET && !has_socket,
            _ => false,
        })
        .map(|resource| resource.id.clone())
        .collect();
    Ok(without(resources, &needless))
}

fn without(resources: &[CarriedResource], needless: &[ResourceId]) -> Vec<CarriedResource> {
    let kept = resources.iter().filter(|carried| !needless.contains(&carried.resource.id));
    kept.cloned()
        .map(|mut carried| {
            carried.resource.after.retain(|id| !needless.contains(id));
            carried
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_after_something_needless_waits_for_nothing() -> Result<(), serde_json::Error> {
        let carried = |json: serde_json::Value| {
            serde_json::from_value(json)
                .map(|resource| CarriedResource { why: "a test".to_owned(), resource })
        };
        let package: CarriedResource = carried(serde_json::json!({
            "id": "package:engine", "kind": "package", "spec": { "names": ["podman"] },
        }))?;
        let network: CarriedResource = carried(serde_json::json!({
            "id": "network:n", "kind": "network", "after": ["package:engine"], "spec": { "name": "n" },
        }))?;
        let left = without(&[package.clone(), network], &[package.resource.id]);
        assert_eq!(left.len(), 1);
        assert!(left.iter().all(|carried| carried.resource.after.is_empty()));
        Ok(())
    }
}
