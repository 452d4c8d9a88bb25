//! What becomes of a ledger that cannot be read: who may begin a new one, and what of the old one it takes over.
//!
//! Everything that could still be read is taken over. Only what is still declared as the same thing is taken for the
//! host's own, though: whether an entry was removed later is not known, and to put back what stood there before could
//! overwrite what is somebody else's by now. The others are left on the machine as they are, and named. Copies of what
//! stood there before are all kept. Called by [`super::Host`] and by the bootstrap.

#[cfg(test)]
mod tests;

use mesh_ids::ResourceId;
use mesh_wire::{Drift, Resource};

use super::Host;
use crate::{
    failure::Failure,
    ledger::{Entry, Memory, Origin, Record},
    reconcile::{Declared, Ways, is_same_thing},
};

/// What a node says of itself after a person at the machine began its ledger anew.
pub(super) const DOUBTED: &str = "the ledger of this node was begun anew, so it is not known what was followed last: what \
                                  is assigned is kept as it is until a higher generation comes ('mesh node recover')";

impl Host {
    /// An error where the ledger cannot be read. `so`: what is not done then.
    pub fn refuse_unreadable(&self, so: &str) -> Result<(), Failure> {
        let Some((reason, _)) = self.ledger.unreadable() else { return Ok(()) };
        let next = match (self.node(), &self.ledger.left()) {
            (_, None) => "install the mesh-host that wrote it".to_owned(),
            (Some(node), _) => {
                format!("run 'mesh node recover {node}' where the mesh is administered, then again")
            }
            (None, _) => format!(
                "where the machine is a node, run 'mesh node recover NAME' where the mesh is administered; where it is \
                 none any more, move {} and {} away, and what the host had put on the machine stays there as yours",
                self.paths.ledger().display(),
                self.paths.ledger_note().display()
            ),
        };
        Err(Failure::new(format!("the ledger of this machine cannot be read ({reason}), so {so}: {next}")))
    }

    /// What the machine carries, as far as it can be read.
    pub fn carried_before(&self) -> &[Resource] {
        &self.ledger.left().unwrap_or(self.ledger.memory()).carried
    }

    /// Begins a new ledger over one that cannot be read, for a person at the machine who says what it carries. What is
    /// assigned is left as it is until a higher generation is declared. Nothing where the ledger can be read.
    pub async fn begin_to_carry(&mut self, resources: &[Resource]) -> Result<(), Failure> {
        let held = self.hold().await?;
        if self.ledger.unreadable().is_some() {
            self.recover(Record::Carried { resources: resources.to_vec() }, None)?;
            self.load();
        }
        drop(held);
        Ok(())
    }

    /// Takes over into a new ledger what could still be read of the old one; where it was begun anew before, settles what
    /// was left open then. `first`: what it is begun for. `assigned`: what the mesh declares; `None` where that is not
    /// known.
    pub(super) fn recover(&mut self, first: Record, assigned: Option<&[Declared]>) -> Result<(), Failure> {
        let unreadable = self.ledger.unreadable().is_some();
        self.refuse_newer()?;
        let mut memory = self.ledger.left().unwrap_or(self.ledger.memory()).clone();
        memory.take(first.clone());
        let carried: Vec<Declared> = memory.carried.iter().cloned().map(Ok).collect();
        let ways = Ways::of(&self.machine);
        let left_alone = left_alone(
            &memory,
            &ways.lead_all(&carried),
            assigned.map(|list| ways.lead_all(list)).as_deref(),
        );
        let now = self.number_of_now();
        let last_drift = memory.last_drift.max(now);
        let mut records = Vec::new();
        for (number, (origin, id)) in (last_drift + 1..).zip(left_alone) {
            tracing::warn!(%origin, %id, "its place in the ledger is not certain: it is left as it is, and no longer kept");
            let found =
                vec!["the ledger was damaged: what is there is left as it is and no longer kept".to_owned()];
            let resource = id.clone();
            // Found and settled at once: nothing more will come of it.
            let drift =
                Drift { number, resource, noticed_at: self.now(), found, repaired_at: Some(self.now()) };
            records.extend([Record::Removed { origin, id }, Record::Drift(drift)]);
        }
        if unreadable {
            records.push(Record::Salvaged { kept: self.machine.files.all_kept()? });
            let reports = memory.reports.max(self.next_report).max(now);
            records.push(Record::Counted { reports, drift: last_drift, change: 0, floor: i64::MIN });
            if assigned.is_none() && self.trust.is_some() {
                records.push(Record::Doubted);
            }
        }
        // Last: were the others lost to a power cut, this has not happened either.
        records.push(first);
        if unreadable {
            self.ledger.begin_anew(records)?;
            self.next_report = self.ledger.memory().reports;
            self.carried = carried;
            Ok(())
        } else {
            self.ledger.write(records)?;
            self.ledger.commit()
        }
    }

    fn refuse_newer(&self) -> Result<(), Failure> {
        if self.ledger.unreadable().is_some() && self.ledger.left().is_none() {
            return self.refuse_unreadable("no new one is begun");
        }
        Ok(())
    }
}

/// The entries of what nobody declares any more, or declares as another thing.
fn left_alone(
    memory: &Memory,
    carried: &[Declared],
    assigned: Option<&[Declared]>,
) -> Vec<(Origin, ResourceId)> {
    let is_declared = |entry: &Entry| {
        let list = match entry.origin {
            Origin::Carried => Some(carried),
            Origin::Assigned => assigned,
        };
        // Of what is not known nothing is given up.
        list.is_none_or(|list| {
            list.iter().any(|declared| match declared {
                Ok(resource) => resource.id == entry.resource.id && is_same_thing(entry, &resource.spec),
                Err(unreadable) => unreadable.id == entry.resource.id.as_str(),
            })
        })
    };
    let left_alone = memory.entries.values().filter(|entry| !is_declared(entry));
    left_alone.map(|entry| (entry.origin, entry.resource.id.clone())).collect()
}
