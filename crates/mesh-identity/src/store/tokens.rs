//! Rows of join tokens.

use mesh_ids::{NodeName, Timestamp};
use mesh_seal::TokenKeys;
use sqlx::{PgConnection, Row, postgres::PgRow, query, types::Json};

use super::read;
use crate::domain::Token;

const TOKEN: &str = "SELECT id, node, labels, expires_ms, mac_key, broker_password, used_by FROM tokens";

/// One token, its row held until the transaction ends.
pub(crate) async fn lock(db: &mut PgConnection, id: &str) -> Result<Option<Token>, sqlx::Error> {
    let statement = sqlx::AssertSqlSafe(format!("{TOKEN} WHERE id = $1 FOR UPDATE"));
    query(statement).bind(id).fetch_optional(db).await?.as_ref().map(token).transpose()
}

/// The tokens that can be used, or that still answer the machine that used them.
pub(crate) async fn open(db: &mut PgConnection, now: Timestamp) -> Result<Vec<Token>, sqlx::Error> {
    let statement = sqlx::AssertSqlSafe(format!("{TOKEN} WHERE NOT ended AND expires_ms > $1 ORDER BY id"));
    let rows = query(statement).bind(now.unix_ms()).fetch_all(db).await?;
    rows.iter().map(token).collect()
}

/// A new token.
pub(crate) async fn put(db: &mut PgConnection, token: &Token, keys: &TokenKeys) -> Result<(), sqlx::Error> {
    query(
        "INSERT INTO tokens (id, node, labels, expires_ms, mac_key, broker_password) VALUES ($1, $2, $3, $4, $5, $6)",
    )
    .bind(&token.id)
    .bind(token.node.as_str())
    .bind(Json(&token.labels))
    .bind(token.expires.unix_ms())
    .bind(keys.mac_key().as_slice())
    .bind(keys.broker_password())
    .execute(db)
    .await?;
    Ok(())
}

/// The token is this machine's now and answers it until then.
pub(crate) async fn bind(
    db: &mut PgConnection,
    id: &str,
    identity_key: &str,
    until: Timestamp,
) -> Result<(), sqlx::Error> {
    let statement = "UPDATE tokens SET used_by = $2, expires_ms = least(expires_ms, $3) WHERE id = $1";
    query(statement).bind(id).bind(identity_key).bind(until.unix_ms()).execute(db).await?;
    Ok(())
}

/// Ends every token of a node. Whether one of them was waiting to be used.
pub(crate) async fn end_of(db: &mut PgConnection, node: &NodeName) -> Result<bool, sqlx::Error> {
    let statement = "UPDATE tokens SET ended = true, mac_key = NULL, broker_password = NULL
         WHERE node = $1 AND NOT ended RETURNING used_by";
    let rows = query(statement).bind(node.as_str()).fetch_all(db).await?;
    let waiting = |row: &PgRow| Ok::<_, sqlx::Error>(row.try_get::<Option<String>, _>("used_by")?.is_none());
    rows.iter().try_fold(false, |any, row| Ok(any | waiting(row)?))
}

/// Ends every token whose time is over. How many, and the nodes of those that nobody used.
pub(crate) async fn end_expired(
    db: &mut PgConnection,
    now: Timestamp,
) -> Result<(usize, Vec<NodeName>), sqlx::Error> {
    let statement = "UPDATE tokens SET ended = true, mac_key = NULL, broker_password = NULL
         WHERE NOT ended AND expires_ms <= $1 RETURNING node, used_by";
    let rows = query(statement).bind(now.unix_ms()).fetch_all(db).await?;
    let mut unused = Vec::new();
    for row in &rows {
        if row.try_get::<Option<&str>, _>("used_by")?.is_none() {
            unused.push(read(row.try_get("node")?)?);
        }
    }
    Ok((rows.len(), unused))
}

fn token(row: &PgRow) -> Result<Token, sqlx::Error> {
    let mac: Option<Vec<u8>> = row.try_get("mac_key")?;
    let password: Option<String> = row.try_get("broker_password")?;
    let keys = match (mac, password) {
        (Some(mac), Some(password)) => {
            Some(TokenKeys::from_stored(&mac, &password).map_err(|error| sqlx::Error::Decode(error.into()))?)
        }
        _ => None,
    };
    Ok(Token {
        id: row.try_get("id")?,
        node: read(row.try_get("node")?)?,
        labels: row.try_get::<Json<_>, _>("labels")?.0,
        expires: Timestamp::from_unix_ms(row.try_get("expires_ms")?),
        keys,
        used_by: row.try_get("used_by")?,
    })
}
