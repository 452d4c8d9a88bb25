//! The kind `vhost`: a virtual host and the account that administers it, in a RabbitMQ that runs in a container of this
//! machine.
//!
//! Speaks to the broker through its own tool, inside the container, so that no credential of the broker exists anywhere.
//! The account's password reaches it through standard input only to be checked; what is set is its salted hash. What
//! the virtual host holds is never removed, also not when the resource is.

use std::borrow::Cow;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use mesh_wire::kinds::VhostSpec;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use super::{
    Claim, Kind, Memory,
    database::{password, running},
};
use crate::{
    failure::{During as _, Failure},
    machine::{
        Machine,
        engine::{EngineStep, Execution},
        files::Content,
    },
    step::Step,
};

/// The exit code of rabbitmqctl when the broker itself does not answer (`EX_UNAVAILABLE` of sysexits.h).
const NO_ANSWER: i64 = 69;
const TAG: &str = "administrator";
/// The account that runs the broker: its cookie is what proves who asks.
const USER: &str = "rabbitmq";
/// Imports definitions. The tool does not read them from its standard input, whatever its manual says (4.0): they go
/// through a file in memory, which nobody else can read.
const IMPORT: &str = "set -eu; umask 077; file=$(mktemp /dev/shm/definitions.XXXXXX); trap 'rm -f \"$file\"' EXIT; \
                      cat > \"$file\"; rabbitmqctl -q import_definitions \"$file\"";

/// The kind.
#[derive(Debug)]
pub struct Vhost;

/// What the broker has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VhostFound {
    /// Whether the account exists and has the password that is declared.
    pub password: bool,
    /// Whether the account may use the broker's management interface.
    pub administers: bool,
    /// Whether it may do everything in the virtual host, which therefore exists.
    pub permissions: bool,
    /// The salted hash of the password that is declared, where anything is missing.
    pub hash: Option<Content>,
}

impl Kind for Vhost {
    type Spec = VhostSpec;
    /// Or why the broker cannot be asked: then nothing can be applied, but removal, which leaves everything, is fine.
    type Observed = Result<VhostFound, Failure>;
    type Before = ();

    fn claims(spec: &VhostSpec) -> Vec<Claim> {
        let VhostSpec { container, name, account, .. } = spec;
        vec![
            Claim::new("virtual host", format_args!("{name} in {container}")),
            Claim::new("account", format_args!("{account} in {container}")),
        ]
    }

    fn subject(spec: &VhostSpec) -> Cow<'_, str> {
        Cow::Owned(format!("{}/{}", spec.container, spec.name))
    }

    async fn observe(machine: &Machine, spec: &VhostSpec) -> Result<Self::Observed, Failure> {
        Ok(look(machine, spec).await)
    }

    fn before(_: &VhostSpec, _: &Self::Observed, _: Option<&()>) {}

    fn plan(spec: &VhostSpec, observed: &Self::Observed, _: &Memory<Self>) -> Result<Vec<Step>, Failure> {
        let observed = observed.as_ref().map_err(Clone::clone)?;
        let Some(hash) = &observed.hash else { return Ok(Vec::new()) };
        let VhostSpec { name, account, .. } = spec;
        let everything = ".*";
        // All of it in one go: the tool takes a second to start, and importing what is there already changes nothing.
        let definitions = serde_json::json!({
            "vhosts": [{ "name": name }],
            "users": [{
                "name": account,
                "password_hash": String::from_utf8_lossy(hash.bytes()),
                "hashing_algorithm": "rabbit_password_hashing_sha256",
                "tags": [TAG],
            }],
            "permissions": [{
                "user": account, "vhost": name,
                "configure": everything, "write": everything, "read": everything,
            }],
        });
        let mut missing = Vec::new();
        if !observed.permissions {
            missing.push(format!(
                "make the virtual host {name} and let the account {account} do everything in it"
            ));
        }
        if !observed.administers {
            missing.push(format!("let the account {account} administer"));
        }
        if !observed.password {
            missing.push(format!("set the password of the account {account}"));
        }
        let import = Execution::new(&spec.container, missing.join("; "), &["sh", "-c", IMPORT]).as_user(USER);
        Ok(vec![Step::Engine(EngineStep::Execute(import.reading(definitions.to_string().as_bytes())))])
    }

    fn remove(_: &VhostSpec, _: &Self::Observed, (): &()) -> Result<Vec<Step>, Failure> {
        Ok(Vec::new())
    }
}

