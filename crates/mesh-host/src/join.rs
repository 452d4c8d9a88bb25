//! How a machine becomes a node: a token in, the node's keys and `link.json` out.
//!
//! Says why within a minute when it cannot, and leaves nothing behind then, with one exception. A token is bound to
//! the first identity key that uses it. So once the request may have left the machine and no answer came, the keys stay
//! in `identity/` beside the token's id: the same command again uses the same keys, which the control plane takes for
//! the same machine. Keys of this attempt go when it fails before the request was sent; keys of an earlier attempt go
//! only with a signed refusal, since the control plane may have bound them then; keys of an attempt with another token
//! are replaced. The token's secret is never sent, and only an answer signed by the declare key in
//! the token, echoing this attempt's nonce, is believed.
//! Called by: `mesh-host join`, and the bootstrap for the first node.

mod error;

use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use mesh_ids::{MeshId, NodeName};
use mesh_link::{
    Address, ClientTls, Connection, Delivery, Endpoint, Frames, LearnedAuthority, LinkError, Message,
    OpenError, Published, learn_authority,
};
use mesh_seal::{Purpose, Sealed, Signature, TokenKeys, VerifyingKey};
use mesh_wire::{
    ENROL_EXCHANGE, ENROL_KEY, Enrol, EnrolAnswer, EnrolOutcome, EnrolReply, EnrolRequest, Facts, JoinToken,
    password_place, reply_queue, token_account,
};
use secrecy::SecretString;
use tokio::time::{Instant, sleep, timeout_at};

pub use self::error::JoinError;
use crate::failure::{During as _, Failure};
use crate::keys::{NodeKeys, make_private_folder};
use crate::link_file::{LinkFile, VHOST};
use crate::paths::Paths;

/// Everything together, so that a person knows within a minute.
pub const DEADLINE: Duration = Duration::from_secs(55);
/// Of that, for the first handshake over all addresses.
const LEARN_DEADLINE: Duration = Duration::from_secs(15);
/// And for each connection.
const OPEN_DEADLINE: Duration = Duration::from_secs(10);
/// The node's account exists before the answer is sent; a broker of several machines may need a moment.
const ENTER_AGAIN: Duration = Duration::from_millis(500);

/// What joining needs to know of the machine.
#[derive(Debug)]
pub struct Machine<'a> {
    /// Where the keys and `link.json` go.
    pub paths: &'a Paths,
    /// What the machine is.
    pub facts: Facts,
    /// The version of this program.
    pub host_version: &'a str,
    /// The machine's clock, in seconds since 1970-01-01 UTC.
    pub now: i64,
    /// How long it may take in all: [`DEADLINE`] but in tests.
    pub deadline: Duration,
}

/// How it went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Joined {
    /// The machine is a node from now on.
    Now {
        /// Its name.
        node: NodeName,
        /// Its mesh.
        mesh: MeshId,
        /// The broker that answered.
        broker: Address,
    },
    /// It joined with this very token before; nothing was done.
    Before {
        /// Its name.
        node: NodeName,
    },
}

/// Hears what is being done, in words for a person.
pub type Progress<'a> = &'a mut dyn FnMut(&str);

/// Joins the mesh of this token. Starts nothing: the unit is the caller's to install.
pub async fn join(
    token: &JoinToken,
    machine: &Machine<'_>,
    progress: Progress<'_>,
) -> Result<Joined, JoinError> {
    if let Some(link) = LinkFile::read(machine.paths)? {
        return if link.mesh == token.mesh && link.token == token.id {
            Ok(Joined::Before { node: link.node })
        } else {
            Err(JoinError::AlreadyJoined { mesh: link.mesh, node: link.node })
        };
    }
    if token.expires <= machine.now {
        return Err(JoinError::ExpiredHere { expired: token.expires, now: machine.now });
    }
    let declare_key: VerifyingKey = token.declare_key.parse().during("read the declare key in the token")?;
    let brokers: Result<Vec<Address>, _> = token.brokers.iter().map(|text| text.parse()).collect();
    let brokers = brokers.during("read the addresses in the token")?;
    let end = Instant::now() + machine.deadline;

    let retried = NodeKeys::made_for(machine.paths)?.as_deref() == Some(token.id.as_str());
    let keys = if retried { NodeKeys::read(machine.paths)? } else { None };
    let kept = keys.is_some();
    let keys = match keys {
        Some(keys) => {
            progress("using the keys of the attempt that got no answer");
            keys
        }
        None => NodeKeys::make(machine.paths, &token.id)?,
    };
    let attempt = Attempt { token, brokers, declare_key, machine, keys, end };
    let outcome = attempt.run(progress).await;
    if let Err(error) = &outcome
        && error.settles(kept)
    {
        NodeKeys::remove(machine.paths)?;
    }
    outcome
}

