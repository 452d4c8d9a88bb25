//! The only place with SQL. Reads and writes rows; decides nothing, begins and ends no transaction.

pub(crate) mod modules;
pub(crate) mod nodes;

use std::{error::Error, str::FromStr};

use mesh_ids::NodeName;
use sqlx::PgConnection;

/// Has everything that this transaction reads be of one moment.
pub(crate) async fn as_snapshot(db: &mut PgConnection) -> Result<(), sqlx::Error> {
    sqlx::query("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY").execute(db).await?;
    Ok(())
}

/// What a row holds as text, as what it is. Another program's hand in the store shows here.
fn read<T: FromStr<Err: Error + Send + Sync + 'static>>(text: &str) -> Result<T, sqlx::Error> {
    text.parse().map_err(|error| sqlx::Error::Decode(Box::new(error)))
}

fn names(nodes: &[NodeName]) -> Vec<String> {
    nodes.iter().map(ToString::to_string).collect()
}

/// PostgreSQL has no unsigned numbers; a number that does not fit is one nobody counted to.
fn to_sql(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn from_sql(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
