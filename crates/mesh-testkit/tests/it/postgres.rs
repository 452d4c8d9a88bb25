//! What a test may rely on from [`Postgres`], and what must not be left behind.

use std::fs::Permissions;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::str::FromStr;
use std::time::Duration;

use mesh_testkit::isolation::{assert_isolated, check_isolated};
use mesh_testkit::{Postgres, wait_for};
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions, PgConnection};

async fn connect(url: &str) -> PgConnection {
    PgConnectOptions::from_str(url).unwrap().connect().await.unwrap()
}

#[tokio::test]
async fn a_context_reaches_its_own_database_and_no_other() {
    let postgres = Postgres::start().await;
    let inventory = postgres.context("inventory").await;
    let identity = postgres.context("identity").await;
    assert_isolated(&inventory.url_with_password, &["identity"]).await;
    assert_isolated(&identity.url_with_password, &["inventory"]).await;
}

#[tokio::test]
async fn every_open_door_is_found() {
    let postgres = Postgres::start().await;
    let url = postgres.context("inventory").await.url_with_password;
    postgres.context("identity").await;
    let mut server = postgres.superuser("postgres").await;
    for (open, close, found) in [
        (
            "GRANT CONNECT ON DATABASE identity TO PUBLIC",
            "REVOKE ALL ON DATABASE identity FROM PUBLIC",
            "can connect to database identity",
        ),
        (
            "GRANT CONNECT ON DATABASE template1 TO PUBLIC",
            "REVOKE ALL ON DATABASE template1 FROM PUBLIC",
            "can connect to database template1",
        ),
        ("ALTER ROLE inventory CREATEDB", "ALTER ROLE inventory NOCREATEDB", "may do more than log in"),
        ("GRANT identity TO inventory", "REVOKE identity FROM inventory", "member of another role"),
    ] {
        sqlx::raw_sql(open).execute(&mut server).await.unwrap();
        let why = check_isolated(&url, &["identity"]).await.unwrap_err();
        assert!(why.contains(found), "{open}: {why}");
        sqlx::raw_sql(close).execute(&mut server).await.unwrap();
    }
    let why = check_isolated(&url, &["no_such"]).await.unwrap_err();
    assert!(why.contains("proves nothing"), "{why}");
    check_isolated(&url, &["identity"]).await.unwrap();
}

#[tokio::test]
async fn what_was_committed_survives_a_crash_and_sessions_do_not() {
    let mut postgres = Postgres::start().await;
    let url = postgres.context("inventory").await.url_with_password;
    let mut session = connect(&url).await;
    sqlx::raw_sql("CREATE TABLE kept AS SELECT 1 AS one").execute(&mut session).await.unwrap();
    postgres.crash();
    assert!(sqlx::raw_sql("SELECT 1").execute(&mut session).await.is_err(), "the session outlived the crash");
    postgres.restart().await;
    sqlx::raw_sql("SELECT one FROM kept").execute(&mut connect(&url).await).await.unwrap();
}

/// Not a test of its own: the program that the next test kills. It says where its server is and waits for ever.
#[tokio::test]
async fn a_test_to_be_killed() {
    if std::env::var_os("MESH_TESTKIT_HANG").is_none() {
        return;
    }
    let postgres = Postgres::start().await;
    writeln!(std::io::stdout(), "port {}", postgres.port()).unwrap();
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn a_killed_test_leaves_no_server_behind() {
    let temporary = tempfile::tempdir().unwrap();
    // The server's account must be able to reach its folder in here.
    std::fs::set_permissions(temporary.path(), Permissions::from_mode(0o755)).unwrap();

    let mut test = Command::new(std::env::current_exe().unwrap())
        .args(["postgres::a_test_to_be_killed", "--exact", "--nocapture"])
        .env("MESH_TESTKIT_HANG", "yes")
        .env("TMPDIR", temporary.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(test.stdout.take().unwrap()).lines();
    let port: u16 = lines
        .find_map(|line| line.unwrap().rsplit_once("port ").and_then(|(_, port)| port.parse().ok()))
        .unwrap();
    assert!(std::net::TcpStream::connect(("127.0.0.1", port)).is_ok(), "the server was never there");

    test.kill().unwrap();
    test.wait().unwrap();
    wait_for("server and folder to be gone", Duration::from_secs(10), async || {
        [
            ("port closed", std::net::TcpStream::connect(("127.0.0.1", port)).is_err()),
            ("folder removed", std::fs::read_dir(temporary.path()).unwrap().next().is_none()),
        ]
    })
    .await;
}
