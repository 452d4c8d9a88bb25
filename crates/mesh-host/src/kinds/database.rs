//! The kind `database`: a database and the role that owns it, in a PostgreSQL that runs in a container of this machine.
//!
//! Speaks to the server as its own superuser, inside the container, so that no credential of the server exists anywhere.
//! The role's password never reaches it: what is sent is the verifier that PostgreSQL would make of it. Data is never
//! removed, also not when the resource is.

use std::{borrow::Cow, cell::RefCell, collections::VecDeque};

use mesh_seal::ScramVerifier;
use mesh_wire::kinds::DatabaseSpec;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use super::{Claim, Kind, Memory};
use crate::{
    failure::{During as _, Failure},
    machine::{
        Machine,
        engine::{EngineStep, Executed, Execution, State},
        files::Content,
    },
    step::Step,
};

/// The longest name PostgreSQL keeps; it cuts what is longer, silently.
const LONGEST_NAME: usize = 63;

/// The kind.
#[derive(Debug)]
pub struct Database;

/// What the server has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatabaseFound {
    /// The role of the owner's name.
    pub role: Option<RoleFound>,
    /// Who owns the database; none where it does not exist.
    pub owner: Option<String>,
    /// Which of this database, `postgres` and `template1` have a privilege for everybody.
    pub open: Vec<String>,
    /// A verifier of the password that is declared, where the role has none of it.
    pub verifier: Option<Content>,
}

/// A role, as far as it matters.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct RoleFound {
    /// Whether it can log in.
    pub login: bool,
    /// Whether it can do more than that.
    pub powers: bool,
    /// Whether it is a member of another role.
    pub member: bool,
}

impl Kind for Database {
    type Spec = DatabaseSpec;
    /// Or why the server cannot be asked: then nothing can be applied, but removal, which leaves everything, is fine.
    type Observed = Result<DatabaseFound, Failure>;
    type Before = ();

    fn claims(spec: &DatabaseSpec) -> Vec<Claim> {
        vec![Claim::new("database", format_args!("{} in {}", spec.name, spec.container))]
    }

    fn subject(spec: &DatabaseSpec) -> Cow<'_, str> {
        Cow::Owned(format!("{}/{}", spec.container, spec.name))
    }

    async fn observe(machine: &Machine, spec: &DatabaseSpec) -> Result<Self::Observed, Failure> {
        Ok(look(machine, spec).await)
    }

    fn before(_: &DatabaseSpec, _: &Self::Observed, _: Option<&()>) {}

    fn plan(spec: &DatabaseSpec, observed: &Self::Observed, _: &Memory<Self>) -> Result<Vec<Step>, Failure> {
        let observed = observed.as_ref().map_err(Clone::clone)?;
        if let Some(long) = [&spec.name, &spec.owner].into_iter().find(|name| name.len() > LONGEST_NAME) {
            return Err(Failure::new(format!(
                "{long} is longer than the {LONGEST_NAME} bytes PostgreSQL keeps"
            )));
        }
        let (name, owner) = (&spec.name, &spec.owner);
        let (database, role) = (identifier(name), identifier(owner));
        let mut acts: Vec<(String, String)> = Vec::new();
        let restricted = "LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS";
        match &observed.role {
            None => {
                let sql = format!("CREATE ROLE {role} {restricted};");
                acts.push((format!("make the role {owner}"), sql));
            }
            Some(found) if !found.login || found.powers || found.member => acts.push((
                format!("take from the role {owner} whatever goes beyond logging in"),
                format!("ALTER ROLE {role} {restricted};\n{}", leave_roles(owner)),
            )),
            Some(_) => {}
        }
        if let Some(verifier) = &observed.verifier {
            let verifier = String::from_utf8_lossy(verifier.bytes());
            let sql = format!("ALTER ROLE {role} PASSWORD {};", literal(&verifier));
            acts.push((format!("set the password of the role {owner}"), sql));
        }
        match &observed.owner {
            None => acts.push((
                format!("make the database {name}"),
                format!("CREATE DATABASE {database} OWNER {role};\n{}", close(&[name])),
            )),
            Some(found) if found != owner => acts.push((
                format!("give the database {name} to the role {owner}"),
                format!("ALTER DATABASE {database} OWNER TO {role};"),
            )),
            Some(_) => {}
        }
        if !observed.open.is_empty() {
            let open: Vec<&str> = observed.open.iter().map(String::as_str).collect();
            acts.push((format!("close to everybody else: {}", open.join(", ")), close(&open)));
        }
        Ok(acts
            .into_iter()
            .map(|(what, sql)| Step::Engine(EngineStep::Execute(psql(spec, what, &sql))))
            .collect())
    }

    fn remove(_: &DatabaseSpec, _: &Self::Observed, (): &()) -> Result<Vec<Step>, Failure> {
        // The data stays, and its role with it, which owns it.
        Ok(Vec::new())
    }
}

