//! What is only observed: looked at, told once for as long as it stays the same, never touched.

use mesh_wire::Drift;

use super::{Round, Todo};
use crate::{
    failure::Failure,
    ledger::{Entry, Record},
    reconcile::prepare::{is_same_thing, prepare_observed},
};

impl Round<'_> {
    /// What is no longer observed no longer stands, whatever becomes of it.
    pub(super) fn end_observations(&mut self) -> Result<(), Failure> {
        let at = self.desired.now;
        let standing = self.ledger.memory().standing.keys();
        let over = standing.filter(|(origin, id)| self.desired.observes(*origin, id) == Some(false));
        let records: Vec<Record> =
            over.map(|(origin, id)| Record::Agrees { origin: *origin, id: id.clone(), at }).collect();
        self.ledger.write(records)
    }

    /// Looks at a resource that is only observed.
    pub(super) async fn observe(&mut self, todo: &Todo<'_>) -> Result<(), Failure> {
        self.let_go(todo)?;
        let key = todo.key();
        let found = match prepare_observed(self.scope, todo.origin, todo.resource).await {
            Ok(found) => found,
            Err(why) => {
                self.fail(&key, why.during("look at it"));
                return Ok(());
            }
        };
        let standing = self.ledger.memory().standing.get(&key);
        let mut records = Vec::new();
        if standing.is_some_and(|drift| drift.found != found) {
            records.push(Record::Agrees { origin: key.0, id: key.1.clone(), at: self.desired.now });
        }
        if !found.is_empty() && standing.is_none_or(|drift| drift.found != found) {
            tracing::info!(resource = %key.1, found = found.join("; "), "other than declared, and only observed");
            self.outcome.drifted += 1;
            let drift = Drift {
                number: self.ledger.memory().last_drift + 1,
                resource: key.1.clone(),
                noticed_at: self.desired.now,
                found: found.clone(),
                repaired_at: None,
            };
            records.push(Record::Differs { origin: key.0, drift, told: false });
        }
        self.ledger.write(records)?;
        self.outcome.observed.insert(key, found);
        Ok(())
    }

    /// What the host kept as declared and now only observes stays as it is. What stood there before it is kept, for the day
    /// on which it is kept as declared again.
    fn let_go(&mut self, todo: &Todo<'_>) -> Result<(), Failure> {
        let Some(entry) = self.ledger.memory().entries.get(&todo.key()) else { return Ok(()) };
        if entry.resource == *todo.resource || !is_same_thing(entry, &todo.resource.spec) {
            return Ok(());
        }
        let (resource, entry) = (todo.resource.clone(), entry.clone());
        let entry = Entry { resource, complete: false, restarting: false, drift: None, ..entry };
        let mut records = self.repaired(todo);
        records.push(Record::Entry(Box::new(entry)));
        self.ledger.write(records)
    }
}
