//! A real PostgreSQL for one test: raised from a copy of an empty cluster, gone with the test.
//!
//! Does: find the server's programs, make the empty cluster once per build folder, copy and start it on a free
//! loopback port, make contexts' databases in it with the names and the rights they have on a node, crash and
//! restart it. Never: shares a server between tests. Roles and database names belong to the whole server, and a
//! test must be able to use the real ones and to kill the server; a copy starts in about 0.2 s.
//! Never leaves a server behind: see `watch.sh`.
//! Called by: tests.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, PgConnection};

use crate::wait_for;

const WATCH: &str = include_str!("watch.sh");
const START_DEADLINE: Duration = Duration::from_secs(30);
/// Another process may take the port between our choosing it and the server binding it.
const PORTS_TRIED: usize = 5;

/// A running PostgreSQL that belongs to one test.
pub struct Postgres {
    directory: PathBuf,
    port: u16,
    watcher: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

/// One context's database and the role that owns it.
#[derive(Clone, Debug)]
pub struct ContextDatabase {
    /// The context's name, which is the database's and the role's.
    pub name: String,
    /// Without the password, as a program finds it in `MESH_STORE_<CONTEXT>`.
    pub url: String,
    /// The file holding the password, as in `MESH_STORE_<CONTEXT>_PASSWORD_FILE`.
    pub password_file: PathBuf,
    /// With the password, for a test that connects by itself.
    pub url_with_password: String,
}

impl Postgres {
    /// Raises a server. Panics with what to install when there is no PostgreSQL on this machine.
    pub async fn start() -> Self {
        let programs = Programs::find();
        let directory = tempfile::Builder::new()
            .prefix("mesh-postgres-")
            .tempdir()
            .expect("make a directory for the server")
            .keep();
        let account = Account::choose();
        account.give(&directory);
        programs.copy_cluster(&account, &directory.join("data"));

        let mut server = account.command(&programs.0.join("postgres"), Some("KILL"));
        server.arg("-D").arg(directory.join("data")).arg("-k").arg(&directory);
        for setting in [
            "listen_addresses=127.0.0.1",
            // What a test committed must survive the server's crash, not the machine's.
            "fsync=off",
            "full_page_writes=off",
            "shared_buffers=16MB",
            "max_connections=60",
        ] {
            server.arg("-c").arg(setting);
        }
        let mut watcher = Command::new("sh")
            .args(["-c", WATCH, "watch"])
            .arg(&directory)
            .arg(server.get_program())
            .args(server.get_args())
            .env("LC_ALL", "C")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            // A signal to the test's process group must not reach the one that cleans up after it.
            .process_group(0)
            .spawn()
            .expect("start the server's watcher");
        let orders = watcher.stdin.take();
        let answers = BufReader::new(watcher.stdout.take().expect("the watcher's answers"));
        let mut postgres = Self { directory, port: 0, watcher, orders, answers };
        for _ in 0..PORTS_TRIED {
            postgres.port = free_port();
            postgres.order(&format!("start {}", postgres.port));
            if postgres.came_up().await {
                return postgres;
            }
            postgres.order("stop");
        }
        panic!("PostgreSQL found no free port in {PORTS_TRIED} tries: {}", postgres.server_log());
    }

    /// Makes the database and the role of a context, with the rights a context's role has on a node, and returns
    /// how to reach them.
    pub async fn context(&self, name: &str) -> ContextDatabase {
        let password = format!("{name}-of-{}", self.port);
        let mut server = self.superuser("postgres").await;
        for statement in context_statements(name, &password) {
            sqlx::raw_sql(AssertSqlSafe(statement))
                .execute(&mut server)
                .await
                .expect("make the context's database");
        }
        server.close().await.expect("close the superuser's connection");
        let password_file = self.directory.join(format!("{name}.password"));
        fs::write(&password_file, format!("{password}\n")).expect("write the password file");
        ContextDatabase {
            name: name.to_owned(),
            url: format!("postgres://{name}@127.0.0.1:{}/{name}", self.port),
            password_file,
            url_with_password: format!("postgres://{name}:{password}@127.0.0.1:{}/{name}", self.port),
        }
    }