struct Attempt<'a> {
    token: &'a JoinToken,
    brokers: Vec<Address>,
    declare_key: VerifyingKey,
    machine: &'a Machine<'a>,
    keys: NodeKeys,
    end: Instant,
}

/// What the control plane gave.
struct Grant {
    account: String,
    password: SecretString,
    declare_keys: Vec<String>,
    labels: std::collections::BTreeMap<String, String>,
}

impl Attempt<'_> {
    async fn run(&self, progress: Progress<'_>) -> Result<Joined, JoinError> {
        let token = self.token;
        progress(&format!("reaching the broker of mesh {}", token.mesh));
        let learned = learn_authority(&self.brokers, &token.server_name, &token.ca_pin, LEARN_DEADLINE)
            .await
            .map_err(JoinError::NotReached)?;
        let tls =
            ClientTls::trusting(&learned.pem, &token.server_name).during("trust the mesh's authority")?;

        progress(&format!("asking at {} to be let in as {}", learned.address, token.node));
        let token_keys = token.secret.derive(&token.id);
        let password = SecretString::from(token_keys.broker_password().to_owned());
        let endpoint = self.endpoint(&tls, &learned, token_account(&token.id), password);
        let connection = Connection::open(&endpoint, OPEN_DEADLINE).await.map_err(|error| match error {
            OpenError::Refused { .. } => JoinError::TokenNotLetIn,
            other => JoinError::Broken(other.to_string()),
        })?;
        let outcome = self.ask(&connection, &token_keys).await;
        connection.close().await;
        let grant = outcome?;

        progress("entering as the new node");
        let endpoint = self.endpoint(&tls, &learned, grant.account.clone(), grant.password.clone());
        self.enter(&endpoint).await?;
        let mut brokers = self.brokers.clone();
        // The address that answered goes first: the machine is likeliest to reach it again.
        brokers.retain(|address| *address != learned.address);
        brokers.insert(0, learned.address.clone());
        make_private_folder(&self.machine.paths.state())?;
        LinkFile {
            format: LinkFile::FORMAT,
            mesh: token.mesh.clone(),
            node: token.node.clone(),
            token: token.id.clone(),
            brokers,
            server_name: token.server_name.clone(),
            authority: learned.pem,
            declare_keys: grant.declare_keys,
            account: grant.account,
            password: grant.password,
            labels: grant.labels,
        }
        .write(self.machine.paths)
        .map_err(JoinError::Kept)?;
        Ok(Joined::Now { node: token.node.clone(), mesh: token.mesh.clone(), broker: learned.address })
    }

    fn endpoint(
        &self,
        tls: &ClientTls,
        learned: &LearnedAuthority,
        account: String,
        password: SecretString,
    ) -> Endpoint {
        Endpoint {
            addresses: vec![learned.address.clone()],
            tls: tls.clone(),
            vhost: VHOST.to_owned(),
            account,
            password,
            name: format!("mesh-host join {}", self.token.node),
            frames: Frames::Small,
        }
    }

    /// Sends the request and waits for an answer that can be believed.
    async fn ask(&self, connection: &Connection, token_keys: &TokenKeys) -> Result<Grant, JoinError> {
        let broken = |error: LinkError| JoinError::Broken(error.to_string());
        let nonce = STANDARD.encode(mesh_seal::random_bytes::<16>());
        let body = self.request(&nonce, token_keys)?;
        let mut replies = connection.consume(&reply_queue(&self.token.id), 4).await.map_err(broken)?;
        let publisher = connection.publisher().await.map_err(broken)?;
        let message = Message {
            exchange: ENROL_EXCHANGE,
            key: ENROL_KEY,
            body: &body,
            signature: None,
            persistent: true,
        };
        match timeout_at(self.end, publisher.publish(message)).await {
            Ok(Ok(Published::Routed)) => {}
            Ok(Ok(Published::Unroutable | Published::Nacked)) => return Err(JoinError::NobodyListens),
            Ok(Err(error)) => return Err(JoinError::Unanswered(error.to_string())),
            Err(_) => return Err(JoinError::Unanswered("the broker did not confirm the request".to_owned())),
        }
        let mut unbelieved = 0;
        loop {
            let reply = match timeout_at(self.end, replies.next()).await {
                Ok(Ok(reply)) => reply,
                Ok(Err(error)) => return Err(JoinError::Unanswered(error.to_string())),
                Err(_) => return Err(JoinError::silence(unbelieved)),
            };
            let _ = replies.acknowledge(&reply).await;
            match self.believe(&reply, &nonce) {
                Some(EnrolOutcome::Refused { code, reason }) => {
                    return Err(JoinError::Refused { code, reason });
                }
                Some(EnrolOutcome::Joined { account, password, declare_keys, labels }) => {
                    let password = self.open_password(&password).map_err(JoinError::Kept)?;
                    return Ok(Grant { account, password, declare_keys, labels });
                }
                // An answer to an earlier attempt, or not the control plane's: the right one may follow.
                None => unbelieved += 1,
            }
        }
    }

    fn request(&self, nonce: &str, token_keys: &TokenKeys) -> Result<Vec<u8>, Failure> {
        let request = serde_json::to_vec(&EnrolRequest {
            token: self.token.id.clone(),
            node: self.token.node.clone(),
            identity_key: self.keys.identity.verifying_key().to_string(),
            sealing_key: self.keys.sealing.sealing_key().to_string(),
            tunnel_key: self.keys.tunnel.sealing_key().to_string(),
            nonce: nonce.to_owned(),
            facts: self.machine.facts.clone(),
            host_version: self.machine.host_version.to_owned(),
        })
        .during("write the request to join")?;
        let mac = token_keys.mac(&request).to_vec();
        let signature = self.keys.identity.sign(Purpose::Enrol, &request).to_bytes().to_vec();
        serde_json::to_vec(&Enrol { request, mac, signature }).during("write the request to join")
    }

    /// What an answer says, if it is the control plane's and to this attempt.
    fn believe(&self, reply: &Delivery, nonce: &str) -> Option<EnrolOutcome> {
        let answer: EnrolAnswer = serde_json::from_slice(&reply.body).ok()?;
        let signature = Signature::from_bytes(&answer.signature).ok()?;
        self.declare_key.verify(Purpose::EnrolReply, &answer.reply, &signature).ok()?;
        let reply: EnrolReply = serde_json::from_slice(&answer.reply).ok()?;
        (reply.nonce == nonce).then_some(reply.outcome)
    }

    fn open_password(&self, sealed: &str) -> Result<SecretString, Failure> {
        let what = "open the broker password that was sealed to this machine";
        let sealed: Sealed = sealed.parse().during(what)?;
        let place = password_place(&self.token.mesh, &self.token.node);
        let password = self.keys.sealing.open(&place, &sealed).during(what)?;
        Ok(std::str::from_utf8(&password).during(what)?.to_owned().into())
    }

    /// Proves that the new account is let in, before the machine believes that it is a node.
    async fn enter(&self, endpoint: &Endpoint) -> Result<(), JoinError> {
        loop {
            let left = self.end.saturating_duration_since(Instant::now()).min(OPEN_DEADLINE);
            let error = match Connection::open(endpoint, left).await {
                Ok(connection) => {
                    connection.close().await;
                    return Ok(());
                }
                Err(error) => error,
            };
            if Instant::now() + ENTER_AGAIN >= self.end {
                return Err(JoinError::Unanswered(error.to_string()));
            }
            sleep(ENTER_AGAIN).await;
        }
    }
}
