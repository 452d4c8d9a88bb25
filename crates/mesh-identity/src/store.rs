//! The only place with SQL. Reads and writes rows; decides nothing, begins and ends no transaction.

pub(crate) mod administrators;
pub(crate) mod declarations;
pub(crate) mod nodes;
pub(crate) mod tokens;

use std::{error::Error, str::FromStr};

/// What a row holds as text, as what it is. Another program's hand in the store shows here.
fn read<T: FromStr<Err: Error + Send + Sync + 'static>>(text: &str) -> Result<T, sqlx::Error> {
    text.parse().map_err(|error| sqlx::Error::Decode(Box::new(error)))
}

/// PostgreSQL has no unsigned numbers; a number that does not fit is one nobody counted to.
fn to_sql(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn from_sql(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