    /// A superuser's connection, for what a test must do behind a context's back.
    pub async fn superuser(&self, database: &str) -> PgConnection {
        self.superuser_options(database).connect().await.expect("connect as superuser")
    }

    /// The loopback port the server listens on. It keeps it over [`Postgres::restart`].
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Ends the server as a crash does: every session cut at once, nothing flushed.
    pub fn crash(&mut self) {
        self.order("stop");
    }

    /// Starts the server again after [`Postgres::crash`], without waiting until it answers.
    pub fn restart_unwaited(&mut self) {
        self.order(&format!("start {}", self.port));
    }

    /// Starts the server again after [`Postgres::crash`], on the same port with the same data.
    pub async fn restart(&mut self) {
        self.restart_unwaited();
        assert!(self.came_up().await, "the server's port was taken while it was down");
    }

    fn superuser_options(&self, database: &str) -> PgConnectOptions {
        PgConnectOptions::new_without_pgpass()
            .socket(&self.directory)
            .port(self.port)
            .username("postgres")
            .database(database)
    }

    fn order(&mut self, order: &str) {
        let orders = self.orders.as_mut().expect("the watcher takes orders");
        writeln!(orders, "{order}").expect("give the watcher an order");
        let mut answer = String::new();
        self.answers.read_line(&mut answer).expect("hear the watcher's answer");
        assert!(!answer.is_empty(), "the server's watcher is gone");
    }

    /// `false` when the port was taken by somebody else.
    async fn came_up(&self) -> bool {
        let options = self.superuser_options("postgres");
        wait_for("PostgreSQL to answer", START_DEADLINE, async || match options.connect().await {
            Ok(connection) => {
                drop(connection.close().await);
                Ok(true)
            }
            Err(why) => {
                let log = self.server_log();
                if log.contains("could not create any TCP/IP sockets") {
                    return Ok(false);
                }
                Err(format!("{why}; the server's log: {log}"))
            }
        })
        .await
    }

    fn server_log(&self) -> String {
        fs::read_to_string(self.directory.join("server.log")).unwrap_or_default()
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // Closing the pipe is the order to end; waiting makes the end certain before the test reports.
        drop(self.orders.take());
        drop(self.watcher.wait());
    }
}

impl ContextDatabase {
    /// The variables a program would be given for this context and no other.
    pub fn variables(&self) -> BTreeMap<String, String> {
        let variable = format!("MESH_STORE_{}", self.name.to_uppercase());
        BTreeMap::from([
            (format!("{variable}_PASSWORD_FILE"), self.password_file.display().to_string()),
            (variable, self.url.clone()),
        ])
    }
}

/// The rights of a context: one role that may log in and nothing else, one database that it owns, and no door left
/// open to PUBLIC, neither on it nor on the two databases every server has.
fn context_statements(name: &str, password: &str) -> Vec<String> {
    vec![
        format!(
            "CREATE ROLE \"{name}\" LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS PASSWORD '{password}'"
        ),
        format!("CREATE DATABASE \"{name}\" OWNER \"{name}\" TEMPLATE template0"),
        format!("REVOKE ALL ON DATABASE \"{name}\" FROM PUBLIC"),
        "REVOKE ALL ON DATABASE postgres, template1 FROM PUBLIC".to_owned(),
    ]
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bind a free port");
    listener.local_addr().expect("the port bound").port()
}

/// The folder holding `postgres` and `initdb`.
struct Programs(PathBuf);

impl Programs {
    fn find() -> Self {
        let mut folders: Vec<PathBuf> = fs::read_dir("/usr/lib/postgresql")
            .map(|versions| versions.flatten().map(|version| version.path().join("bin")).collect())
            .unwrap_or_default();
        // The newest first: "17" before "15"; names are two digits since version 10.
        folders.sort();
        folders.reverse();
        folders.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
        let found = folders
            .into_iter()
            .find(|folder| folder.join("postgres").is_file() && folder.join("initdb").is_file());
        Self(found.expect(
            "these tests need a PostgreSQL server and none is installed: apt-get install postgresql \
             (looked in /usr/lib/postgresql/*/bin and in PATH)",
        ))
    }

