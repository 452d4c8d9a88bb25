//! Statements up, declarations down, joining, and a broker that lost everything.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mesh_control::declare::Publish as _;
use mesh_control::link::{Directory, Enrolled, Link, LinkHandle, Newest, StatementSink, Unavailable};
use mesh_control::settings::BrokerSettings;
use mesh_ids::{Epoch, Generation, NodeName, Position, Sequence};
use mesh_link::names::{node_account, token_account, up_exchange};
use mesh_link::{
    Address, ClientTls, Connection, Delivery, Endpoint, Frames, Message, NodeAccount, OpenError,
    PasswordHash, Published, TokenAccount,
};
use mesh_seal::{Purpose, SigningKey, VerifyingKey};
use mesh_testkit::{Broker, LogWatch, wait_for};
use mesh_wire::{Alive, Enrol, EnrolAnswer, EnrolRequest, Facts, Report};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::gate::Gate;

const DEADLINE: Duration = Duration::from_secs(30);

fn name(text: &str) -> NodeName {
    text.parse().unwrap()
}

fn key_of(node: &NodeName) -> SigningKey {
    let mut seed = [0; 32];
    seed[..node.as_str().len()].copy_from_slice(node.as_str().as_bytes());
    SigningKey::from_seed(&seed)
}

fn at(sequence: u64) -> Position {
    Position { epoch: Epoch::new(1), generation: Generation::new(1), sequence: Sequence::new(sequence) }
}

/// A node's password in these tests is its name.
fn account(node: &NodeName) -> NodeAccount {
    NodeAccount { node: node.clone(), password: PasswordHash::of(node.as_str(), [1; 4]) }
}

/// The contexts: what they know, what they were told.
#[derive(Clone, Default)]
struct Contexts(Arc<Mutex<State>>, Arc<Slow>);

/// Where a slow answer waits.
#[derive(Default)]
struct Slow {
    asked: Notify,
    go_on: Notify,
}

#[derive(Default)]
struct State {
    nodes: Vec<NodeName>,
    tokens: Vec<String>,
    newest: BTreeMap<NodeName, Newest>,
    alive: Vec<Alive>,
    reports: Vec<Report>,
    requests: Vec<(String, Enrol)>,
    /// So many reports cannot be written.
    down_for: usize,
    /// Whether who asks for all tokens is answered late, with what was so when it asked.
    slow: bool,
}

impl Contexts {
    fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.0.lock().unwrap())
    }
}

impl Directory for Contexts {
    async fn nodes(&self) -> Result<Vec<NodeAccount>, Unavailable> {
        Ok(self.with(|state| state.nodes.iter().map(account).collect()))
    }

    async fn tokens(&self) -> Result<Vec<TokenAccount>, Unavailable> {
        let account = |id: &String| TokenAccount { id: id.clone(), password: PasswordHash::of(id, [1; 4]) };
        let (tokens, slow) =
            self.with(|state| (state.tokens.iter().map(account).collect(), std::mem::take(&mut state.slow)));
        if slow {
            self.1.asked.notify_one();
            self.1.go_on.notified().await;
        }
        Ok(tokens)
    }

    async fn account(&self, node: &NodeName) -> Result<Option<NodeAccount>, Unavailable> {
        Ok(self.with(|state| state.nodes.contains(node).then(|| account(node))))
    }

    async fn key(&self, node: &NodeName) -> Result<Option<VerifyingKey>, Unavailable> {
        Ok(self.with(|state| state.nodes.contains(node).then(|| key_of(node).verifying_key())))
    }

    async fn newest(&self, node: &NodeName) -> Result<Option<Newest>, Unavailable> {
        Ok(self.with(|state| state.newest.get(node).cloned()))
    }
}

impl StatementSink for Contexts {
    async fn alive(&self, heard: Vec<Alive>) -> Result<(), Unavailable> {
        self.with(|state| state.alive.extend(heard));
        Ok(())
    }

    async fn report(&self, report: Report) -> Result<(), Unavailable> {
        self.with(|state| {
            if state.down_for > 0 {
                state.down_for -= 1;
                return Err(Unavailable("the store does not answer".to_owned()));
            }
            state.reports.push(report);
            Ok(())
        })
    }

