//! A real RabbitMQ: the topology made and kept, who may do what, what a publish comes to, and coming back.

use std::time::Duration;

use mesh_link::names::{down_queue, node_account, up_exchange};
use mesh_link::{
    Address, Changes, ClientTls, Connection, Endpoint, Frames, LinkError, Management, Message, NodeAccount,
    OpenError, PasswordHash, Published, Session, Supervisor, SupervisorState, TokenAccount, Topology,
};
use mesh_testkit::{Broker, wait_for};
use tokio::sync::mpsc;

const DEADLINE: Duration = Duration::from_secs(20);

fn node(name: &str) -> NodeAccount {
    NodeAccount { node: name.parse().unwrap(), password: PasswordHash::of(name, [1, 2, 3, 4]) }
}

fn token(id: &str) -> TokenAccount {
    TokenAccount { id: id.to_owned(), password: PasswordHash::of(id, [1, 2, 3, 4]) }
}

fn tls(broker: &Broker) -> ClientTls {
    ClientTls::trusting(&broker.authority().pem(), Broker::SERVER_NAME).unwrap()
}

fn topology(broker: &Broker) -> Topology {
    let address = Address::new("127.0.0.1", broker.management_port());
    let management =
        Management::new(vec![address], tls(broker), Broker::ADMINISTRATOR, &Broker::PASSWORD.into());
    Topology::new(management, Broker::VHOST, Broker::ADMINISTRATOR)
}

fn endpoint(broker: &Broker, account: &str, password: &str) -> Endpoint {
    Endpoint {
        addresses: vec![Address::new("127.0.0.1", broker.amqps_port())],
        tls: tls(broker),
        vhost: Broker::VHOST.to_owned(),
        account: account.to_owned(),
        password: password.to_owned().into(),
        name: format!("test of {account}"),
        frames: Frames::Small,
    }
}

/// A node's password in these tests is its name.
async fn enter(broker: &Broker, name: &str) -> Connection {
    let account = node_account(&name.parse().unwrap());
    Connection::open(&endpoint(broker, &account, name), DEADLINE).await.unwrap()
}

async fn control(broker: &Broker) -> Connection {
    let endpoint = endpoint(broker, Broker::ADMINISTRATOR, Broker::PASSWORD);
    Connection::open(&endpoint, DEADLINE).await.unwrap()
}

fn message<'a>(exchange: &'a str, key: &'a str, body: &'a [u8]) -> Message<'a> {
    Message { exchange, key, body, signature: Some("c2ln"), persistent: true }
}

