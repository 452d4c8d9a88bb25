//! Bringing a database up to the migrations a program carries.
//!
//! Does: take the lock, compare what ran with what is carried, refuse or run what is missing, each migration in one
//! transaction with its row. Never changes anything before every check has passed, and never runs one twice: the
//! row and the change are committed together or not at all, also when the server dies between them.
//! Called by: the contexts, for `mesh-control migrate` and `serve`.

use std::time::Duration;

use sqlx::{AssertSqlSafe, Connection, PgConnection, Row};

use super::{MigrateError, Migration, Migrations, Refusal};
use crate::{Store, StoreError};

/// The advisory lock of migrations. Advisory locks are of one database, so one number serves every context.
const LOCK: i64 = 0x6d65_7368_6d69_6772;

const CREATE: &str = "CREATE TABLE IF NOT EXISTS schema_migrations (
    number integer PRIMARY KEY,
    name text NOT NULL,
    sha256 text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
)";

/// A migration that ran just now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// Its number.
    pub number: u32,
    /// Its file.
    pub file: String,
}

/// One line of what stands and what is missing, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MigrationStatus {
    /// Its number.
    pub number: u32,
    /// Its file, as the program carries it, or as the database recorded it if the program does not know it.
    pub file: String,
    /// Where it stands.
    pub state: MigrationState,
}

/// Where a migration stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MigrationState {
    /// It ran, at this time by the database's clock (RFC 3339, UTC).
    Applied {
        /// When.
        at: String,
    },
    /// It has not run and would.
    Pending,
    /// Migrating would stop here.
    Refused(Refusal),
}

struct Recorded {
    number: u32,
    name: String,
    sha256: String,
    at: String,
}

impl Store {
    /// Brings the schema up to date and returns what ran, which is nothing when it already was. Waits at most
    /// `patience` for another runner to end.
    pub async fn migrate(
        &self,
        migrations: &Migrations,
        patience: Duration,
    ) -> Result<Vec<Applied>, MigrateError> {
        let mut connection = self.connect_apart().await.map_err(|source| self.failed(source))?;
        let done = self.migrate_on(&mut connection, migrations, patience).await;
        // Closing ends the session and with it the lock, whatever happened.
        drop(connection.close().await);
        done
    }

    /// What stands in the database and what is missing. Changes nothing and takes no lock.
    pub async fn migration_status(
        &self,
        migrations: &Migrations,
    ) -> Result<Vec<MigrationStatus>, MigrateError> {
        let mut connection = self.pool().acquire().await.map_err(|source| self.failed(source))?;
        let recorded = self.recorded(&mut connection).await?;
        let mut lines: Vec<MigrationStatus> = migrations
            .iter()
            .map(|migration| MigrationStatus {
                number: migration.number,
                file: migration.file.clone(),
                state: state_of(migration, &recorded),
            })
            .collect();
        lines.extend(unknown(migrations, &recorded).map(|row| MigrationStatus {
            number: row.number,
            file: row.name.clone(),
            state: MigrationState::Refused(Refusal::Unknown { recorded: row.name.clone() }),
        }));
        lines.sort_by_key(|line| line.number);
        Ok(lines)
    }

    /// For a program about to serve: refuses unless exactly the carried migrations ran.
    pub async fn require_migrated(&self, migrations: &Migrations) -> Result<(), MigrateError> {
        let mut connection = self.pool().acquire().await.map_err(|source| self.failed(source))?;
        let recorded = self.recorded(&mut connection).await?;
        let pending = pending(migrations, &recorded)?;
        match pending.first() {
            None => Ok(()),
            Some(first) => Err(MigrateError::Behind {
                store: self.place().to_owned(),
                missing: match pending.len() - 1 {
                    0 => first.file.clone(),
                    more => format!("{} and {more} more", first.file),
                },
            }),
        }
    }

    async fn migrate_on(
        &self,
        connection: &mut PgConnection,
        migrations: &Migrations,
        patience: Duration,
    ) -> Result<Vec<Applied>, MigrateError> {
        self.lock(connection, patience).await?;
        sqlx::query(CREATE).execute(&mut *connection).await.map_err(|source| self.failed(source))?;
        let recorded = self.recorded(connection).await?;
        let mut applied = Vec::new();
        for migration in pending(migrations, &recorded)? {
            self.run(connection, migration).await.map_err(|source| MigrateError::Failed {
                store: self.place().to_owned(),
                file: migration.file.clone(),
                source,
            })?;
            tracing::info!(store = %self.place(), migration = %migration.file, "migrated");
            applied.push(Applied { number: migration.number, file: migration.file.clone() });
        }
        Ok(applied)
    }

