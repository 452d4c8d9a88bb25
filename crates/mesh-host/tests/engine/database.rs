//! Databases and their roles, on a real PostgreSQL in a container.

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::PathBuf,
    time::Duration,
};

use mesh_host::{
    kinds::{container::Container, database::Database},
    machine::{Machine, engine::Execution},
};
use mesh_testkit::isolation::{assert_isolated, check_isolated};
use mesh_wire::kinds::{ContainerSpec, DatabaseSpec, Mount, Ready};

use crate::podman::{Podman, memory, planned, remove, round};

/// A PostgreSQL of the machine's package, in a container called `store`. Reached through a socket in a folder of both,
/// since the rules of a machine's network are shared with everything else that runs on it.
async fn store(podman: &Podman, machine: &Machine) -> PathBuf {
    let programs = programs();
    let sockets = podman.path().join("sockets");
    fs::create_dir(&sockets).unwrap();
    fs::set_permissions(podman.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(&sockets, fs::Permissions::from_mode(0o777)).unwrap();
    let script = "set -e; cd /; mkdir -p /data/pg /run/postgresql; chown postgres /data/pg /run/postgresql; \
         run() { setpriv --reuid=postgres --clear-groups -- \"$@\"; }; \
         run initdb -D /data/pg --no-sync -U postgres >/dev/null; \
         { echo 'local all postgres peer'; echo 'local all all scram-sha-256'; } > /data/pg/pg_hba.conf; \
         exec setpriv --reuid=postgres --clear-groups -- postgres -D /data/pg -c listen_addresses='' \
         -c fsync=off -c log_statement=all -c unix_socket_directories=/run/postgresql,/sockets";
    let mut spec = podman.spec("store", script);
    spec.environment.insert("PATH".to_owned(), format!("{}:/usr/bin:/usr/sbin", programs.display()));
    for (source, target, read_only) in [
        ("/etc/passwd", "/etc/passwd", true),
        ("/etc/group", "/etc/group", true),
        (&sockets.display().to_string(), "/sockets", false),
    ] {
        spec.mounts.push(Mount {
            source: source.to_owned(),
            target: target.to_owned(),
            read_only,
            shared: false,
        });
    }
    let command = ["pg_isready", "-h", "/run/postgresql", "-q"].map(str::to_owned).to_vec();
    let spec = ContainerSpec { ready: Some(Ready::by_command(command, 60)), ..spec };
    round::<Container>(machine, &spec, &memory(None)).await.unwrap();
    sockets
}

fn programs() -> PathBuf {
    let versions =
        fs::read_dir("/usr/lib/postgresql").expect("PostgreSQL, which `cargo xtask setup` installs");
    let mut versions: Vec<PathBuf> = versions.map(|entry| entry.unwrap().path().join("bin")).collect();
    versions.sort();
    versions.pop().expect("a version of PostgreSQL")
}

fn spec(podman: &Podman, name: &str, password: &str) -> DatabaseSpec {
    let file = podman.path().join(format!("{name}.password"));
    fs::write(&file, format!("{password}\n")).unwrap();
    DatabaseSpec {
        container: "store".to_owned(),
        name: name.to_owned(),
        owner: name.to_owned(),
        password_file: file.display().to_string(),
    }
}

async fn sql(machine: &Machine, sql: &str) -> String {
    let command = ["psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", "postgres", "-f", "-"];
    let psql =
        Execution::new("store", "a person at work", &command).as_user("postgres").reading(sql.as_bytes());
    machine.engine.execute(&psql).await.unwrap().succeeded().unwrap()
}

#[tokio::test]
async fn a_role_reaches_its_own_database_and_no_other() {
    assert_eq!(fs::metadata("/proc/self").unwrap().uid(), 0, "containers with other users need root");
    let podman = Podman::start().await;
    let machine = podman.machine();
    let inventory = spec(&podman, "inventory", "first-password");
    let early = planned::<Database>(&machine, &inventory, &memory(None)).await.unwrap_err().to_string();
    assert!(early.contains("no container store"), "{early}");

    let sockets = store(&podman, &machine).await;
    let identity = spec(&podman, "identity", "second-password");
    let steps = round::<Database>(&machine, &inventory, &memory(None)).await.unwrap();
    assert_eq!(
        steps,
        [
            "make the role inventory (in the container store)",
            "set the password of the role inventory (in the container store)",
            "make the database inventory (in the container store)",
            "close to everybody else: postgres, template1 (in the container store)",
        ]
    );
    round::<Database>(&machine, &identity, &memory(None)).await.unwrap();
    for spec in [&inventory, &identity] {
        assert_eq!(planned::<Database>(&machine, spec, &memory(None)).await, Ok(Vec::new()));
    }
    let url = |name: &str, password: &str| {
        format!("postgres://{name}:{password}@localhost/{name}?host={}", sockets.display())
    };
    let (first, second) = (url("inventory", "first-password"), url("identity", "second-password"));
    assert_isolated(&first, &["identity"]).await;
    assert_isolated(&second, &["inventory"]).await;

    // Every door that somebody opens is found and closed.
    for open in [
        "GRANT CONNECT ON DATABASE identity TO PUBLIC",
        "GRANT TEMPORARY ON DATABASE template1 TO PUBLIC",
        "ALTER ROLE identity CREATEDB",
        "GRANT inventory TO identity",
        "ALTER DATABASE identity OWNER TO postgres",
        "ALTER ROLE identity PASSWORD 'another'",
        "ALTER ROLE identity NOLOGIN",
    ] {
        sql(&machine, open).await;
        let steps = round::<Database>(&machine, &identity, &memory(None)).await.unwrap();
        assert!(!steps.is_empty(), "{open}: not found");
        assert_eq!(planned::<Database>(&machine, &identity, &memory(None)).await, Ok(Vec::new()), "{open}");
        assert_isolated(&second, &["inventory"]).await;
    }

    // A new password in the file.
    let identity = spec(&podman, "identity", "third-password");
    let steps = round::<Database>(&machine, &identity, &memory(None)).await.unwrap();
    assert_eq!(steps, ["set the password of the role identity (in the container store)"]);
    assert_isolated(&url("identity", "third-password"), &["inventory"]).await;
    assert!(check_isolated(&second, &[]).await.is_err(), "the old password still opens");

    // The server logs every statement of a person, and no statement of the host: those hold what can be guessed against.
    let log = podman.log("store");
    assert!(log.contains("ALTER ROLE identity CREATEDB"), "the server logs what it is asked: {log}");
    for secret in ["first-password", "second-password", "third-password", "SCRAM-SHA-256$4096"] {
        assert!(!log.contains(secret), "{secret} is in the server's log");
    }

    // Removed: the data stays.
    assert!(remove::<Database>(&machine, &identity).await.is_empty());
    assert_isolated(&url("identity", "third-password"), &["inventory"]).await;
}

#[tokio::test]
async fn what_was_seen_is_believed_until_the_container_ends() {
    let podman = Podman::start().await;
    let machine = podman.machine();
    store(&podman, &machine).await;
    let inventory = spec(&podman, "inventory", "a-password");
    round::<Database>(&machine, &inventory, &memory(None)).await.unwrap();
    tokio::time::timeout(Duration::from_millis(300), machine.engine.changed()).await.unwrap_err();
    assert_eq!(planned::<Database>(&machine, &inventory, &memory(None)).await, Ok(Vec::new()));
    // Another connection of a person's, of which the engine tells nothing.
    podman.podman(&["exec", "-u", "postgres", "store", "psql", "-c", "ALTER ROLE inventory CREATEDB"]);
    assert_eq!(planned::<Database>(&machine, &inventory, &memory(None)).await, Ok(Vec::new()));
    // Seen by a host that remembers nothing.
    assert!(!planned::<Database>(&podman.machine(), &inventory, &memory(None)).await.unwrap().is_empty());
}
