//! Joining in every way it can go, and the uplink of a node that joined.

use std::sync::Arc;
use std::time::Duration;

use mesh_host::doctor::{self, Level};
use mesh_host::join::Joined;
use mesh_host::keys::NodeKeys;
use mesh_host::link_file::{self, LinkFile};
use mesh_host::login::{BrokerLogin, LoggedIn, Login as _};
use mesh_host::machine::Clock;
use mesh_host::report::{self, FromLink, LinkState};
use mesh_host::uplink::Uplink;
use mesh_ids::{Epoch, Generation, Position, Sequence};
use mesh_link::{Consumer, Delivery, Message, Published, authority_pin};
use mesh_seal::{Purpose, SigningKey, VerifyingKey};
use mesh_testkit::{Authority, Broker, wait_for};
use mesh_wire::{Alive, EnrolOutcome, EnrolRefusal, Report};

use crate::mesh::{DEADLINE, Machine, Mesh, NOW, assert_refused};

/// Long enough for a broker that answers, short enough to wait for one that does not.
const SHORT: Duration = Duration::from_secs(4);

#[tokio::test]
async fn a_machine_joins_once_and_only_once() {
    let mesh = Mesh::start().await;
    let token = mesh.token("t1", "node-1");
    mesh.invite(&token).await;
    let machine = Machine::new();
    let (joined, request) = tokio::join!(machine.join(&token, DEADLINE), mesh.let_in(&token));
    let joined = joined.unwrap();
    assert!(matches!(&joined, Joined::Now { node, .. } if *node == token.node), "{joined:?}");
    assert_eq!(request.facts.os, "an operating system");

    let link = LinkFile::read(&machine.paths).unwrap().unwrap();
    assert_eq!((link.node.as_str(), link.account.as_str()), ("node-1", "n-node-1"));
    assert_eq!(link.labels["rack"], "7");
    assert_eq!(authority_pin(&link.authority).unwrap(), token.ca_pin);
    let keys = NodeKeys::read(&machine.paths).unwrap().unwrap();
    assert_eq!(keys.identity.verifying_key().to_string(), request.identity_key);
    assert_eq!(keys.sealing.sealing_key().to_string(), request.sealing_key);
    assert_eq!(keys.tunnel.sealing_key().to_string(), request.tunnel_key);
    assert!(machine.files().iter().all(|(_, mode)| *mode == 0o600), "{:?}", machine.files());
    assert!(!format!("{link:?}").contains("the password"), "a secret was printed");

    // Again with the same token: nothing is done. With another: refused.
    let files = machine.files();
    assert_eq!(machine.join(&token, SHORT).await, Ok(Joined::Before { node: token.node.clone() }));
    let other = mesh.token("t2", "node-2");
    assert_refused(machine.join(&other, SHORT).await, "this machine is the node node-1", 3);
    assert_eq!(machine.files(), files);

    // Left: nothing remains.
    link_file::forget(&machine.paths).unwrap();
    assert_eq!(machine.files(), []);
}

#[tokio::test]
async fn a_machine_that_cannot_join_says_why_and_leaves_nothing_behind() {
    let mesh = Mesh::start().await;
    let machine = Machine::new();
    let good = mesh.token("t1", "node-1");

    let mut token = good.clone();
    token.expires = NOW - 60;
    assert_refused(machine.join(&token, SHORT).await, "the token expired 1m ago by this machine's clock", 3);
    let mut token = good.clone();
    token.brokers = vec!["127.0.0.1:1".to_owned()];
    assert_refused(machine.join(&token, SHORT).await, "can reach that port", 4);
    token.brokers = vec!["no-such-host.invalid:5671".to_owned()];
    assert_refused(machine.join(&token, SHORT).await, "the name does not resolve", 4);
    let mut token = good.clone();
    token.ca_pin = authority_pin(&Authority::new().pem()).unwrap();
    assert_refused(machine.join(&token, SHORT).await, "does not present the pinned authority", 3);
    let mut token = good.clone();
    token.server_name = "another.mesh.internal".to_owned();
    assert_refused(machine.join(&token, SHORT).await, "is not for the name \"another.mesh.internal\"", 3);
    // Never invited; invited with another secret.
    assert_refused(machine.join(&good, SHORT).await, "the broker does not let this token in", 3);
    mesh.invite(&mesh.token("t1", "node-1")).await;
    assert_refused(machine.join(&good, SHORT).await, "the broker does not let this token in", 3);

    // A signed refusal.
    mesh.invite(&good).await;
    let refuse = async {
        let connection = mesh.connect().await;
        let request = mesh.request(&connection, &good).await;
        let outcome = EnrolOutcome::Refused {
            code: EnrolRefusal::NameTaken,
            reason: "there is a node-1 already; invite under another name".to_owned(),
        };
        mesh.answer(&connection, &good, &request.nonce, outcome, &mesh.declare_key).await;
    };
    let (outcome, ()) = tokio::join!(machine.join(&good, DEADLINE), refuse);
    assert_refused(outcome, "there is a node-1 already", 3);
    assert_eq!(machine.files(), []);
}

