//! Rows of administrators.

use sqlx::{PgConnection, Row, query};

/// An administrator's name and the SHA-256 of the token.
pub(crate) type Administrator = (String, Vec<u8>);

/// Everyone.
pub(crate) async fn all(db: &mut PgConnection) -> Result<Vec<Administrator>, sqlx::Error> {
    let rows = query("SELECT name, token_sha256 FROM administrators ORDER BY name").fetch_all(db).await?;
    rows.iter().map(|row| Ok((row.try_get("name")?, row.try_get("token_sha256")?))).collect()
}

/// An administrator has this token from now on, and no other.
pub(crate) async fn put(db: &mut PgConnection, name: &str, hash: &[u8; 32]) -> Result<(), sqlx::Error> {
    query(
        "INSERT INTO administrators (name, token_sha256) VALUES ($1, $2)
         ON CONFLICT (name) DO UPDATE SET token_sha256 = $2",
    )
    .bind(name)
    .bind(hash.as_slice())
    .execute(db)
    .await?;
    Ok(())
}
