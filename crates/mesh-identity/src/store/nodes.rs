//! Rows of nodes and their histories.

use std::collections::BTreeMap;

use mesh_ids::{Generation, NodeName, Timestamp};
use mesh_seal::VerifyingKey;
use sqlx::{PgConnection, Row, postgres::PgRow, query, query_scalar, types::Json};

use super::{from_sql, read};

/// A node, as its row has it.
#[derive(Debug, Clone)]
pub(crate) struct StoredNode {
    pub name: NodeName,
    pub identity_key: VerifyingKey,
    pub sealing_key: String,
    pub tunnel_key: String,
    pub labels: BTreeMap<String, String>,
    pub joined: Timestamp,
    pub password_hash: String,
    pub password_sealed: String,
}

const NODE: &str =
    "SELECT name, identity_key, sealing_key, tunnel_key, labels, joined_ms, password_hash, password_sealed
    FROM nodes";

/// "meshname": held by whoever gives a name away, until the transaction ends. A name that is nobody's has no row to hold.
const LOCK: i64 = 0x6d65_7368_6e61_6d65;

/// Has others that would give a name away wait until this transaction ends.
pub(crate) async fn lock_names(db: &mut PgConnection) -> Result<(), sqlx::Error> {
    query("SELECT pg_advisory_xact_lock($1)").bind(LOCK).execute(db).await?;
    Ok(())
}

/// Every node, by name.
pub(crate) async fn all(db: &mut PgConnection) -> Result<Vec<StoredNode>, sqlx::Error> {
    let rows = query(sqlx::AssertSqlSafe(format!("{NODE} ORDER BY name"))).fetch_all(db).await?;
    rows.iter().map(node).collect()
}

/// One node.
pub(crate) async fn one(db: &mut PgConnection, name: &NodeName) -> Result<Option<StoredNode>, sqlx::Error> {
    let statement = sqlx::AssertSqlSafe(format!("{NODE} WHERE name = $1"));
    query(statement).bind(name.as_str()).fetch_optional(db).await?.as_ref().map(node).transpose()
}

/// One node, its row held until the transaction ends.
pub(crate) async fn lock(db: &mut PgConnection, name: &NodeName) -> Result<Option<StoredNode>, sqlx::Error> {
    let statement = sqlx::AssertSqlSafe(format!("{NODE} WHERE name = $1 FOR UPDATE"));
    query(statement).bind(name.as_str()).fetch_optional(db).await?.as_ref().map(node).transpose()
}

/// A new node, and a new generation for its name.
pub(crate) async fn put(db: &mut PgConnection, node: &StoredNode) -> Result<(), sqlx::Error> {
    query(
        "INSERT INTO nodes (name, identity_key, sealing_key, tunnel_key, labels, joined_ms, password_hash, password_sealed)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
    )
    .bind(node.name.as_str())
    .bind(node.identity_key.to_string())
    .bind(&node.sealing_key)
    .bind(&node.tunnel_key)
    .bind(Json(&node.labels))
    .bind(node.joined.unix_ms())
    .bind(&node.password_hash)
    .bind(&node.password_sealed)
    .execute(&mut *db)
    .await?;
    raise_generation(db, &node.name).await.map(drop)
}

/// Whether some node has this identity key.
pub(crate) async fn has_key(db: &mut PgConnection, key: &VerifyingKey) -> Result<bool, sqlx::Error> {
    let statement = "SELECT EXISTS (SELECT FROM nodes WHERE identity_key = $1)";
    query_scalar(statement).bind(key.to_string()).fetch_one(db).await
}

/// Forgets a node; its name's generation is kept. Whether it was there.
pub(crate) async fn remove(db: &mut PgConnection, name: &NodeName) -> Result<bool, sqlx::Error> {
    let done = query("DELETE FROM nodes WHERE name = $1").bind(name.as_str()).execute(db).await?;
    Ok(done.rows_affected() > 0)
}

/// The generation of a name.
pub(crate) async fn generation(db: &mut PgConnection, name: &NodeName) -> Result<Generation, sqlx::Error> {
    let statement = "SELECT generation FROM histories WHERE node = $1";
    let generation: i64 = query_scalar(statement).bind(name.as_str()).fetch_one(db).await?;
    Ok(Generation::new(from_sql(generation)))
}

/// A name's next generation; the first is 1.
pub(crate) async fn raise_generation(
    db: &mut PgConnection,
    name: &NodeName,
) -> Result<Generation, sqlx::Error> {
    let statement = "INSERT INTO histories (node, generation) VALUES ($1, 1)
         ON CONFLICT (node) DO UPDATE SET generation = histories.generation + 1 RETURNING generation";
    let generation: i64 = query_scalar(statement).bind(name.as_str()).fetch_one(db).await?;
    Ok(Generation::new(from_sql(generation)))
}

fn node(row: &PgRow) -> Result<StoredNode, sqlx::Error> {
    Ok(StoredNode {
        name: read(row.try_get("name")?)?,
        identity_key: read(row.try_get("identity_key")?)?,
        sealing_key: row.try_get("sealing_key")?,
        tunnel_key: row.try_get("tunnel_key")?,
        labels: row.try_get::<Json<_>, _>("labels")?.0,
        joined: Timestamp::from_unix_ms(row.try_get("joined_ms")?),
        password_hash: row.try_get("password_hash")?,
        password_sealed: row.try_get("password_sealed")?,
    })
}