    /// Puts a fresh cluster at `target`. `initdb` takes a second and its result is always the same, so it is kept
    /// beside the test programs and copied.
    fn copy_cluster(&self, account: &Account, target: &Path) {
        let Some(kept) = self.kept_cluster(account) else {
            self.make_cluster(account, target);
            return;
        };
        let folder = kept.parent().expect("the kept cluster's folder");
        fs::create_dir_all(folder).expect("make the folder of the kept cluster");
        let lock = File::create(kept.with_extension("lock")).expect("open the kept cluster's lock");
        lock.lock().expect("lock the kept cluster");
        if !kept.exists() {
            self.make_cluster(account, target);
            let part = kept.with_extension("part");
            drop(fs::remove_dir_all(&part));
            copy(target, &part);
            fs::rename(&part, &kept).expect("keep the cluster");
            return;
        }
        drop(lock);
        copy(&kept, target);
    }

    fn kept_cluster(&self, account: &Account) -> Option<PathBuf> {
        let programs: String = self
            .0
            .display()
            .to_string()
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
            .collect();
        let folder = std::env::current_exe().ok()?.parent()?.join("mesh-testkit");
        Some(folder.join(format!("cluster{programs}-{}", account.uid)))
    }

    fn make_cluster(&self, account: &Account, target: &Path) {
        let output = account
            .command(&self.0.join("initdb"), None)
            .arg("-D")
            .arg(target)
            .args(["--no-sync", "--no-instructions", "--username=postgres", "--encoding=UTF8", "--locale=C"])
            // The superuser comes through the socket in a folder of the test's own; everybody else has a password.
            .args(["--wal-segsize=1", "--auth-local=trust", "--auth-host=scram-sha-256"])
            .output()
            .expect("run initdb");
        assert!(output.status.success(), "initdb failed: {}", String::from_utf8_lossy(&output.stderr));
    }
}

fn copy(from: &Path, to: &Path) {
    let status =
        Command::new("cp").args(["-a", "--reflink=auto"]).arg(from).arg(to).status().expect("run cp");
    assert!(status.success(), "cannot copy the cluster from {} to {}", from.display(), to.display());
}

/// Who runs the server. PostgreSQL refuses to run as root, so root hands it to an account without rights.
struct Account {
    uid: u32,
    gid: u32,
    root: bool,
}

impl Account {
    fn choose() -> Self {
        let me = fs::metadata("/proc/self").expect("read /proc/self");
        if me.uid() != 0 {
            return Self { uid: me.uid(), gid: me.gid(), root: false };
        }
        let passwd = fs::read_to_string("/etc/passwd").expect("read /etc/passwd");
        let account = |wanted: &str| {
            passwd.lines().find_map(|line| {
                let mut fields = line.split(':');
                let name = fields.next()?;
                let uid = fields.nth(1)?.parse().ok()?;
                let gid = fields.next()?.parse().ok()?;
                (name == wanted).then_some(Self { uid, gid, root: true })
            })
        };
        account("postgres")
            .or_else(|| account("nobody"))
            .expect("an account to run PostgreSQL as: postgres or nobody in /etc/passwd")
    }

    fn give(&self, directory: &Path) {
        if self.root {
            std::os::unix::fs::chown(directory, Some(self.uid), Some(self.gid))
                .expect("give the directory away");
        }
    }

    fn command(&self, program: &Path, death_signal: Option<&str>) -> Command {
        let mut command = Command::new("setpriv");
        if self.root {
            command
                .arg(format!("--reuid={}", self.uid))
                .arg(format!("--regid={}", self.gid))
                .arg("--clear-groups");
        }
        if let Some(signal) = death_signal {
            command.arg(format!("--pdeathsig={signal}"));
        }
        if !self.root && death_signal.is_none() {
            // setpriv wants something to do.
            command.arg("--no-new-privs");
        }
        command.arg("--").arg(program);
        command.env("LC_ALL", "C").current_dir("/");
        command
    }
}