async fn look(machine: &Machine, spec: &DatabaseSpec) -> Result<DatabaseFound, Failure> {
    #[derive(Deserialize)]
    struct Answer {
        role: Option<RoleFound>,
        verifier: Option<String>,
        owner: Option<String>,
        open: Vec<String>,
    }
    let password = password(machine, &spec.password_file)?;
    running(machine, &spec.container).await?;
    let asked = psql(spec, format!("look at the database {}", spec.name), &query(spec));
    let said = machine.engine.probe(&asked).await.and_then(Executed::succeeded);
    let said = said.map_err(|failure| failure.during(&asked))?;
    let answer: Answer = serde_json::from_str(&said).during("read what PostgreSQL says of its roles")?;
    let right = answer.verifier.is_some_and(|text| verifies(&text, &password));
    let verifier = (!right).then(|| verifier_of(&password));
    Ok(DatabaseFound { role: answer.role, owner: answer.owner, open: answer.open, verifier })
}

thread_local! {
    /// What was found to verify, as SHA-256 of verifier and password: finding out takes thousands of rounds on purpose,
    /// and every round of the host asks the same of a server that did not change.
    static VERIFIED: RefCell<VecDeque<[u8; 32]>> = const { RefCell::new(VecDeque::new()) };
}

/// More databases than one machine serves.
const MOST_VERIFIED: usize = 64;

fn both(verifier: &str, password: &str) -> [u8; 32] {
    Sha256::new().chain_update(verifier).chain_update([0]).chain_update(password).finalize().into()
}

fn remember(verified: [u8; 32]) {
    VERIFIED.with_borrow_mut(|known| {
        known.push_front(verified);
        known.truncate(MOST_VERIFIED);
    });
}

fn verifies(verifier: &str, password: &str) -> bool {
    let asked = both(verifier, password);
    if VERIFIED.with_borrow(|known| known.contains(&asked)) {
        return true;
    }
    let right = verifier.parse::<ScramVerifier>().is_ok_and(|verifier| verifier.verifies(password));
    if right {
        remember(asked);
    }
    right
}

fn verifier_of(password: &str) -> Content {
    let text = ScramVerifier::new(password).to_text();
    remember(both(&text, password));
    Content::new(text.as_bytes())
}

/// What is in a password file. PostgreSQL would normalise anything but printable ASCII before it hashes it.
pub(super) fn password(machine: &Machine, path: &str) -> Result<String, Failure> {
    let bytes = machine.files.read(path)?;
    let text = String::from_utf8(bytes).unwrap_or_default();
    let password = text.trim_end_matches(['\n', '\r']);
    if password.is_empty() || !password.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
        return Err(Failure::new(format!("{path} has to hold a password of printable ASCII, on one line")));
    }
    Ok(password.to_owned())
}

/// Fails where the container does not run.
pub(super) async fn running(machine: &Machine, container: &str) -> Result<(), Failure> {
    match machine.engine.look().await?.containers.get(container) {
        Some(found) if found.state == State::Running => Ok(()),
        Some(found) => Err(Failure::new(format!("the container {container} is {}", found.state.as_str()))),
        None => Err(Failure::new(format!("there is no container {container}"))),
    }
}