    async fn enrol(&self, token_id: &str, enrol: Enrol) -> Result<Option<Enrolled>, Unavailable> {
        let request: EnrolRequest = serde_json::from_slice(&enrol.request).unwrap();
        self.with(|state| {
            state.nodes.push(request.node.clone());
            state.requests.push((token_id.to_owned(), enrol));
        });
        let answer = EnrolAnswer { reply: b"welcome".to_vec(), signature: vec![1; 64] };
        Ok(Some(Enrolled { answer, node: Some(account(&request.node)) }))
    }
}

struct Mesh {
    broker: Broker,
    gate: Gate,
    contexts: Contexts,
    handle: LinkHandle<Contexts>,
    stop: CancellationToken,
}

impl Mesh {
    async fn start(nodes: &[&str], tokens: &[&str]) -> Self {
        Self::start_with(Contexts::default(), nodes, tokens).await
    }

    async fn start_with(contexts: Contexts, nodes: &[&str], tokens: &[&str]) -> Self {
        let broker = Broker::start().await;
        let gate = Gate::before(broker.management_port()).await;
        Self::start_on(broker, gate, contexts, nodes, tokens, Duration::from_mins(1))
    }

    fn start_on(
        broker: Broker,
        gate: Gate,
        contexts: Contexts,
        nodes: &[&str],
        tokens: &[&str],
        period: Duration,
    ) -> Self {
        contexts.with(|state| {
            state.nodes = nodes.iter().map(|node| name(node)).collect();
            state.tokens = tokens.iter().map(|token| (*token).to_owned()).collect();
        });
        let settings = BrokerSettings {
            address: format!("127.0.0.1:{}", broker.amqps_port()),
            server_name: Broker::SERVER_NAME.to_owned(),
            vhost: Broker::VHOST.to_owned(),
            account: Broker::ADMINISTRATOR.to_owned(),
            password: Broker::PASSWORD.into(),
            management: format!("https://127.0.0.1:{}", gate.port()),
            advertised: Vec::new(),
        };
        let ca = broker.authority().pem();
        let (link, handle) = Link::new(&settings, &ca, contexts.clone(), contexts.clone()).unwrap();
        let stop = CancellationToken::new();
        tokio::spawn(link.comparing_every(period).run(stop.clone()));
        Self { broker, gate, contexts, handle, stop }
    }

    async fn open(&self, account: &str, password: &str) -> Result<Connection, OpenError> {
        let endpoint = Endpoint {
            addresses: vec![Address::new("127.0.0.1", self.broker.amqps_port())],
            tls: ClientTls::trusting(&self.broker.authority().pem(), Broker::SERVER_NAME).unwrap(),
            vhost: Broker::VHOST.to_owned(),
            account: account.to_owned(),
            password: password.to_owned().into(),
            name: account.to_owned(),
            frames: Frames::AsLargeAsTheBroker,
        };
        Connection::open(&endpoint, DEADLINE).await
    }

    /// Enters as a node once the link has made its account.
    async fn enter(&self, node: &str) -> Connection {
        let account = node_account(&name(node));
        wait_for("the node to be let in", DEADLINE, async || self.open(&account, node).await).await
    }
}