#[tokio::test]
async fn the_topology_is_made_kept_and_taken_down() {
    let broker = Broker::start().await;
    let topology = topology(&broker);
    let nodes = [node("node-1"), node("node-10")];
    let made = topology.ensure_all(&nodes, &[token("t1")]).await.unwrap();
    // 3 exchanges, 6 queues, 5 bindings, 3 accounts with their permissions.
    assert_eq!(made, Changes { made: 20, removed: 0 });
    let again = topology.ensure_all(&nodes, &[token("t1")]).await.unwrap();
    assert_eq!(again, Changes::default(), "what stands is left alone");

    // A message both ways, with everything that travels beside the bytes.
    let (up, down) = (up_exchange(&nodes[0].node), down_queue(&nodes[0].node));
    let (one, center) = (enter(&broker, "node-1").await, control(&broker).await);
    let mut reports = center.consume("control.report", 10).await.unwrap();
    let body = vec![b'x'; 100_000];
    let from_node = one.publisher().await.unwrap();
    assert_eq!(from_node.publish(message(&up, "report", &body)).await, Ok(Published::Routed));
    let report = reports.next().await.unwrap();
    assert_eq!(report.body, body);
    assert_eq!(report.account.as_deref(), Some("n-node-1"));
    assert_eq!(report.signature.as_deref(), Some("c2ln"));
    assert_eq!(report.exchange, up);
    reports.acknowledge(&report).await.unwrap();
    let from_control = center.publisher().await.unwrap();
    assert_eq!(from_control.publish(message("", &down, b"declaration")).await, Ok(Published::Routed));
    let mut declarations = one.consume(&down, 1).await.unwrap();
    let first = declarations.next().await.unwrap();
    assert_eq!(first.body, b"declaration");

    // Not acknowledged, it comes back to the next connection; acknowledged, it does not.
    drop((declarations, from_node, one));
    let one = enter(&broker, "node-1").await;
    let mut declarations = one.consume(&down, 1).await.unwrap();
    let second = declarations.next().await.unwrap();
    assert!(second.redelivered);
    declarations.acknowledge_through(&second).await.unwrap();

    // Full, it is nacked; purged, there is room again.
    drop((declarations, one));
    let mut held = 0;
    while from_control.publish(message("", &down, b"old")).await.unwrap() == Published::Routed {
        held += 1;
    }
    // Nine where the connection that was just dropped still took one.
    assert!((8..=9).contains(&held), "{held}");
    topology.purge_node(&nodes[0].node).await.unwrap();
    assert_eq!(from_control.publish(message("", &down, b"new")).await, Ok(Published::Routed));
    let nobody = down_queue(&"nobody".parse().unwrap());
    assert_eq!(from_control.publish(message("", &nobody, b"x")).await, Ok(Published::Unroutable));
    assert_eq!(
        from_control.publish(message("", &down, b"x")).await,
        Ok(Published::Routed),
        "not its neighbour's word"
    );

    // Removed: thrown out, not let in again, and its neighbour untouched.
    let (one, ten) = (enter(&broker, "node-1").await, enter(&broker, "node-10").await);
    let lost = one.lost();
    topology.remove_node(&nodes[0].node).await.unwrap();
    tokio::time::timeout(DEADLINE, lost).await.expect("the removed node's connection was not closed");
    let refused = Connection::open(&endpoint(&broker, "n-node-1", "node-1"), DEADLINE).await;
    assert!(matches!(refused, Err(OpenError::Refused { .. })), "{refused:?}");
    let ten_up = up_exchange(&nodes[1].node);
    let from_ten = ten.publisher().await.unwrap();
    assert_eq!(from_ten.publish(message(&ten_up, "alive", b"{}")).await, Ok(Published::Routed));

    // What the stores do not know goes, a changed password is changed.
    let mut altered = node("node-10");
    altered.password = PasswordHash::of("another", [9; 4]);
    let changes = topology.ensure_all(&[altered], &[]).await.unwrap();
    assert_eq!(changes, Changes { made: 1, removed: 2 }, "the account, the token's account and queue");
    assert!(Connection::open(&endpoint(&broker, "n-node-10", "another"), DEADLINE).await.is_ok());
}

/// What a connection that tries `act` hears.
async fn refused<T: std::fmt::Debug>(
    broker: &Broker,
    name: &str,
    act: impl AsyncFnOnce(&Connection) -> Result<T, LinkError>,
) {
    let connection = enter(broker, name).await;
    let outcome = tokio::time::timeout(DEADLINE, act(&connection)).await.expect("no answer");
    assert!(matches!(outcome, Err(LinkError::Refused(_))), "{outcome:?}");
}