#[tokio::test]
async fn a_forged_answer_is_ignored_and_a_retry_is_the_same_machine() {
    let mesh = Mesh::start().await;
    let token = mesh.token("t1", "node-1");
    mesh.invite(&token).await;
    let machine = Machine::new();

    // Answers by another key, and by the right key to another attempt: neither is believed, in neither direction.
    let forge = async {
        let connection = mesh.connect().await;
        let request = mesh.request(&connection, &token).await;
        let refused = || EnrolOutcome::Refused { code: EnrolRefusal::Used, reason: String::new() };
        let outcome = mesh.admit(&token, &request).await;
        let stranger = SigningKey::generate();
        mesh.answer(&connection, &token, &request.nonce, outcome, &stranger).await;
        mesh.answer(&connection, &token, &request.nonce, refused(), &stranger).await;
        mesh.answer(&connection, &token, "another nonce", refused(), &mesh.declare_key).await;
        request
    };
    let (outcome, first) = tokio::join!(machine.join(&token, SHORT), forge);
    assert_refused(outcome, "(3 messages that it did not sign for this attempt were ignored)", 4);
    assert!(LinkFile::read(&machine.paths).unwrap().is_none());

    // It may have arrived, so the keys stay, also when an attempt in between reaches nobody or the wrong one, and the same
    // command uses them again.
    let files = machine.files();
    let mut cut = token.clone();
    cut.brokers = vec!["127.0.0.1:1".to_owned()];
    assert_refused(machine.join(&cut, SHORT).await, "can reach that port", 4);
    let mut intercepted = token.clone();
    intercepted.ca_pin = authority_pin(&Authority::new().pem()).unwrap();
    assert_refused(machine.join(&intercepted, SHORT).await, "does not present the pinned authority", 3);
    assert_eq!(machine.files(), files);
    let (joined, second) = tokio::join!(machine.join(&token, DEADLINE), mesh.let_in(&token));
    assert!(matches!(joined, Ok(Joined::Now { .. })), "{joined:?}");
    assert_eq!(second.identity_key, first.identity_key);
    assert_ne!(second.nonce, first.nonce);
}

#[tokio::test]
async fn keys_that_were_kept_go_with_a_signed_refusal() {
    let mesh = Mesh::start().await;
    let token = mesh.token("t1", "node-1");
    mesh.invite(&token).await;
    let machine = Machine::new();
    let silent = async { mesh.request(&mesh.connect().await, &token).await };
    let (outcome, _) = tokio::join!(machine.join(&token, SHORT), silent);
    assert_refused(outcome, "the control plane did not answer", 4);
    assert!(!machine.files().is_empty());
    let refuse = async {
        let connection = mesh.connect().await;
        let request = mesh.request(&connection, &token).await;
        let outcome = EnrolOutcome::Refused { code: EnrolRefusal::Expired, reason: "too late".to_owned() };
        mesh.answer(&connection, &token, &request.nonce, outcome, &mesh.declare_key).await;
    };
    let (outcome, ()) = tokio::join!(machine.join(&token, DEADLINE), refuse);
    assert_refused(outcome, "too late", 3);
    assert_eq!(machine.files(), []);
}

