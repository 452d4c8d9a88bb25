//! Modules that follow the nodes: those of every node, and those of a count when one of their nodes went.

use mesh_ids::NodeName;
use mesh_manifest::Placement;

use crate::{
    Error, Inventory,
    domain::{Change, plan_placement},
    store::modules::lock_decisions,
};

impl Inventory {
    /// Places modules anew where nodes came or went, moving nothing without need. Returns the nodes whose declaration
    /// changes. A module that cannot be placed stays as it is, and the log says why.
    pub async fn place_modules(&self) -> Result<Vec<NodeName>, Error> {
        let mut transaction = self.begin().await?;
        lock_decisions(&mut transaction).await.map_err(|error| self.failed(error))?;
        let mut world = self.world(&mut transaction).await?;
        let names: Vec<_> = world.modules.keys().cloned().collect();
        let mut changes = Vec::new();
        let mut affected = Vec::new();
        for name in names {
            let fixed = |placed: &crate::domain::PlacedModule| {
                matches!(placed.module.manifest().placement, Placement::Nodes(_))
            };
            if world.modules.get(&name).is_none_or(fixed) {
                continue;
            }
            match plan_placement(&world, &name) {
                Ok(plan) if plan.in_force => {}
                Ok(plan) => {
                    self.carry_out(&mut transaction, &plan).await?;
                    changes.push(Change::Placed {
                        module: name.clone(),
                        nodes: plan.placed.iter().cloned().collect(),
                        changed: plan.changed(),
                    });
                    affected.extend(plan.changed());
                    if let Some(placed) = world.modules.get_mut(&name) {
                        placed.nodes = plan.placed;
                    }
                }
                Err(why) => tracing::warn!(module = %name, %why, "a module cannot follow the nodes"),
            }
        }
        affected.sort();
        affected.dedup();
        let now = self.now();
        self.finish(transaction, now, changes).await?;
        Ok(affected)
    }
}