/// Lets psql read this SQL, as the server's own account, which the server knows by its socket.
fn psql(spec: &DatabaseSpec, what: String, sql: &str) -> Execution {
    let command = ["psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", "postgres", "-f", "-"];
    // A statement that fails must not leave a verifier in the server's log.
    let quiet = "SET log_statement TO 'none';\nSET log_min_error_statement TO 'panic';\n";
    Execution::new(&spec.container, what, &command)
        .as_user("postgres")
        .reading(format!("{quiet}{sql}").as_bytes())
}

fn query(spec: &DatabaseSpec) -> String {
    let (database, role) = (literal(&spec.name), literal(&spec.owner));
    format!(
        "SELECT json_build_object(
  'role', (SELECT json_build_object(
      'login', rolcanlogin,
      'powers', rolsuper OR rolcreatedb OR rolcreaterole OR rolreplication OR rolbypassrls,
      'member', EXISTS (SELECT FROM pg_auth_members m WHERE m.member = a.oid))
    FROM pg_authid a WHERE rolname = {role}),
  'verifier', (SELECT rolpassword FROM pg_authid WHERE rolname = {role}),
  'owner', (SELECT pg_get_userbyid(datdba) FROM pg_database WHERE datname = {database}),
  'open', (SELECT coalesce(json_agg(datname ORDER BY datname), '[]') FROM pg_database
    WHERE datname IN ({database}, 'postgres', 'template1')
      AND EXISTS (SELECT FROM aclexplode(coalesce(datacl, acldefault('d', datdba))) WHERE grantee = 0)));\n"
    )
}

/// Takes every privilege on these databases from everybody.
fn close(databases: &[&str]) -> String {
    databases
        .iter()
        .map(|name| {
            let revoke = format!("REVOKE ALL ON DATABASE {} FROM PUBLIC;\n", identifier(name));
            match *name {
                // What is open in the template is open in every database made from it.
                "template1" => {
                    format!("{revoke}\\connect template1\nREVOKE ALL ON SCHEMA public FROM PUBLIC;\n")
                }
                _ => revoke,
            }
        })
        .collect()
}

fn leave_roles(owner: &str) -> String {
    format!(
        "SELECT format('REVOKE %I FROM %I', r.rolname, m.rolname) FROM pg_auth_members g
  JOIN pg_roles r ON r.oid = g.roleid JOIN pg_roles m ON m.oid = g.member WHERE m.rolname = {} \\gexec\n",
        literal(owner)
    )
}

fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// The server reads backslashes as they are (`standard_conforming_strings`, on since PostgreSQL 9.1).
fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> DatabaseSpec {
        DatabaseSpec {
            container: "store".to_owned(),
            name: "inventory".to_owned(),
            owner: "inventory-owner".to_owned(),
            password_file: "/secret".to_owned(),
        }
    }

    fn plan(observed: &DatabaseFound) -> Result<Vec<Step>, Failure> {
        Database::plan(
            &spec(),
            &Ok(observed.clone()),
            &Memory { before: (), applied: None, changed: Vec::new(), reads: String::new() },
        )
    }

    #[test]
    fn names_are_quoted() {
        assert_eq!(identifier("a\"b"), "\"a\"\"b\"");
        assert_eq!(literal("a'b\\"), "'a''b\\'");
    }

    #[test]
    fn a_plan_never_prints_the_verifier() -> Result<(), Failure> {
        let observed = DatabaseFound {
            role: None,
            owner: None,
            open: vec!["template1".to_owned()],
            verifier: Some(Content::new(b"SCRAM-SHA-256$hidden")),
        };
        let steps = plan(&observed)?;
        let printed: Vec<String> = steps.iter().map(ToString::to_string).collect();
        assert_eq!(
            printed,
            [
                "make the role inventory-owner (in the container store)",
                "set the password of the role inventory-owner (in the container store)",
                "make the database inventory (in the container store)",
                "close to everybody else: template1 (in the container store)",
            ]
        );
        assert!(!format!("{steps:?}{observed:?}").contains("hidden"));
        Ok(())
    }

    #[test]
    fn what_is_as_declared_is_left_alone() {
        let role = RoleFound { login: true, powers: false, member: false };
        let owner = Some("inventory-owner".to_owned());
        let observed = DatabaseFound { role: Some(role), owner, open: Vec::new(), verifier: None };
        assert_eq!(plan(&observed), Ok(Vec::new()));
    }
}
