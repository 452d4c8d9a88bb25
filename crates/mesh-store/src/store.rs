//! The one connection a context has to anything: a small pool to its own database, every wait with a deadline.
//!
//! Never hands out an address or a password, and never connects before somebody asks for something.
//! Called by: the contexts' `store` modules, mesh-record, and mesh-control, which opens the stores and waits for them.

use std::fmt;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use sqlx::postgres::{PgConnectOptions, PgPoolOptions, PgSslMode};
use sqlx::{ConnectOptions, Connection, PgConnection, PgPool, Postgres};
use tokio::time::{sleep, timeout};
use url::Url;

use crate::error::is_login_refused;
use crate::{Context, Environment, OpenError, StoreError};

/// A transaction in a context's store. Dropped without a commit it is rolled back.
pub type Transaction = sqlx::Transaction<'static, Postgres>;

/// A context's commands are short and the whole control plane shares two cores; seven pools of this size stay well
/// under PostgreSQL's usual 100 connections.
const CONNECTIONS: u32 = 8;
const ACQUIRE_DEADLINE: Duration = Duration::from_secs(5);
const IDLE: Duration = Duration::from_mins(5);
pub(crate) const ATTEMPT_DEADLINE: Duration = Duration::from_secs(5);
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
const SAY_AGAIN: Duration = Duration::from_secs(10);

/// One context's store. Cheap to clone; all clones share one pool.
#[derive(Clone)]
pub struct Store {
    context: Context,
    options: PgConnectOptions,
    pool: PgPool,
    place: String,
}

impl Store {
    /// Reads where the store of `context` is from `MESH_STORE_<CONTEXT>` and
    /// `MESH_STORE_<CONTEXT>_PASSWORD_FILE`, and asks `environment` for nothing else. Connects only when used; to
    /// know that the store is there, go on with [`Store::connect_within`].
    pub fn open(context: Context, environment: &impl Environment) -> Result<Self, OpenError> {
        let variable = context.variable();
        let address = environment
            .variable(&variable)
            .ok_or_else(|| OpenError::Missing { context, variable: variable.clone() })?;
        let options = connect_options(context, variable, &address)?;
        let options = options.password(&password(context, environment)?);
        let place = format!("{context} at {}:{}", options.get_host(), options.get_port());
        let pool = PgPoolOptions::new()
            .max_connections(CONNECTIONS)
            .acquire_timeout(ACQUIRE_DEADLINE)
            .idle_timeout(IDLE)
            // A command waits for another one and for PostgreSQL, but not for ever.
            .connect_lazy_with(options.clone().options([
                ("statement_timeout", "30s"),
                ("lock_timeout", "10s"),
                ("idle_in_transaction_session_timeout", "60s"),
            ]));
        Ok(Self { context, options, pool, place })
    }

    /// Whose store this is.
    pub fn context(&self) -> Context {
        self.context
    }

    /// The pool, for queries outside a transaction. An acquire that takes longer than five seconds fails.
    pub fn pool(&self) -> &PgPool {
        &self.pool
    }

    /// Begins a transaction.
    pub async fn begin(&self) -> Result<Transaction, StoreError> {
        self.pool.begin().await.map_err(|source| self.failure(source))
    }

    /// Commits a transaction. After an error nobody knows whether it was committed; whoever tries again must be
    /// idempotent.
    pub async fn commit(&self, transaction: Transaction) -> Result<(), StoreError> {
        transaction.commit().await.map_err(|source| self.failure(source))
    }

