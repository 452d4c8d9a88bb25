//! Rows of nodes.

use std::collections::BTreeMap;

use mesh_ids::{Generation, NodeName, Position, Timestamp};
use mesh_wire::Facts;
use sqlx::{PgConnection, Row, postgres::PgRow, query, types::Json};

use super::{from_sql, names, read, to_sql};
use crate::domain::{Held, NodeState, OpenDrift};

/// A node, as its row has it.
#[derive(Debug, Clone)]
pub(crate) struct StoredNode {
    pub name: NodeName,
    pub labels: BTreeMap<String, String>,
    pub joined: bool,
    pub state: NodeState,
    pub last_heard: Option<Timestamp>,
    pub host_version: Option<String>,
    pub facts: Option<Facts>,
    pub carried: Vec<u16>,
    pub accepted: Option<Position>,
    pub held: Held,
    /// Why what was decided about it could not be declared; empty where nothing is in the way.
    pub undeclared: String,
}

/// How a node is heard, as its row has it.
#[derive(Debug, Clone)]
pub(crate) struct StoredHearing {
    pub name: NodeName,
    pub joined: bool,
    pub state: NodeState,
    pub last_heard: Option<Timestamp>,
}

/// A node that was heard.
#[derive(Debug, Clone)]
pub(crate) struct HeardNode {
    pub name: NodeName,
    pub at: Timestamp,
    pub accepted: Option<Position>,
}

const NODE: &str =
    "SELECT name, labels, joined, state, last_heard_ms, host_version, facts, carried, accepted, report_count,
    reported, applied, failed, refused, drift_count, drift_open, undeclared FROM nodes";

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

/// How these nodes are heard, their rows held until the transaction ends. By name, so that nobody waits in a circle.
pub(crate) async fn lock_hearing(
    db: &mut PgConnection,
    nodes: &[NodeName],
) -> Result<Vec<StoredHearing>, sqlx::Error> {
    let statement =
        "SELECT name, joined, state, last_heard_ms FROM nodes WHERE name = ANY($1) ORDER BY name FOR UPDATE";
    let rows = query(statement).bind(names(nodes)).fetch_all(db).await?;
    rows.iter().map(hearing).collect()
}

/// The nodes that may have become silent: last heard before this moment and not yet known to be unreachable.
pub(crate) async fn silent(db: &mut PgConnection, before: Timestamp) -> Result<Vec<NodeName>, sqlx::Error> {
    let statement =
        "SELECT name FROM nodes WHERE state IN ('connected', 'quiet') AND last_heard_ms < $1 ORDER BY name";
    let rows = query(statement).bind(before.unix_ms()).fetch_all(db).await?;
    rows.iter().map(|row| read(row.try_get("name")?)).collect()
}

/// These were heard: all in one statement.
pub(crate) async fn mark_heard(db: &mut PgConnection, heard: &[HeardNode]) -> Result<(), sqlx::Error> {
    let names: Vec<String> = heard.iter().map(|heard| heard.name.to_string()).collect();
    let moments: Vec<i64> = heard.iter().map(|heard| heard.at.unix_ms()).collect();
    let accepted: Vec<Option<Json<Position>>> = heard.iter().map(|heard| heard.accepted.map(Json)).collect();
    query(
        "UPDATE nodes SET state = 'connected', last_heard_ms = greatest(last_heard_ms, heard.at),
             accepted = coalesce(heard.accepted, nodes.accepted)
         FROM unnest($1::text[], $2::bigint[], $3::jsonb[]) AS heard (name, at, accepted)
         WHERE nodes.name = heard.name",
    )
    .bind(names)
    .bind(moments)
    .bind(accepted)
    .execute(db)
    .await?;
    Ok(())
}

/// A node's state is this now.
pub(crate) async fn set_state(
    db: &mut PgConnection,
    name: &NodeName,
    state: NodeState,
) -> Result<(), sqlx::Error> {
    let statement = "UPDATE nodes SET state = $2 WHERE name = $1";
    query(statement).bind(name.as_str()).bind(state.as_str()).execute(db).await?;
    Ok(())
}

/// Keeps why what was decided about a node could not be declared; empty: nothing is in the way. False where that was known.
pub(crate) async fn set_undeclared(
    db: &mut PgConnection,
    name: &NodeName,
    reason: &str,
) -> Result<bool, sqlx::Error> {
    let statement = "UPDATE nodes SET undeclared = $2 WHERE name = $1 AND undeclared <> $2";
    Ok(query(statement).bind(name.as_str()).bind(reason).execute(db).await?.rows_affected() > 0)
}

/// Keeps what a report said.
pub(crate) async fn save_report(
    db: &mut PgConnection,
    name: &NodeName,
    held: &Held,
    accepted: Option<Position>,
    report: &mesh_wire::Report,
) -> Result<(), sqlx::Error> {
    let open: BTreeMap<u64, &str> =
        held.open.iter().map(|(number, drift)| (*number, drift.resource.as_str())).collect();
    query(
        "UPDATE nodes SET report_count = $2, reported = $3, applied = $4, failed = $5, refused = $6, drift_count = $7,
             drift_open = $8, carried = $9, host_version = coalesce($10, host_version), facts = coalesce($11, facts),
             accepted = $12
         WHERE name = $1",
    )
    .bind(name.as_str())
    .bind(held.count.map(to_sql))
    .bind(held.position.map(Json))
    .bind(&held.applied)
    .bind(Json(&held.failed))
    .bind(&held.refused)
    .bind(to_sql(held.drift))
    .bind(Json(open))
    .bind(report.carried.iter().map(|port| i32::from(*port)).collect::<Vec<_>>())
    .bind(&report.host_version)
    .bind(report.facts.as_ref().map(Json))
    .bind(accepted.map(Json))
    .execute(db)
    .await?;
    Ok(())
}