#[tokio::test]
async fn a_fresh_login_says_whether_the_broker_is_reached_and_lets_the_node_in() {
    let mesh = Mesh::start().await;
    let token = mesh.token("t1", "node-1");
    mesh.invite(&token).await;
    let machine = Machine::new();
    let (joined, _) = tokio::join!(machine.join(&token, DEADLINE), mesh.let_in(&token));
    joined.unwrap();
    let link = LinkFile::read(&machine.paths).unwrap().unwrap();
    let log_in = async |link: &LinkFile| BrokerLogin::new(link).unwrap().log_in(SHORT).await;
    assert_eq!(log_in(&link).await, LoggedIn::Yes);
    let mut cut = link.clone();
    cut.brokers = vec!["127.0.0.1:1".parse().unwrap()];
    assert!(matches!(log_in(&cut).await, LoggedIn::No(why) if why.to_string().contains("127.0.0.1:1")));
    let mut intercepted = link.clone();
    intercepted.authority = Authority::new().pem();
    assert!(matches!(log_in(&intercepted).await, LoggedIn::No(_)));
    mesh.topology.remove_node(&token.node).await.unwrap();
    let refused = log_in(&link).await;
    assert!(matches!(&refused, LoggedIn::Refused(_)) && refused.reached(), "{refused:?}");
    assert!(!format!("{refused:?}").contains("the password"), "a secret was printed");
}

#[derive(Clone, Copy)]
struct StoppedClock;

impl Clock for StoppedClock {
    fn now(&self) -> i64 {
        NOW
    }
}

/// The next statement, whose signature must be the node's.
async fn stated<T: serde::de::DeserializeOwned>(queue: &mut Consumer, key: &VerifyingKey) -> T {
    let delivery: Delivery =
        tokio::time::timeout(DEADLINE, queue.next()).await.expect("no statement").unwrap();
    assert_eq!(delivery.account.as_deref(), Some("n-node-1"));
    let signature = delivery.signature.as_deref().unwrap().parse().unwrap();
    key.verify(Purpose::Statement, &delivery.body, &signature).unwrap();
    serde_json::from_slice(&delivery.body).unwrap()
}

