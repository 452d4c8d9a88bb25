//! A mesh as a joining machine sees it: a broker, a declare key, and somebody who answers requests.

use std::fmt::Debug;
use std::time::Duration;

use mesh_host::join::{self, JoinError, Joined};
use mesh_host::paths::Paths;
use mesh_ids::MeshId;
use mesh_link::{
    Address, ClientTls, Connection, Endpoint, Frames, Management, Message, NodeAccount, PasswordHash,
    TokenAccount, Topology, authority_pin,
};
use mesh_seal::{Purpose, SealingKey, SigningKey, TokenSecret};
use mesh_testkit::Broker;
use mesh_wire::{
    Enrol, EnrolAnswer, EnrolOutcome, EnrolReply, EnrolRequest, Facts, JoinToken, password_place, reply_queue,
};

pub(crate) const DEADLINE: Duration = Duration::from_secs(20);
pub(crate) const NOW: i64 = 1_800_000_000;
const PASSWORD: &str = "the password of the node";

pub(crate) struct Mesh {
    pub(crate) broker: Broker,
    pub(crate) declare_key: SigningKey,
    pub(crate) topology: Topology,
    id: MeshId,
}

impl Mesh {
    pub(crate) async fn start() -> Self {
        let broker = Broker::start().await;
        let address = Address::new("127.0.0.1", broker.management_port());
        let management =
            Management::new(vec![address], tls(&broker), Broker::ADMINISTRATOR, &Broker::PASSWORD.into());
        let topology = Topology::new(management, Broker::VHOST, Broker::ADMINISTRATOR);
        topology.ensure_all(&[], &[]).await.unwrap();
        let id = "0123456789abcdef0123456789abcdef".parse().unwrap();
        Self { broker, declare_key: SigningKey::generate(), topology, id }
    }

    /// A token for a node of this name; its account is not made yet.
    pub(crate) fn token(&self, id: &str, node: &str) -> JoinToken {
        JoinToken {
            id: id.to_owned(),
            secret: TokenSecret::generate(),
            mesh: self.id.clone(),
            node: node.parse().unwrap(),
            brokers: vec![format!("127.0.0.1:{}", self.broker.amqps_port())],
            server_name: Broker::SERVER_NAME.to_owned(),
            ca_pin: authority_pin(&self.broker.authority().pem()).unwrap(),
            declare_key: self.declare_key.verifying_key().to_string(),
            expires: NOW + 3600,
        }
    }

    pub(crate) async fn invite(&self, token: &JoinToken) {
        let keys = token.secret.derive(&token.id);
        let password = PasswordHash::of(keys.broker_password(), [1; 4]);
        self.topology.ensure_token(&TokenAccount { id: token.id.clone(), password }).await.unwrap();
    }

    pub(crate) async fn connect(&self) -> Connection {
        let endpoint = Endpoint {
            addresses: vec![Address::new("127.0.0.1", self.broker.amqps_port())],
            tls: tls(&self.broker),
            vhost: Broker::VHOST.to_owned(),
            account: Broker::ADMINISTRATOR.to_owned(),
            password: Broker::PASSWORD.into(),
            name: "control plane of a test".to_owned(),
            frames: Frames::Small,
        };
        Connection::open(&endpoint, DEADLINE).await.unwrap()
    }

    /// Takes one request, checks both proofs, and hands it over without answering.
    pub(crate) async fn request(&self, connection: &Connection, token: &JoinToken) -> EnrolRequest {
        let mut requests = connection.consume("control.enrol", 1).await.unwrap();
        let delivery = tokio::time::timeout(DEADLINE, requests.next()).await.expect("no request").unwrap();
        requests.acknowledge(&delivery).await.unwrap();
        assert_eq!(delivery.account, Some(format!("j-{}", token.id)));
        let enrol: Enrol = serde_json::from_slice(&delivery.body).unwrap();
        token.secret.derive(&token.id).verify_mac(&enrol.request, &enrol.mac).unwrap();
        let request: EnrolRequest = serde_json::from_slice(&enrol.request).unwrap();
        let key: mesh_seal::VerifyingKey = request.identity_key.parse().unwrap();
        let signature = mesh_seal::Signature::from_bytes(&enrol.signature).unwrap();
        key.verify(Purpose::Enrol, &enrol.request, &signature).unwrap();
        request
    }