/// A name was invited. What stands under it is left, save for the labels while it has not joined.
pub(crate) async fn invite(
    db: &mut PgConnection,
    name: &NodeName,
    labels: &BTreeMap<String, String>,
) -> Result<(), sqlx::Error> {
    query(
        "INSERT INTO nodes (name, labels) VALUES ($1, $2)
         ON CONFLICT (name) DO UPDATE SET labels = excluded.labels WHERE NOT nodes.joined",
    )
    .bind(name.as_str())
    .bind(Json(labels))
    .execute(db)
    .await?;
    Ok(())
}

/// A machine has become this node: what an earlier machine of the name said is forgotten.
pub(crate) async fn join(
    db: &mut PgConnection,
    name: &NodeName,
    labels: &BTreeMap<String, String>,
    host_version: &str,
) -> Result<(), sqlx::Error> {
    query(
        "INSERT INTO nodes (name, labels, joined, host_version) VALUES ($1, $2, true, $3)
         ON CONFLICT (name) DO UPDATE SET labels = $2, joined = true, host_version = $3, state = 'joining',
             last_heard_ms = NULL, accepted = NULL, report_count = NULL, reported = NULL, applied = '{}', failed = '{}',
             refused = '', drift_count = 0, drift_open = '{}', undeclared = ''",
    )
    .bind(name.as_str())
    .bind(Json(labels))
    .bind(host_version)
    .execute(db)
    .await?;
    Ok(())
}

/// The node begins to count its reports and its drift anew, unless it reported in this generation already.
pub(crate) async fn begin_anew(
    db: &mut PgConnection,
    name: &NodeName,
    generation: Generation,
) -> Result<(), sqlx::Error> {
    let statement = "UPDATE nodes SET report_count = NULL, drift_count = 0, drift_open = '{}'
         WHERE name = $1 AND coalesce((reported->>'generation')::bigint < $2, true)";
    query(statement).bind(name.as_str()).bind(to_sql(generation.get())).execute(db).await?;
    Ok(())
}

/// Forgets a node; only where it has not joined, if so wished.
pub(crate) async fn forget(
    db: &mut PgConnection,
    name: &NodeName,
    only_unjoined: bool,
) -> Result<(), sqlx::Error> {
    let statement = "DELETE FROM nodes WHERE name = $1 AND NOT (joined AND $2)";
    query(statement).bind(name.as_str()).bind(only_unjoined).execute(db).await?;
    Ok(())
}

/// A new revision for each of these nodes.
pub(crate) async fn raise_revisions(
    db: &mut PgConnection,
    nodes: &[NodeName],
) -> Result<BTreeMap<NodeName, i64>, sqlx::Error> {
    lock_hearing(db, nodes).await?;
    let statement = "UPDATE nodes SET revision = revision + 1 WHERE name = ANY($1) RETURNING name, revision";
    let rows = query(statement).bind(names(nodes)).fetch_all(db).await?;
    rows.iter().map(|row| Ok((read(row.try_get("name")?)?, row.try_get("revision")?))).collect()
}

fn state(row: &PgRow) -> Result<NodeState, sqlx::Error> {
    let word: &str = row.try_get("state")?;
    let known = NodeState::ALL.iter().find(|state| state.as_str() == word);
    known.copied().ok_or_else(|| sqlx::Error::Decode(format!("{word:?} is no state of a node").into()))
}

fn hearing(row: &PgRow) -> Result<StoredHearing, sqlx::Error> {
    Ok(StoredHearing {
        name: read(row.try_get("name")?)?,
        joined: row.try_get("joined")?,
        state: state(row)?,
        last_heard: row.try_get::<Option<i64>, _>("last_heard_ms")?.map(Timestamp::from_unix_ms),
    })
}

fn node(row: &PgRow) -> Result<StoredNode, sqlx::Error> {
    let position = |column: &str| -> Result<Option<Position>, sqlx::Error> {
        Ok(row.try_get::<Option<Json<Position>>, _>(column)?.map(|Json(position)| position))
    };
    let Json(open) = row.try_get::<Json<BTreeMap<u64, String>>, _>("drift_open")?;
    let open = open.into_iter().map(|(number, id)| Ok((number, OpenDrift { resource: read(&id)? })));
    let carried: Vec<i32> = row.try_get("carried")?;
    let StoredHearing { name, joined, state, last_heard } = hearing(row)?;
    Ok(StoredNode {
        name,
        state,
        last_heard,
        labels: row.try_get::<Json<_>, _>("labels")?.0,
        joined,
        host_version: row.try_get("host_version")?,
        facts: row.try_get::<Option<Json<Facts>>, _>("facts")?.map(|Json(facts)| facts),
        undeclared: row.try_get("undeclared")?,
        carried: carried.into_iter().filter_map(|port| u16::try_from(port).ok()).collect(),
        accepted: position("accepted")?,
        held: Held {
            count: row.try_get::<Option<i64>, _>("report_count")?.map(from_sql),
            position: position("reported")?,
            applied: row.try_get("applied")?,
            failed: row.try_get::<Json<_>, _>("failed")?.0,
            refused: row.try_get("refused")?,
            drift: from_sql(row.try_get("drift_count")?),
            open: open.collect::<Result<_, sqlx::Error>>()?,
        },
    })
}