#[tokio::test]
async fn a_node_can_touch_its_own_and_nothing_else() {
    let broker = Broker::start().await;
    let topology = topology(&broker);
    topology.ensure_all(&[node("node-1"), node("node-10")], &[token("t1")]).await.unwrap();
    let publish = async |connection: &Connection, exchange: &str, key: &str| {
        connection.publisher().await?.publish(message(exchange, key, b"{}")).await
    };
    // Prefix names, both ways; the default exchange; other queues; a key nobody bound.
    refused(&broker, "node-1", async |c| publish(c, "up.node-10", "report").await).await;
    refused(&broker, "node-10", async |c| publish(c, "up.node-1", "report").await).await;
    refused(&broker, "node-1", async |c| publish(c, "", "down.node-10").await).await;
    refused(&broker, "node-1", async |c| publish(c, "enrol", "enrol").await).await;
    refused(&broker, "node-1", async |c| c.consume("down.node-10", 1).await).await;
    refused(&broker, "node-1", async |c| c.consume("control.report", 1).await).await;
    refused(&broker, "node-1", async |c| c.consume("reply.t1", 1).await).await;
    let one = enter(&broker, "node-1").await;
    assert_eq!(publish(&one, "up.node-1", "metric").await, Ok(Published::Unroutable));

    // A token's account reaches the enrol exchange and its own reply queue.
    let account = Connection::open(&endpoint(&broker, "j-t1", "t1"), DEADLINE).await.unwrap();
    assert_eq!(publish(&account, "enrol", "enrol").await, Ok(Published::Routed));
    assert!(account.consume("reply.t1", 1).await.is_ok());
    assert!(matches!(publish(&account, "up.node-1", "report").await, Err(LinkError::Refused(_))));

    // Wrong password, no such account, no such virtual host.
    for (account, password, vhost) in [
        ("n-node-1", "wrong", "link"),
        ("n-nobody", "x", "link"),
        ("n-node-1", "node-1", "/"),
        ("n-node-1", "node-1", "none"),
    ] {
        let mut endpoint = endpoint(&broker, account, password);
        vhost.clone_into(&mut endpoint.vhost);
        let outcome = Connection::open(&endpoint, DEADLINE).await;
        assert!(matches!(outcome, Err(OpenError::Refused { .. })), "{account} {vhost}: {outcome:?}");
    }
}

/// Says its name into the channel whenever a heartbeat went through.
struct Beating(mpsc::Sender<()>);

impl Session for Beating {
    async fn run(&mut self, connection: &Connection) -> LinkError {
        let publisher = match connection.publisher().await {
            Ok(publisher) => publisher,
            Err(error) => return error,
        };
        let mut pace = tokio::time::interval(Duration::from_millis(50));
        loop {
            pace.tick().await;
            match publisher.publish(message("up.node-1", "alive", b"{}")).await {
                Ok(Published::Routed) => drop(self.0.try_send(())),
                Ok(other) => return LinkError::Lost(format!("{other:?}")),
                Err(error) => return error,
            }
        }
    }
}

#[tokio::test]
async fn a_supervised_link_comes_back_after_a_crash_and_after_its_account_was_lost() {
    let mut broker = Broker::start().await;
    topology(&broker).ensure_all(&[node("node-1")], &[]).await.unwrap();
    let supervisor = Supervisor::new(endpoint(&broker, "n-node-1", "node-1"), 1);
    let (mut state, hint) = (supervisor.state(), supervisor.hint());
    let (beat, mut beats) = mpsc::channel(1);
    let running = tokio::spawn(async move { supervisor.run(&mut Beating(beat)).await });
    beats.recv().await.unwrap();

    broker.crash();
    state.wait_for(|state| matches!(state, SupervisorState::Waiting { refused: false, .. })).await.unwrap();
    broker.restart().await;
    while beats.try_recv().is_ok() {}
    hint.give();
    tokio::time::timeout(DEADLINE, beats.recv()).await.expect("no heartbeat after the restart").unwrap();

    // Its account is gone: refused until the control plane has made it again.
    topology(&broker).remove_node(&"node-1".parse().unwrap()).await.unwrap();
    state.wait_for(|state| matches!(state, SupervisorState::Waiting { refused: true, .. })).await.unwrap();
    topology(&broker).ensure_all(&[node("node-1")], &[]).await.unwrap();
    while beats.try_recv().is_ok() {}
    wait_for("a heartbeat", Duration::from_mins(5), async || beats.try_recv().is_ok()).await;
    running.abort();
}