async fn look(machine: &Machine, spec: &VhostSpec) -> Result<VhostFound, Failure> {
    #[derive(Deserialize)]
    struct User {
        user: String,
        tags: Vec<String>,
    }
    #[derive(Deserialize)]
    struct Permission {
        vhost: String,
        configure: String,
        write: String,
        read: String,
    }
    let secret = password(machine, &spec.password_file)?;
    running(machine, &spec.container).await?;
    let account = &spec.account;
    let ask = control(spec, "look at the accounts".to_owned(), &["list_users"]);
    let users: Vec<User> = listed(machine, &ask).await?;
    let user = users.iter().find(|user| user.user == *account);
    let administers = user.is_some_and(|user| user.tags.iter().any(|tag| tag == TAG));
    // Each question costs the machine a second of work, so the others are asked only where there is an account.
    let (mut password, mut permissions) = (false, false);
    if user.is_some() {
        let ask = try_password(spec).reading(secret.as_bytes());
        password = asked(machine, &ask).await?.is_some();
        let what = format!("look at what the account {account} may do");
        let ask = control(spec, what, &["list_user_permissions", account]);
        let all: Vec<Permission> = listed(machine, &ask).await?;
        let everything = |it: &Permission| [&it.configure, &it.write, &it.read].iter().all(|it| *it == ".*");
        permissions = all.iter().any(|it| it.vhost == spec.name && everything(it));
    }
    let complete = password && administers && permissions;
    let hash = (!complete).then(|| Content::new(hash(&secret, mesh_seal::random_bytes()).as_bytes()));
    Ok(VhostFound { password, administers, permissions, hash })
}

fn control(spec: &VhostSpec, what: String, words: &[&str]) -> Execution {
    let command: Vec<&str> =
        ["rabbitmqctl", "-q", "--formatter", "json"].iter().chain(words).copied().collect();
    Execution::new(&spec.container, what, &command).as_user(USER)
}

fn try_password(spec: &VhostSpec) -> Execution {
    // Exactly these words: with one more the tool does not read its standard input.
    let command = ["rabbitmqctl", "authenticate_user", &spec.account];
    let what = format!("try the password of the account {}", spec.account);
    Execution::new(&spec.container, what, &command).as_user(USER)
}

/// What the tool said; none where it said no.
async fn asked(machine: &Machine, ask: &Execution) -> Result<Option<String>, Failure> {
    let executed = machine.engine.probe(ask).await.map_err(|failure| failure.during(ask))?;
    if executed.code != NO_ANSWER && executed.code != 0 {
        return Ok(None);
    }
    executed.succeeded().map(Some).map_err(|failure| failure.during(ask))
}

async fn listed<T: serde::de::DeserializeOwned>(
    machine: &Machine,
    ask: &Execution,
) -> Result<Vec<T>, Failure> {
    let said = asked(machine, ask).await?.unwrap_or_default();
    let said = if said.trim().is_empty() { "[]" } else { said.trim() };
    serde_json::from_str(said).during("read what RabbitMQ says").map_err(|failure| failure.during(ask))
}

/// RabbitMQ's `rabbit_password_hashing_sha256`: the salt, and the SHA-256 of salt and password, as base64.
fn hash(password: &str, salt: [u8; 4]) -> String {
    let hashed = Sha256::new().chain_update(salt).chain_update(password).finalize();
    STANDARD.encode([salt.as_slice(), &hashed].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_is_as_the_broker_documents_it() {
        // The worked example of RabbitMQ's page on passwords.
        assert_eq!(
            hash("test12", [0x90, 0x8d, 0xc6, 0x0a]),
            "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR"
        );
    }
}
