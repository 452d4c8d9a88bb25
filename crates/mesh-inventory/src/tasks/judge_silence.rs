//! Which nodes have become silent.

use std::time::Duration;

use mesh_ids::Timestamp;

use crate::{
    Error, Inventory,
    domain::judge,
    store::nodes::{lock_hearing, set_state, silent},
};

/// No node that was heard since is silent, whatever a state needs.
const SHORTEST_SILENCE: Duration = Duration::from_secs(15);

impl Inventory {
    /// Judges who is quiet and who is unreachable, and records it once. `listening_since` is when this control plane began
    /// to hear its nodes; `None` while it does not, and then nobody is judged.
    pub async fn judge_silence(&self, listening_since: Option<Timestamp>) -> Result<(), Error> {
        let (now, Some(listening_since)) = (self.now(), listening_since) else { return Ok(()) };
        let before = Timestamp::from_unix_ms(
            now.unix_ms() - i64::try_from(SHORTEST_SILENCE.as_millis()).unwrap_or_default(),
        );
        let mut db = self.connection().await?;
        let candidates = silent(&mut db, before).await.map_err(|error| self.failed(error))?;
        drop(db);
        if candidates.is_empty() {
            return Ok(());
        }
        let mut transaction = self.begin().await?;
        let mut changes = Vec::new();
        let held = lock_hearing(&mut transaction, &candidates).await.map_err(|error| self.failed(error))?;
        for node in held {
            let judged = judge(&node.name, node.state, node.last_heard, listening_since, now);
            if let Some((state, change)) = judged {
                set_state(&mut transaction, &node.name, state).await.map_err(|error| self.failed(error))?;
                changes.push(change);
            }
        }
        self.finish(transaction, now, changes).await.map(drop)
    }
}