impl Drop for Mesh {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

async fn state(connection: &Connection, node: &str, key: &str, body: &str, signer: &SigningKey) {
    let exchange = up_exchange(&name(node));
    let signature = signer.sign(Purpose::Statement, body.as_bytes()).to_string();
    let message = Message {
        exchange: &exchange,
        key,
        body: body.as_bytes(),
        signature: Some(&signature),
        persistent: true,
    };
    let publisher = connection.publisher().await.unwrap();
    assert_eq!(publisher.publish(message).await, Ok(Published::Routed));
}

async fn declared(connection: &Connection, node: &str) -> Delivery {
    let mut queue = connection.consume(&format!("down.{node}"), 10).await.unwrap();
    let delivery = tokio::time::timeout(DEADLINE, queue.next()).await.expect("no declaration").unwrap();
    queue.acknowledge(&delivery).await.unwrap();
    delivery
}

#[tokio::test]
async fn what_nodes_say_reaches_its_owner_and_what_others_say_does_not() {
    let mesh = Mesh::start(&["node-1", "node-2"], &[]).await;
    let (one, two) = (name("node-1"), name("node-2"));
    let connection = mesh.enter("node-1").await;
    let alive = r#"{"node":"node-1"}"#;
    state(&connection, "node-1", "alive", alive, &key_of(&one)).await;
    let heard = || mesh.contexts.with(|state| state.alive.clone());
    wait_for("the heartbeat", DEADLINE, async || !heard().is_empty()).await;

    // Another's name under its own account and key; its own name by another's key; not a statement at all.
    state(&connection, "node-1", "alive", r#"{"node":"node-2"}"#, &key_of(&one)).await;
    state(&connection, "node-1", "alive", alive, &key_of(&two)).await;
    state(&connection, "node-1", "report", "hello", &key_of(&one)).await;
    wait_for("three to be dropped", DEADLINE, async || mesh.handle.counts().dropped() == 3).await;
    assert_eq!(heard(), [Alive { node: one.clone(), accepted: None }]);

    // A store that is away for a moment loses no report, and the later one does not overtake.
    mesh.contexts.with(|state| state.down_for = 2);
    let report = r#"{"node":"node-1","refused":"first"}"#;
    state(&connection, "node-1", "report", report, &key_of(&one)).await;
    // Two that wait together would be written as one.
    wait_for("the first to be tried", DEADLINE, async || mesh.contexts.with(|state| state.down_for < 2))
        .await;
    state(&connection, "node-1", "report", r#"{"node":"node-1","refused":"second"}"#, &key_of(&one)).await;
    let told =
        || mesh.contexts.with(|state| state.reports.iter().map(|r| r.refused.clone()).collect::<Vec<_>>());
    wait_for("both reports", DEADLINE, async || told().len() == 2).await;
    assert_eq!(told(), ["first", "second"]);
}

/// A broker hands a header on in one frame, however large the frames of its receiver are.
#[tokio::test]
async fn a_message_with_a_large_header_harms_nobody() {
    let mesh = Mesh::start(&["node-1", "node-2"], &["t1"]).await;
    let hostile = mesh.enter("node-1").await;
    let (exchange, junk) = (up_exchange(&name("node-1")), "A".repeat(100_000));
    let publisher = hostile.publisher().await.unwrap();
    for key in ["alive", "report"] {
        let message = Message {
            exchange: &exchange,
            key,
            body: br#"{"node":"node-1"}"#,
            signature: Some(&junk),
            persistent: true,
        };
        assert_eq!(publisher.publish(message).await, Ok(Published::Routed));
    }
    wait_for("both to be dropped", DEADLINE, async || mesh.handle.counts().dropped() == 2).await;
    let other = mesh.enter("node-2").await;
    state(&other, "node-2", "alive", r#"{"node":"node-2"}"#, &key_of(&name("node-2"))).await;
    let heard = || mesh.contexts.with(|state| state.alive.len());
    wait_for("the other's heartbeat", DEADLINE, async || heard() == 1).await;
}

#[tokio::test]
async fn declarations_find_their_node_also_when_its_queue_is_full_or_gone() {
    let mesh = Mesh::start(&["node-1"], &[]).await;
    let one = name("node-1");
    let connection = mesh.enter("node-1").await;
    mesh.handle.publish(&one, Arc::from(*b"first"));
    assert_eq!(declared(&connection, "node-1").await.body, b"first");

    // Full of older ones: they make room for the newest.
    let control = mesh.open(Broker::ADMINISTRATOR, Broker::PASSWORD).await.unwrap();
    let publisher = control.publisher().await.unwrap();
    let old = Message { exchange: "", key: "down.node-1", body: b"old", signature: None, persistent: true };
    while publisher.publish(old).await.unwrap() == Published::Routed {}
    mesh.handle.publish(&one, Arc::from(*b"newest"));
    wait_for("it to be placed", DEADLINE, async || mesh.handle.waiting() == 0).await;
    assert_eq!(declared(&connection, "node-1").await.body, b"newest");

    // The queue is gone: made again, and the declaration is in it.
    drop(connection);
    let topology = mesh_link::Topology::new(
        mesh_link::Management::new(
            vec![Address::new("127.0.0.1", mesh.broker.management_port())],
            ClientTls::trusting(&mesh.broker.authority().pem(), Broker::SERVER_NAME).unwrap(),
            Broker::ADMINISTRATOR,
            &Broker::PASSWORD.into(),
        ),
        Broker::VHOST,
        Broker::ADMINISTRATOR,
    );
    topology.remove_node(&one).await.unwrap();
    mesh.handle.publish(&one, Arc::from(*b"again"));
    let connection = mesh.enter("node-1").await;
    assert_eq!(declared(&connection, "node-1").await.body, b"again");
    control.close().await;

    // Removed on purpose: thrown out, and nothing is made again for it.
    mesh.contexts.with(|state| state.nodes.clear());
    mesh.handle.remove_node(&one).await.unwrap();
    mesh.handle.publish(&one, Arc::from(*b"late"));
    let refused = mesh.open("n-node-1", "node-1").await;
    assert!(matches!(refused, Err(OpenError::Refused { .. })), "{refused:?}");
}

#[tokio::test]
async fn a_machine_is_answered_and_a_broker_that_lost_everything_is_made_again() {
    let mut mesh = Mesh::start(&["node-1"], &[]).await;
    let one = name("node-1");
    // The account is made while the link runs.
    drop(mesh.enter("node-1").await);
    mesh.contexts.with(|state| state.tokens.push("t1".to_owned()));
    mesh.handle.invite("t1").await.unwrap();
    let machine = mesh.open(&token_account("t1"), "t1").await.unwrap();
    let request = |token: &str| {
        let request = serde_json::to_vec(&EnrolRequest {
            token: token.to_owned(),
            node: name("node-2"),
            identity_key: String::new(),
            sealing_key: String::new(),
            tunnel_key: String::new(),
            nonce: String::new(),
            facts: Facts::default(),
            host_version: String::new(),
        });
        serde_json::to_vec(&Enrol { request: request.unwrap(), mac: vec![1], signature: vec![1] }).unwrap()
    };
    let publisher = machine.publisher().await.unwrap();
    for body in [request("t2"), b"no request".to_vec(), request("t1")] {
        let message =
            Message { exchange: "enrol", key: "enrol", body: &body, signature: None, persistent: true };
        assert_eq!(publisher.publish(message).await, Ok(Published::Routed));
    }
    let mut replies = machine.consume("reply.t1", 1).await.unwrap();
    let reply = tokio::time::timeout(DEADLINE, replies.next()).await.expect("no answer").unwrap();
    let answer: EnrolAnswer = serde_json::from_slice(&reply.body).unwrap();
    assert_eq!(answer.reply, b"welcome");
    // The account it is told of is there already.
    drop(mesh.open("n-node-2", "node-2").await.unwrap());
    assert_eq!(
        mesh.contexts.with(|state| state.requests.len()),
        1,
        "only the request of the account's own token"
    );
    mesh.handle.withdraw("t1").await.unwrap();
    assert!(matches!(mesh.open("j-t1", "t1").await, Err(OpenError::Refused { .. })));

    // Everything is lost while a declaration waits to be taken. The node comes back, says what it holds, and is sent
    // the newest again.
    mesh.contexts.with(|state| {
        state.tokens.clear();
        state.newest.insert(one.clone(), Newest { position: at(5), frame: Arc::from(*b"newest") });
    });
    mesh.broker.crash();
    mesh.broker.restart_empty().await;
    let connection = mesh.enter("node-1").await;
    let behind = serde_json::to_string(&Alive { node: one.clone(), accepted: Some(at(4)) }).unwrap();
    state(&connection, "node-1", "alive", &behind, &key_of(&one)).await;
    assert_eq!(declared(&connection, "node-1").await.body, b"newest");
    // Once it holds the newest, it is sent nothing more.
    let current = serde_json::to_string(&Alive { node: one.clone(), accepted: Some(at(5)) }).unwrap();
    let before = mesh.handle.counts().taken();
    state(&connection, "node-1", "alive", &current, &key_of(&one)).await;
    wait_for("the heartbeat", DEADLINE, async || mesh.handle.counts().taken() > before).await;
    let mut queue = connection.consume("down.node-1", 1).await.unwrap();
    let more = tokio::time::timeout(Duration::from_millis(500), queue.next()).await;
    assert!(more.is_err(), "{more:?}");
}

/// A whole comparison with the stores takes its time; what is decided meanwhile must not be undone by it.
#[tokio::test]
async fn what_changes_during_a_comparison_is_not_undone_by_it() {
    let contexts = Contexts::default();
    contexts.with(|state| state.slow = true);
    let mesh = Mesh::start_with(contexts, &["node-1"], &[]).await;
    tokio::time::timeout(DEADLINE, mesh.contexts.1.asked.notified()).await.expect("no comparison");
    // The comparison knows node-1 and no token. Now it is the other way round.
    mesh.contexts.with(|state| {
        state.nodes.clear();
        state.tokens.push("t1".to_owned());
    });
    let changes = tokio::spawn({
        let handle = mesh.handle.clone();
        async move {
            handle.remove_node(&name("node-1")).await.unwrap();
            handle.invite("t1").await.unwrap();
        }
    });
    tokio::pin!(changes);
    // Time enough for changes that wait for nobody to be over before the comparison goes on.
    let early = tokio::time::timeout(Duration::from_secs(2), &mut changes).await;
    mesh.contexts.1.go_on.notify_one();
    if early.is_err() {
        changes.await.unwrap();
    }
    wait_for("the comparison to be over", DEADLINE, async || {
        mesh.open(Broker::ADMINISTRATOR, Broker::PASSWORD)
            .await
            .unwrap()
            .consume("control.alive", 1)
            .await
            .is_ok()
    })
    .await;
    drop(mesh.open(&token_account("t1"), "t1").await.expect("the invitation was taken away again"));
    let removed = mesh.open("n-node-1", "node-1").await;
    assert!(
        matches!(removed, Err(OpenError::Refused { .. })),
        "the removed node is let in again: {removed:?}"
    );
}

#[tokio::test]
async fn a_management_interface_that_is_away_for_a_moment_cuts_nothing_off() {
    let broker = Broker::start().await;
    let gate = Gate::before(broker.management_port()).await;
    gate.shut();
    let mut log = LogWatch::start();
    // The library says so of every connection that is refused or cut, and both happen here.
    log.announce("error");
    let mut mesh =
        Mesh::start_on(broker, gate, Contexts::default(), &["node-1"], &["t1"], Duration::from_millis(200));
    let away = "could not be compared with the stores";
    wait_for("a comparison to fail", DEADLINE, async || log.has(away)).await;
    assert_eq!(mesh.handle.listening(), None, "the connection is open, and nobody listens yet");
    mesh.gate.open();
    let connection = mesh.enter("node-1").await;
    wait_for("the heartbeats to be listened to", DEADLINE, async || mesh.handle.listening() == Some(1)).await;

    // Away in the middle of a session: what nodes say is heard, what they are told reaches them.
    mesh.gate.shut();
    let asked = mesh.handle.invite("t1").await;
    assert!(asked.is_err(), "{asked:?}");
    let one = name("node-1");
    state(&connection, "node-1", "alive", r#"{"node":"node-1"}"#, &key_of(&one)).await;
    wait_for("the heartbeat", DEADLINE, async || !mesh.contexts.with(|state| state.alive.is_empty())).await;
    mesh.handle.publish(&one, Arc::from(*b"newest"));
    assert_eq!(declared(&connection, "node-1").await.body, b"newest");

    // It is put right once it is back, in the same session.
    mesh.contexts.with(|state| state.nodes.push(name("node-2")));
    mesh.gate.open();
    drop(mesh.enter("node-2").await);
    assert_eq!(mesh.handle.listening(), Some(1));
    let opened = log.lines().iter().filter(|line| line.contains("the link is open")).count();
    assert_eq!(opened, 1, "{:?}", log.lines());

    // A session that follows one that stood does not wait for a comparison.
    mesh.gate.shut();
    mesh.broker.crash();
    wait_for("nobody to listen", DEADLINE, async || mesh.handle.listening().is_none()).await;
    mesh.broker.restart().await;
    wait_for("the heartbeats to be listened to again", DEADLINE, async || mesh.handle.listening() == Some(2))
        .await;
}