    /// Makes the node's account, and the outcome that tells the machine of it.
    pub(crate) async fn admit(&self, token: &JoinToken, request: &EnrolRequest) -> EnrolOutcome {
        let password = PasswordHash::of(PASSWORD, [2; 4]);
        self.topology.ensure_node(&NodeAccount { node: token.node.clone(), password }).await.unwrap();
        let sealing: SealingKey = request.sealing_key.parse().unwrap();
        let place = password_place(&token.mesh, &token.node);
        EnrolOutcome::Joined {
            account: format!("n-{}", token.node),
            password: sealing.seal(&place, PASSWORD.as_bytes()).unwrap().to_string(),
            declare_keys: vec![self.declare_key.verifying_key().to_string()],
            labels: [("rack".to_owned(), "7".to_owned())].into(),
        }
    }

    /// Puts an answer into the token's reply queue, signed by this key.
    pub(crate) async fn answer(
        &self,
        connection: &Connection,
        token: &JoinToken,
        nonce: &str,
        outcome: EnrolOutcome,
        key: &SigningKey,
    ) {
        let reply = serde_json::to_vec(&EnrolReply { nonce: nonce.to_owned(), outcome }).unwrap();
        let signature = key.sign(Purpose::EnrolReply, &reply).to_bytes().to_vec();
        let body = serde_json::to_vec(&EnrolAnswer { reply, signature }).unwrap();
        let queue = reply_queue(&token.id);
        let message = Message { exchange: "", key: &queue, body: &body, signature: None, persistent: true };
        let published = connection.publisher().await.unwrap().publish(message).await;
        assert_eq!(published, Ok(mesh_link::Published::Routed));
    }

    /// Lets the next machine in that comes with this token.
    pub(crate) async fn let_in(&self, token: &JoinToken) -> EnrolRequest {
        let connection = self.connect().await;
        let request = self.request(&connection, token).await;
        let outcome = self.admit(token, &request).await;
        self.answer(&connection, token, &request.nonce, outcome, &self.declare_key).await;
        request
    }
}

fn tls(broker: &Broker) -> ClientTls {
    ClientTls::trusting(&broker.authority().pem(), Broker::SERVER_NAME).unwrap()
}

/// A machine under a folder of its own.
pub(crate) struct Machine {
    root: tempfile::TempDir,
    pub(crate) paths: Paths,
}

impl Machine {
    pub(crate) fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let paths = Paths::under(root.path());
        Self { root, paths }
    }

    pub(crate) async fn join(&self, token: &JoinToken, deadline: Duration) -> Result<Joined, JoinError> {
        let facts = Facts { os: "an operating system".to_owned(), ..Facts::default() };
        let machine = join::Machine { paths: &self.paths, facts, host_version: "0.0.0", now: NOW, deadline };
        join::join(token, &machine, &mut |_| {}).await
    }

    /// Every file there is, with its mode.
    pub(crate) fn files(&self) -> Vec<(String, u32)> {
        use std::os::unix::fs::PermissionsExt as _;
        let mut files = Vec::new();
        let mut folders = vec![self.root.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let (path, mode) = {
                    let entry = entry.unwrap();
                    (entry.path(), entry.metadata().unwrap().permissions().mode() & 0o777)
                };
                if path.is_dir() {
                    folders.push(path);
                } else {
                    let name = path.strip_prefix(self.root.path()).unwrap().display().to_string();
                    files.push((name, mode));
                }
            }
        }
        files.sort();
        files
    }
}

/// The error, which must read like this, and the exit code it leads to.
pub(crate) fn assert_refused<T: Debug>(outcome: Result<T, JoinError>, words: &str, code: u8) {
    let error = outcome.expect_err("it should not have joined");
    assert!(error.to_string().contains(words), "{error}");
    assert_eq!(error.exit_code(), code, "{error}");
}
