//! Bringing a module to what its manifest says, and taking it away: planned first, then done as planned or not at all.

use mesh_authz::{Action, Principal, authorise};
use mesh_ids::{ModuleName, NodeName};
use mesh_manifest::{Manifest, Module};
use mesh_record::RecordPosition;
use mesh_store::Transaction;

use crate::{
    Error, Inventory,
    domain::{Change, Plan, PlanIndex, Refusal, plan_apply, plan_removal, plan_removal_again},
    store::{modules, nodes},
};

/// What came of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    /// The module it was about.
    pub module: ModuleName,
    /// The nodes whose declaration changes; empty where everything was so already.
    pub nodes: Vec<NodeName>,
    /// Where the record stood after it: what follows from it stands behind this.
    pub position: RecordPosition,
}

impl Inventory {
    /// What bringing a module to its manifest would do. Changes nothing.
    pub async fn plan_apply(&self, who: &Principal, manifest: Manifest) -> Result<Plan, Error> {
        authorise(who, Action::ReadModules)?;
        let module = self.resolve(manifest)?;
        let mut snapshot = self.snapshot().await?;
        let world = self.world(&mut snapshot).await?;
        Ok(plan_apply(&world, &module)?)
    }

    /// What taking a module away would do: nothing where it was taken away already. Changes nothing.
    pub async fn plan_removal(&self, who: &Principal, module: &ModuleName) -> Result<Plan, Error> {
        authorise(who, Action::ReadModules)?;
        let mut snapshot = self.snapshot().await?;
        self.removal(&mut snapshot, module).await
    }

    async fn removal(&self, transaction: &mut Transaction, module: &ModuleName) -> Result<Plan, Error> {
        let world = self.world(transaction).await?;
        match plan_removal(&world, module) {
            // Contents are kept for ever, so that what was there once is told from what never was.
            Err(Refusal::UnknownModule { .. })
                if modules::was_there(transaction, module).await.map_err(|error| self.failed(error))? =>
            {
                Ok(plan_removal_again(module))
            }
            other => Ok(other?),
        }
    }

    /// Brings a module to its manifest, as planned under this index. Where everything is so already it does nothing and
    /// succeeds: whoever did not hear the answer may ask again.
    pub async fn apply(
        &self,
        who: &Principal,
        manifest: Manifest,
        index: &PlanIndex,
    ) -> Result<Applied, Error> {
        authorise(who, Action::ApplyModule)?;
        let module = self.resolve(manifest)?;
        let mut transaction = self.begin().await?;
        modules::lock_decisions(&mut transaction).await.map_err(|error| self.failed(error))?;
        let world = self.world(&mut transaction).await?;
        let plan = plan_apply(&world, &module)?;
        if plan.in_force {
            drop(transaction);
            let position = self.record().end().await?;
            return Ok(Applied { module: plan.module, nodes: Vec::new(), position });
        }
        if plan.index != *index {
            return Err(Refusal::WorldMoved.into());
        }
        let now = self.now();
        modules::keep_content(&mut transaction, &module, now).await.map_err(|error| self.failed(error))?;
        modules::put_in_force(&mut transaction, &module).await.map_err(|error| self.failed(error))?;
        self.carry_out(&mut transaction, &plan).await?;
        let change = Change::Applied {
            module: plan.module.clone(),
            version: module.manifest().version.clone(),
            digest: module.digest().clone(),
            nodes: plan.placed.iter().cloned().collect(),
            changed: plan.changed(),
            by: who.to_string(),
        };
        let position = self.finish(transaction, now, [change]).await?;
        Ok(Applied { nodes: plan.changed(), module: plan.module, position })
    }

    /// Takes a module away, as planned under this index. Where it was taken away already it does nothing and succeeds:
    /// whoever did not hear the answer may ask again.
    pub async fn remove_module(
        &self,
        who: &Principal,
        module: &ModuleName,
        index: &PlanIndex,
    ) -> Result<Applied, Error> {
        authorise(who, Action::RemoveModule)?;
        let mut transaction = self.begin().await?;
        modules::lock_decisions(&mut transaction).await.map_err(|error| self.failed(error))?;
        let plan = self.removal(&mut transaction, module).await?;
        if plan.in_force {
            drop(transaction);
            let position = self.record().end().await?;
            return Ok(Applied { module: plan.module, nodes: Vec::new(), position });
        }
        if plan.index != *index {
            return Err(Refusal::WorldMoved.into());
        }
        modules::put_out_of_force(&mut transaction, module).await.map_err(|error| self.failed(error))?;
        self.carry_out(&mut transaction, &plan).await?;
        modules::forget_gone(&mut transaction).await.map_err(|error| self.failed(error))?;
        let changed = plan.changed();
        let change =
            Change::Removed { module: module.clone(), changed: changed.clone(), by: who.to_string() };
        let now = self.now();
        let position = self.finish(transaction, now, [change]).await?;
        Ok(Applied { module: module.clone(), nodes: changed, position })
    }

    fn resolve(&self, manifest: Manifest) -> Result<Module, Refusal> {
        Module::resolve(manifest, self.catalogue()).map_err(Refusal::Manifest)
    }

    /// Writes down where a plan puts its module.
    pub(crate) async fn carry_out(&self, transaction: &mut Transaction, plan: &Plan) -> Result<(), Error> {
        let revisions =
            nodes::raise_revisions(transaction, &plan.changed()).await.map_err(|error| self.failed(error))?;
        modules::assign(transaction, &plan.module, &plan.placed, &revisions)
            .await
            .map_err(|error| self.failed(error))
    }
}
