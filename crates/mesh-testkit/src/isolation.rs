//! The proof that a role reaches its own database and no other, tried and not read off.
//!
//! Never creates roles: how a role is made is the business of whoever makes it (the host's `database` kind on a
//! node, [`crate::Postgres::context`] in tests); the same proof runs over both.
//! Called by: tests of mesh-store and of the host's `database` kind.

use std::str::FromStr;

use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions, Connection, Row};

/// SQLSTATE `insufficient_privilege`: the server knew the role, checked its password and refused the database.
const REFUSED: &str = "42501";

/// Checks that the role of `url` reaches the database of `url` and that the server refuses it every other one,
/// `postgres` and `template1` among them. `others` must be among those tried: a neighbour that does not exist
/// would prove nothing. Returns the names of the databases tried; `Err` says what the role can do and should not.
pub async fn check_isolated(url: &str, others: &[&str]) -> Result<Vec<String>, String> {
    let options = PgConnectOptions::from_str(url).map_err(|why| format!("cannot read the url: {why}"))?;
    let mut own =
        options.connect().await.map_err(|why| format!("the role cannot reach its own database: {why}"))?;

    let row = sqlx::query(
        "SELECT rolsuper OR rolcreatedb OR rolcreaterole OR rolreplication OR rolbypassrls AS powers,
                EXISTS (SELECT FROM pg_auth_members m WHERE m.member = r.oid) AS member
         FROM pg_roles r WHERE rolname = current_user",
    )
    .fetch_one(&mut own)
    .await
    .map_err(|why| format!("cannot ask what the role may do: {why}"))?;
    if row.get("powers") {
        return Err(
            "the role may do more than log in (superuser, createdb, createrole, replication or bypassrls)"
                .to_owned(),
        );
    }
    if row.get("member") {
        return Err("the role is a member of another role and can act as it".to_owned());
    }

    let databases: Vec<String> = sqlx::query_scalar(
        "SELECT datname::text FROM pg_database WHERE datallowconn AND datname <> current_database()",
    )
    .fetch_all(&mut own)
    .await
    .map_err(|why| format!("cannot list the databases: {why}"))?;
    own.close().await.map_err(|why| format!("cannot close the connection: {why}"))?;

    for expected in others.iter().chain(&["postgres", "template1"]) {
        if !databases.iter().any(|name| name == expected) {
            return Err(format!("database {expected} does not exist, so trying it proves nothing"));
        }
    }
    for database in &databases {
        match options.clone().database(database).connect().await {
            Ok(_) => return Err(format!("the role can connect to database {database}")),
            Err(sqlx::Error::Database(refusal)) if refusal.code().as_deref() == Some(REFUSED) => {}
            Err(other) => {
                return Err(format!("database {database} did not refuse the role, it failed: {other}"));
            }
        }
    }
    Ok(databases)
}

/// [`check_isolated`], as an assertion.
pub async fn assert_isolated(url: &str, others: &[&str]) {
    if let Err(why) = check_isolated(url, others).await {
        panic!("not isolated: {why}");
    }
}
