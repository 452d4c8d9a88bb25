//! The right to be the only process that works on a store, held for as long as one session lasts: a process that dies
//! gives it back, whatever else happens to it.
//!
//! Called by: mesh-control, so that two control planes started by mistake do not both serve.

use sqlx::{Connection as _, PgConnection};
use tokio::time::timeout;

use crate::{Store, StoreError, store::ATTEMPT_DEADLINE};

/// The advisory lock of whoever works alone. Advisory locks are of one database, so one number serves every context;
/// it is not the migrations', which a second process may run meanwhile.
const LOCK: i64 = 0x6d65_7368_0002;

/// Being the only one. Ends when dropped.
pub struct Alone {
    connection: PgConnection,
}

impl Store {
    /// Takes the right to be the only one; `None` where another process has it.
    pub async fn alone(&self) -> Result<Option<Alone>, StoreError> {
        let failed = |source| StoreError::from_sqlx(self, source);
        let mut connection = self.connect_apart().await.map_err(failed)?;
        let taken = sqlx::query_scalar::<_, bool>("SELECT pg_try_advisory_lock($1)").bind(LOCK);
        let taken = taken.fetch_one(&mut connection).await.map_err(failed)?;
        Ok(taken.then_some(Alone { connection }))
    }
}

impl Alone {
    /// Whether the right is still held: its session answers. Once it does not, the right has to be taken anew.
    pub async fn is_held(&mut self) -> bool {
        matches!(timeout(ATTEMPT_DEADLINE, self.connection.ping()).await, Ok(Ok(())))
    }
}
