//! Rows of modules, their contents, and where they belong.

use std::collections::{BTreeMap, BTreeSet};

use mesh_ids::{Digest, ModuleName, ModuleVersion, NodeName, Position, Timestamp};
use mesh_manifest::{Manifest, Module};
use sqlx::{PgConnection, Row, query, types::Json};

use super::read;
use crate::domain::Assignment;

/// "meshplan": held by whoever decides what is where, until the transaction ends.
const LOCK: i64 = 0x6d65_7368_706c_616e;

/// A module that is in force or leaving.
#[derive(Debug, Clone)]
pub(crate) struct StoredModule {
    pub name: ModuleName,
    pub digest: Digest,
    pub version: ModuleVersion,
    pub leaving: bool,
}

/// A module on a node.
#[derive(Debug, Clone)]
pub(crate) struct StoredAssignment {
    pub module: ModuleName,
    pub node: NodeName,
    pub assignment: Assignment,
}

/// Has others that would decide what is where wait until this transaction ends.
pub(crate) async fn lock_decisions(db: &mut PgConnection) -> Result<(), sqlx::Error> {
    query("SELECT pg_advisory_xact_lock($1)").bind(LOCK).execute(db).await?;
    Ok(())
}

/// Every module, by name.
pub(crate) async fn all(db: &mut PgConnection) -> Result<Vec<StoredModule>, sqlx::Error> {
    let statement = "SELECT modules.name, modules.digest, modules.leaving, versions.version
         FROM modules JOIN versions USING (digest) ORDER BY modules.name";
    let rows = query(statement).fetch_all(db).await?;
    rows.iter()
        .map(|row| {
            Ok(StoredModule {
                name: read(row.try_get("name")?)?,
                digest: read(row.try_get("digest")?)?,
                version: read(row.try_get("version")?)?,
                leaving: row.try_get("leaving")?,
            })
        })
        .collect()
}

/// Which module is where, by module and node.
pub(crate) async fn assignments(db: &mut PgConnection) -> Result<Vec<StoredAssignment>, sqlx::Error> {
    let statement = "SELECT module, node, leaving, declared FROM assignments ORDER BY module, node";
    let rows = query(statement).fetch_all(db).await?;
    rows.iter().map(assignment).collect()
}

/// What is leaving a node.
pub(crate) async fn leaving(
    db: &mut PgConnection,
    node: &NodeName,
) -> Result<Vec<StoredAssignment>, sqlx::Error> {
    let statement = "SELECT module, node, leaving, declared FROM assignments WHERE node = $1 AND leaving";
    let rows = query(statement).bind(node.as_str()).fetch_all(db).await?;
    rows.iter().map(assignment).collect()
}

fn assignment(row: &sqlx::postgres::PgRow) -> Result<StoredAssignment, sqlx::Error> {
    let declared: Option<Json<Position>> = row.try_get("declared")?;
    Ok(StoredAssignment {
        module: read(row.try_get("module")?)?,
        node: read(row.try_get("node")?)?,
        assignment: Assignment {
            position: declared.map(|Json(position)| position),
            leaving: row.try_get("leaving")?,
        },
    })
}

/// What is to be on a node: the node's revision and the contents in force there, by module. One statement, so that both
/// are of one moment. `None`: there is no such node.
pub(crate) async fn wanted_on(
    db: &mut PgConnection,
    node: &NodeName,
) -> Result<Option<(i64, Vec<Digest>)>, sqlx::Error> {
    let statement = "SELECT nodes.revision, modules.digest FROM nodes
         LEFT JOIN assignments ON assignments.node = nodes.name AND NOT assignments.leaving
         LEFT JOIN modules ON modules.name = assignments.module
         WHERE nodes.name = $1 ORDER BY modules.name";
    let rows = query(statement).bind(node.as_str()).fetch_all(db).await?;
    let Some(first) = rows.first() else { return Ok(None) };
    let digests = rows.iter().map(|row| row.try_get::<Option<&str>, _>("digest").transpose());
    let digests = digests.flatten().map(|digest| read(digest?)).collect::<Result<_, sqlx::Error>>()?;
    Ok(Some((first.try_get("revision")?, digests)))
}

/// Whether some content of a module of this name was ever kept.
pub(crate) async fn was_there(db: &mut PgConnection, module: &ModuleName) -> Result<bool, sqlx::Error> {
    let statement = "SELECT EXISTS (SELECT FROM versions WHERE module = $1)";
    sqlx::query_scalar(statement).bind(module.as_str()).fetch_one(db).await
}