#[tokio::test]
async fn the_uplink_brings_frames_and_takes_heartbeats_and_reports_away() {
    let mesh = Mesh::start().await;
    let token = mesh.token("t1", "node-1");
    mesh.invite(&token).await;
    let machine = Machine::new();
    let (joined, _) = tokio::join!(machine.join(&token, DEADLINE), mesh.let_in(&token));
    joined.unwrap();
    let keys = NodeKeys::read(&machine.paths).unwrap().unwrap();
    let link = LinkFile::read(&machine.paths).unwrap().unwrap();
    let key = keys.identity.verifying_key();
    assert_eq!(link.trust(&keys).unwrap().declare_keys, [mesh.declare_key.verifying_key()]);

    let (mut host, end) = report::channel();
    let running = tokio::spawn(Uplink::new(&link, &keys, end).unwrap().run(StoppedClock));
    let connected = async |host: &mut report::HostEnd| loop {
        match host.from_link.recv().await.unwrap() {
            FromLink::State(LinkState::Connected { since, .. }) => break since,
            FromLink::State(_) => {}
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(connected(&mut host).await, NOW);

    // A heartbeat at once, and again as soon as a declaration was accepted.
    let control = mesh.connect().await;
    let mut alive = control.consume("control.alive", 10).await.unwrap();
    let mut reports = control.consume("control.report", 10).await.unwrap();
    let said: Alive = stated(&mut alive, &key).await;
    assert_eq!(said.accepted, None);
    let position =
        Position { epoch: Epoch::new(1), generation: Generation::new(1), sequence: Sequence::new(5) };
    host.accepted.send_replace(Some(position));
    let said: Alive = stated(&mut alive, &key).await;
    assert_eq!(said.accepted, Some(position));

    // A report, confirmed to the host once the broker has it.
    let mut report = Report::new(token.node.clone());
    report.applied = vec!["file:/etc/motd".to_owned()];
    let report = Arc::new(report);
    host.report.send_replace(Some(Arc::clone(&report)));
    let said: Report = stated(&mut reports, &key).await;
    assert_eq!(said, *report);
    let confirmed = host.from_link.recv().await.unwrap();
    assert!(matches!(confirmed, FromLink::Confirmed(confirmed) if confirmed == report));

    // A frame: not taken from the queue until the host is done with it. Killed before that, it comes again.
    let publisher = control.publisher().await.unwrap();
    let frame =
        Message { exchange: "", key: "down.node-1", body: b"frame", signature: None, persistent: true };
    assert_eq!(publisher.publish(frame).await, Ok(Published::Routed));
    let FromLink::Frame { bytes, .. } = host.from_link.recv().await.unwrap() else { panic!("no frame") };
    assert_eq!(bytes, b"frame");
    running.abort();
    let _ = running.await;

    let (mut host, end) = report::channel();
    let running = tokio::spawn(Uplink::new(&link, &keys, end).unwrap().run(StoppedClock));
    connected(&mut host).await;
    let FromLink::Frame { taken, .. } = host.from_link.recv().await.unwrap() else { panic!("no frame") };
    taken.send(()).unwrap();
    let next = Message { body: b"next", ..frame };
    assert_eq!(publisher.publish(next).await, Ok(Published::Routed));
    let FromLink::Frame { bytes, taken } = host.from_link.recv().await.unwrap() else { panic!("no frame") };
    assert_eq!(bytes, b"next", "what was taken came again");
    taken.send(()).unwrap();

    // Removed, it says so.
    mesh.topology.remove_node(&token.node).await.unwrap();
    wait_for("the loss to be told", DEADLINE, async || {
        matches!(
            host.from_link.try_recv(),
            Ok(FromLink::State(LinkState::Disconnected { since: Some(NOW), .. }))
        )
    })
    .await;
    running.abort();
}

#[tokio::test]
async fn the_doctor_tells_apart_who_is_in_the_way_to_the_broker() {
    let mut mesh = Mesh::start().await;
    let token = mesh.token("t1", "node-1");
    mesh.invite(&token).await;
    let machine = Machine::new();
    let (joined, _) = tokio::join!(machine.join(&token, DEADLINE), mesh.let_in(&token));
    joined.unwrap();
    let look = async || {
        let findings =
            doctor::examine(&machine.paths, &mesh_host::machine::Machine::real_as_it_is(&machine.paths))
                .await;
        let ways = ["broker", "tls", "pin", "login"];
        let of_the_way = findings.into_iter().filter(|finding| ways.contains(&finding.check));
        of_the_way.map(|finding| (finding.check, finding.level)).collect::<Vec<_>>()
    };
    let change = |from: &str, to: &str| {
        let text = std::fs::read_to_string(machine.paths.link_file()).unwrap();
        assert!(text.contains(from), "{text}");
        std::fs::write(machine.paths.link_file(), text.replace(from, to)).unwrap();
    };
    let well = [("broker", Level::Ok), ("tls", Level::Ok), ("pin", Level::Ok)];
    assert_eq!(look().await, [well.as_slice(), &[("login", Level::Ok)]].concat());

    change("the password of the node", "another password");
    assert_eq!(look().await, [well.as_slice(), &[("login", Level::Fail)]].concat());
    change(Broker::SERVER_NAME, "another.mesh.internal");
    assert_eq!(look().await, [("broker", Level::Ok), ("tls", Level::Fail), ("pin", Level::Ok)]);
    let quoted = |pem: &str| pem.replace('\n', "\\n");
    change(&quoted(&mesh.broker.authority().pem()), &quoted(&Authority::new().pem()));
    assert_eq!(look().await, [("broker", Level::Ok), ("pin", Level::Fail)]);
    mesh.broker.crash();
    assert_eq!(look().await, [("broker", Level::Fail)]);
}