    async fn lock(&self, connection: &mut PgConnection, patience: Duration) -> Result<(), MigrateError> {
        // A limit of 0 would mean none.
        let limit = format!("{}ms", patience.as_millis().max(1));
        sqlx::query("SELECT set_config('lock_timeout', $1, false)")
            .bind(limit)
            .execute(&mut *connection)
            .await
            .map_err(|source| self.failed(source))?;
        match sqlx::query("SELECT pg_advisory_lock($1)").bind(LOCK).execute(&mut *connection).await {
            Ok(_) => Ok(()),
            // lock_not_available
            Err(sqlx::Error::Database(refusal)) if refusal.code().as_deref() == Some("55P03") => {
                Err(MigrateError::Locked { store: self.place().to_owned(), waited: patience })
            }
            Err(source) => Err(self.failed(source)),
        }
    }

    async fn run(&self, connection: &mut PgConnection, migration: &Migration) -> Result<(), sqlx::Error> {
        let mut transaction = connection.begin().await?;
        // The text is the program's own, carried since it was built.
        sqlx::raw_sql(AssertSqlSafe(migration.sql.clone())).execute(&mut *transaction).await?;
        sqlx::query("INSERT INTO schema_migrations (number, name, sha256) VALUES ($1, $2, $3)")
            .bind(i64::from(migration.number))
            .bind(&migration.file)
            .bind(&migration.sha256)
            .execute(&mut *transaction)
            .await?;
        transaction.commit().await
    }

    async fn recorded(&self, connection: &mut PgConnection) -> Result<Vec<Recorded>, MigrateError> {
        let rows = async {
            let exists: bool = sqlx::query_scalar("SELECT to_regclass('schema_migrations') IS NOT NULL")
                .fetch_one(&mut *connection)
                .await?;
            if !exists {
                return Ok(Vec::new());
            }
            sqlx::query(
                "SELECT number::bigint AS number, name, sha256,
                        to_char(applied_at AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"') AS at
                 FROM schema_migrations ORDER BY number",
            )
            .fetch_all(&mut *connection)
            .await
        };
        let rows = rows.await.map_err(|source| self.failed(source))?;
        rows.iter()
            .map(|row| {
                let number: i64 = row.try_get("number")?;
                Ok(Recorded {
                    number: u32::try_from(number).map_err(|why| sqlx::Error::Decode(why.into()))?,
                    name: row.try_get("name")?,
                    sha256: row.try_get("sha256")?,
                    at: row.try_get("at")?,
                })
            })
            .collect::<Result<_, _>>()
            .map_err(|source| self.failed(source))
    }

    fn failed(&self, source: sqlx::Error) -> MigrateError {
        StoreError::from_sqlx(self, source).into()
    }
}

/// What has to run, in order, once nothing speaks against it.
fn pending<'a>(migrations: &'a Migrations, recorded: &[Recorded]) -> Result<Vec<&'a Migration>, Refusal> {
    if let Some(row) = unknown(migrations, recorded).next() {
        return Err(Refusal::Unknown { recorded: row.name.clone() });
    }
    let mut pending = Vec::new();
    for migration in migrations.iter() {
        match state_of(migration, recorded) {
            MigrationState::Applied { .. } => {}
            MigrationState::Pending => pending.push(migration),
            MigrationState::Refused(refusal) => return Err(refusal),
        }
    }
    Ok(pending)
}

fn unknown<'a>(migrations: &'a Migrations, recorded: &'a [Recorded]) -> impl Iterator<Item = &'a Recorded> {
    recorded.iter().filter(|row| migrations.iter().all(|migration| migration.number != row.number))
}

fn state_of(migration: &Migration, recorded: &[Recorded]) -> MigrationState {
    match recorded.iter().find(|row| row.number == migration.number) {
        Some(row) if row.name == migration.file && row.sha256 == migration.sha256 => {
            MigrationState::Applied { at: row.at.clone() }
        }
        Some(row) => MigrationState::Refused(Refusal::Edited {
            file: migration.file.clone(),
            recorded: row.name.clone(),
        }),
        None => match recorded.iter().map(|row| row.number).max() {
            Some(newest) if newest > migration.number => {
                MigrationState::Refused(Refusal::BelowNewest { file: migration.file.clone(), newest })
            }
            _ => MigrationState::Pending,
        },
    }
}