/// The contents of these digests.
pub(crate) async fn contents(
    db: &mut PgConnection,
    digests: &BTreeSet<Digest>,
) -> Result<BTreeMap<Digest, Module>, sqlx::Error> {
    let wanted: Vec<String> = digests.iter().map(ToString::to_string).collect();
    let statement = "SELECT digest, manifest FROM versions WHERE digest = ANY($1)";
    let rows = query(statement).bind(wanted).fetch_all(db).await?;
    rows.iter()
        .map(|row| {
            let manifest: Manifest = serde_json::from_str(row.try_get("manifest")?)
                .map_err(|error| sqlx::Error::Decode(error.into()))?;
            let module = Module::of_resolved(manifest).map_err(|error| sqlx::Error::Decode(error.into()))?;
            Ok((read(row.try_get("digest")?)?, module))
        })
        .collect()
}

/// Keeps a content, if it is not kept already.
pub(crate) async fn keep_content(
    db: &mut PgConnection,
    module: &Module,
    now: Timestamp,
) -> Result<(), sqlx::Error> {
    let manifest =
        serde_json::to_string(module.manifest()).map_err(|error| sqlx::Error::Encode(error.into()))?;
    query(
        "INSERT INTO versions (digest, module, version, manifest, kept_ms) VALUES ($1, $2, $3, $4, $5)
         ON CONFLICT (digest) DO NOTHING",
    )
    .bind(module.digest().as_str())
    .bind(module.name().as_str())
    .bind(module.manifest().version.as_str())
    .bind(manifest)
    .bind(now.unix_ms())
    .execute(db)
    .await?;
    Ok(())
}

/// This content of the module is in force.
pub(crate) async fn put_in_force(db: &mut PgConnection, module: &Module) -> Result<(), sqlx::Error> {
    query(
        "INSERT INTO modules (name, digest) VALUES ($1, $2)
         ON CONFLICT (name) DO UPDATE SET digest = $2, leaving = false",
    )
    .bind(module.name().as_str())
    .bind(module.digest().as_str())
    .execute(db)
    .await?;
    Ok(())
}

/// The module is leaving every node.
pub(crate) async fn put_out_of_force(db: &mut PgConnection, module: &ModuleName) -> Result<(), sqlx::Error> {
    query("UPDATE modules SET leaving = true WHERE name = $1").bind(module.as_str()).execute(db).await?;
    Ok(())
}

/// Where a module belongs from now on. Where something changes, the decision is of the node's new revision and no
/// declaration carries it yet.
pub(crate) async fn assign(
    db: &mut PgConnection,
    module: &ModuleName,
    placed: &BTreeSet<NodeName>,
    revisions: &BTreeMap<NodeName, i64>,
) -> Result<(), sqlx::Error> {
    for (node, revision) in revisions {
        query(
            "INSERT INTO assignments (module, node, leaving, revision) VALUES ($1, $2, $3, $4)
             ON CONFLICT (module, node) DO UPDATE SET leaving = $3, revision = $4, declared = NULL",
        )
        .bind(module.as_str())
        .bind(node.as_str())
        .bind(!placed.contains(node))
        .bind(revision)
        .execute(&mut *db)
        .await?;
    }
    Ok(())
}

/// The declaration at `position` carries what was decided about a node up to `revision`.
pub(crate) async fn mark_declared(
    db: &mut PgConnection,
    node: &NodeName,
    revision: i64,
    position: Position,
) -> Result<(), sqlx::Error> {
    let statement =
        "UPDATE assignments SET declared = $3 WHERE node = $1 AND revision <= $2 AND declared IS NULL";
    query(statement).bind(node.as_str()).bind(revision).bind(Json(position)).execute(db).await?;
    Ok(())
}

/// These modules have left the node.
pub(crate) async fn has_left(
    db: &mut PgConnection,
    node: &NodeName,
    modules: &[ModuleName],
) -> Result<(), sqlx::Error> {
    let modules: Vec<String> = modules.iter().map(ToString::to_string).collect();
    let statement = "DELETE FROM assignments WHERE node = $1 AND module = ANY($2) AND leaving";
    query(statement).bind(node.as_str()).bind(modules).execute(db).await?;
    Ok(())
}

/// Forgets what is leaving nodes on which it never was, and modules that have left everywhere.
pub(crate) async fn forget_gone(db: &mut PgConnection) -> Result<(), sqlx::Error> {
    let unjoined = "DELETE FROM assignments USING nodes
         WHERE assignments.node = nodes.name AND assignments.leaving AND NOT nodes.joined";
    query(unjoined).execute(&mut *db).await?;
    let gone = "DELETE FROM modules WHERE leaving
         AND NOT EXISTS (SELECT FROM assignments WHERE assignments.module = modules.name)";
    query(gone).execute(db).await?;
    Ok(())
}
