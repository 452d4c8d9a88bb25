//! Rows of issued declarations.

use std::collections::BTreeMap;

use mesh_ids::{Epoch, Generation, NodeName, Position, Sequence, Timestamp};
use mesh_wire::Signed;
use sqlx::{PgConnection, Row, postgres::PgRow, query};

use super::{from_sql, read, to_sql};
use crate::domain::{Content, Stage};

/// A declaration that was issued, as its row has it.
#[derive(Debug, Clone)]
pub(crate) struct StoredDeclaration {
    pub position: Position,
    pub stage: Stage,
    pub content: Content,
    pub issued: Timestamp,
    pub not_after: Timestamp,
    pub signed: Signed,
}

/// The newest of a node.
pub(crate) async fn newest(
    db: &mut PgConnection,
    node: &NodeName,
) -> Result<Option<StoredDeclaration>, sqlx::Error> {
    let statement =
        "SELECT epoch, generation, sequence, stage, content, issued_ms, not_after_ms, bytes, signature
         FROM declarations WHERE node = $1 ORDER BY epoch DESC, generation DESC, sequence DESC LIMIT 1";
    query(statement).bind(node.as_str()).fetch_optional(db).await?.as_ref().map(declaration).transpose()
}

/// Where the newest of each node stands: one statement for all of them.
pub(crate) async fn newest_positions(
    db: &mut PgConnection,
) -> Result<BTreeMap<NodeName, Position>, sqlx::Error> {
    let statement = "SELECT DISTINCT ON (node) node, epoch, generation, sequence FROM declarations
         ORDER BY node, epoch DESC, generation DESC, sequence DESC";
    let rows = query(statement).fetch_all(db).await?;
    rows.iter().map(|row| Ok((read(row.try_get("node")?)?, position(row)?))).collect()
}

/// Keeps one, and of the older ones the newest, so many in all.
pub(crate) async fn put(
    db: &mut PgConnection,
    node: &NodeName,
    declaration: &StoredDeclaration,
    kept: i64,
) -> Result<(), sqlx::Error> {
    query(
        "INSERT INTO declarations
             (node, epoch, generation, sequence, stage, content, issued_ms, not_after_ms, bytes, signature)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
    )
    .bind(node.as_str())
    .bind(to_sql(declaration.position.epoch.get()))
    .bind(to_sql(declaration.position.generation.get()))
    .bind(to_sql(declaration.position.sequence.get()))
    .bind(declaration.stage.as_str())
    .bind(&declaration.content.0)
    .bind(declaration.issued.unix_ms())
    .bind(declaration.not_after.unix_ms())
    .bind(&declaration.signed.declaration)
    .bind(&declaration.signed.signature)
    .execute(&mut *db)
    .await?;
    query(
        "DELETE FROM declarations WHERE node = $1 AND (epoch, generation, sequence) < (
             SELECT epoch, generation, sequence FROM declarations WHERE node = $1
             ORDER BY epoch DESC, generation DESC, sequence DESC LIMIT 1 OFFSET $2)",
    )
    .bind(node.as_str())
    .bind(kept - 1)
    .execute(db)
    .await?;
    Ok(())
}

fn declaration(row: &PgRow) -> Result<StoredDeclaration, sqlx::Error> {
    Ok(StoredDeclaration {
        position: position(row)?,
        stage: match row.try_get("stage")? {
            "foundation" => Stage::Foundation,
            _ => Stage::Rest,
        },
        content: Content(row.try_get("content")?),
        issued: Timestamp::from_unix_ms(row.try_get("issued_ms")?),
        not_after: Timestamp::from_unix_ms(row.try_get("not_after_ms")?),
        signed: Signed { declaration: row.try_get("bytes")?, signature: row.try_get("signature")? },
    })
}

fn position(row: &PgRow) -> Result<Position, sqlx::Error> {
    let number = |column: &str| Ok::<_, sqlx::Error>(from_sql(row.try_get(column)?));
    Ok(Position {
        epoch: Epoch::new(number("epoch")?),
        generation: Generation::new(number("generation")?),
        sequence: Sequence::new(number("sequence")?),
    })
}