    /// Waits until PostgreSQL answers, at most until `deadline`, and says in the log what it waits for. A refused
    /// login ends the wait at once.
    pub async fn connect_within(&self, deadline: Duration) -> Result<(), StoreError> {
        let start = Instant::now();
        let mut pause = FIRST_PAUSE;
        let mut said: Option<Instant> = None;
        loop {
            let left = deadline.saturating_sub(start.elapsed());
            let source = match self.attempt(left.min(ATTEMPT_DEADLINE)).await {
                Ok(()) => {
                    if said.is_some() {
                        tracing::info!(store = %self.place, waited = ?start.elapsed(), "the store answers");
                    }
                    return Ok(());
                }
                Err(source) if is_login_refused(&source) => {
                    return Err(StoreError::Refused { store: self.place.clone(), source });
                }
                Err(source) => source,
            };
            if start.elapsed() + pause >= deadline {
                return Err(StoreError::Unreachable {
                    store: self.place.clone(),
                    waited: start.elapsed(),
                    source,
                });
            }
            if said.is_none_or(|said| said.elapsed() >= SAY_AGAIN) {
                said = Some(Instant::now());
                tracing::warn!(store = %self.place, waited = ?start.elapsed(), why = %source, "waiting for the store");
            }
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Closes the pool and waits for its connections, so that the server sees us leave.
    pub async fn close(&self) {
        self.pool.close().await;
    }

    /// A connection of its own, outside the pool and without the pool's limits on a statement: a migration may take
    /// longer than a command.
    pub(crate) async fn connect_apart(&self) -> Result<PgConnection, sqlx::Error> {
        match timeout(ATTEMPT_DEADLINE, self.options.connect()).await {
            Ok(connected) => connected,
            Err(_) => Err(sqlx::Error::PoolTimedOut),
        }
    }

    pub(crate) fn place(&self) -> &str {
        &self.place
    }

    fn failure(&self, source: sqlx::Error) -> StoreError {
        StoreError::from_sqlx(self, source)
    }

    async fn attempt(&self, limit: Duration) -> Result<(), sqlx::Error> {
        let attempt = async { self.options.connect().await?.close().await };
        timeout(limit, attempt).await.unwrap_or(Err(sqlx::Error::PoolTimedOut))
    }
}

impl StoreError {
    /// Says which store an error came from, and sorts a refused login from the rest.
    pub fn from_sqlx(store: &Store, source: sqlx::Error) -> Self {
        let store = store.place.clone();
        if is_login_refused(&source) {
            Self::Refused { store, source }
        } else {
            Self::Failed { store, source }
        }
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Store").field(&self.place).finish()
    }
}

/// Reads the address ourselves rather than by sqlx, which would let a parameter of the address, or `PGHOST`,
/// `PGDATABASE` and a dozen other variables, point it at another database.
fn connect_options(context: Context, variable: String, address: &str) -> Result<PgConnectOptions, OpenError> {
    let unreadable =
        |reason: &str| OpenError::Address { context, variable: variable.clone(), reason: reason.to_owned() };
    let url = Url::parse(address).map_err(|why| unreadable(&format!("it is not an address ({why})")))?;
    if !matches!(url.scheme(), "postgres" | "postgresql") {
        return Err(unreadable("it does not begin with postgres://"));
    }
    if url.password().is_some() {
        return Err(OpenError::PasswordInAddress { variable });
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(unreadable("it has parameters, and none is allowed"));
    }
    let host =
        url.host_str().filter(|host| !host.is_empty()).ok_or_else(|| unreadable("it names no host"))?;
    if url.username().is_empty() {
        return Err(unreadable("it names no role"));
    }
    let database = url.path().trim_start_matches('/');
    if database != context.name() {
        return Err(OpenError::WrongDatabase { context, found: database.to_owned(), variable });
    }
    Ok(PgConnectOptions::new_without_pgpass()
        .host(host.trim_start_matches('[').trim_end_matches(']'))
        .port(url.port().unwrap_or(5432))
        .username(url.username())
        .database(context.name())
        .application_name(&format!("mesh-{context}"))
        // The store is on the substrate's own network of the same node; this build carries no TLS for it.
        .ssl_mode(PgSslMode::Disable))
}

/// Empty when no file is named: a server that trusts the role asks for none, and any other refuses it. Always set,
/// so that `PGPASSWORD` is never used.
fn password(context: Context, environment: &impl Environment) -> Result<String, OpenError> {
    let variable = context.password_file_variable();
    let Some(path) = environment.variable(&variable).map(PathBuf::from) else {
        return Ok(String::new());
    };
    let file = match fs::read_to_string(&path) {
        Ok(file) => file,
        Err(source) => return Err(OpenError::PasswordFile { context, variable, path, source }),
    };
    let password = file.trim_end_matches(['\r', '\n']);
    if password.is_empty() {
        return Err(OpenError::PasswordEmpty { context, variable, path });
    }
    Ok(password.to_owned())
}
