//! One control plane on a PostgreSQL and a RabbitMQ of its own.

use std::collections::BTreeMap;
use std::time::Duration;

use mesh_api::{ApplyRequest, Change, InviteRequest, PlanRequest, ProblemCode};
use mesh_client::{Client, Context, Error};
use mesh_control::serve;
use mesh_control::settings::{ApiSettings, BrokerSettings, Settings};
use mesh_seal::SigningKey;
use mesh_store::Store;
use mesh_testkit::{Broker, ContextDatabase, Postgres, wait_for};
use mesh_wire::JoinToken;
use serde_json::json;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

pub(crate) const PATIENCE: Duration = Duration::from_mins(1);
const TOKEN: &str = "token-of-the-administrator-of-a-test";

/// A control plane, and what it runs on.
pub(crate) struct Mesh {
    pub(crate) broker: Broker,
    pub(crate) postgres: Postgres,
    databases: [ContextDatabase; 2],
}

pub(crate) struct Served {
    pub(crate) client: Client,
    pub(crate) stranger: Client,
    pub(crate) task: JoinHandle<anyhow::Result<()>>,
}

impl Mesh {
    pub(crate) async fn start() -> Self {
        let (broker, postgres) = (Broker::start().await, Postgres::start().await);
        let databases = [postgres.context("inventory").await, postgres.context("identity").await];
        let mesh = Self { broker, postgres, databases };
        for (context, migrations) in [
            (mesh_inventory::CONTEXT, mesh_inventory::migrations()),
            (mesh_identity::CONTEXT, mesh_identity::migrations()),
        ] {
            let store = Store::open(context, &mesh.environment()).unwrap();
            store.migrate(&migrations.unwrap(), PATIENCE).await.unwrap();
        }
        mesh
    }

    fn environment(&self) -> BTreeMap<String, String> {
        self.databases.iter().flat_map(ContextDatabase::variables).collect()
    }

    fn settings(&self) -> Settings {
        let authority = self.broker.authority();
        let certificate = authority.issue(&["api.mesh.internal"]);
        Settings {
            mesh: "0123456789abcdef0123456789abcdef".parse().unwrap(),
            ca_pem: authority.pem(),
            declare_key: SigningKey::from_seed(&[1; 32]),
            admin_token: TOKEN.to_owned().into(),
            images_toml: String::new(),
            broker: BrokerSettings {
                address: format!("127.0.0.1:{}", self.broker.amqps_port()),
                server_name: Broker::SERVER_NAME.to_owned(),
                vhost: Broker::VHOST.to_owned(),
                account: Broker::ADMINISTRATOR.to_owned(),
                password: Broker::PASSWORD.to_owned().into(),
                management: format!("https://127.0.0.1:{}", self.broker.management_port()),
                advertised: vec!["192.0.2.1:5671".to_owned()],
            },
            api: ApiSettings {
                listen: "127.0.0.1:0".parse().unwrap(),
                certificate_pem: certificate.chain_pem,
                key_pem: certificate.key_pem.into(),
            },
        }
    }

    pub(crate) async fn serve(&self) -> Served {
        let (settings, environment) = (self.settings(), self.environment());
        let (tell, told) = oneshot::channel();
        let served = move |address| {
            let _ = tell.send(address);
        };
        let task = tokio::spawn(async move { serve::run(settings, &environment, served).await });
        let api = format!("https://{}", told.await.unwrap());
        let client = |token: &str| Context {
            name: "test".to_owned(),
            api: api.clone(),
            server_name: "api.mesh.internal".to_owned(),
            ca_pem: self.broker.authority().pem(),
            token: token.to_owned().into(),
        };
        let (own, foreign) = (client(TOKEN), client("another-token-of-no-administrator-at-all"));
        let client = Client::new(&own).await.unwrap();
        Served { client, stranger: Client::new(&foreign).await.unwrap(), task }
    }
}

pub(crate) fn code<T: std::fmt::Debug>(outcome: Result<T, Error>) -> ProblemCode {
    match outcome {
        Err(Error::Refused(problem)) => problem.code,
        other => panic!("expected a refusal, got {other:?}"),
    }
}

fn module(nodes: &[&str]) -> Change {
    let manifest = json!({
        "name": "hello", "version": "1", "placement": { "nodes": nodes },
        "volume": [{ "name": "data" }],
    });
    Change::Apply { manifest }
}

#[tokio::test]
async fn the_interface_refuses_in_words_and_keeps_what_it_said() {
    let mesh = Mesh::start().await;
    let served = mesh.serve().await;
    let client = &served.client;
    assert_eq!(client.version().await.unwrap().mesh.as_str(), "0123456789abcdef0123456789abcdef");
    assert!(client.nodes().await.unwrap().items.is_empty());
    assert_eq!(code(served.stranger.nodes().await), ProblemCode::Unauthenticated);
    assert_eq!(code(served.stranger.watch("nodes", None).await.map(drop)), ProblemCode::Unauthenticated);
    assert_eq!(code(client.node(&"node-9".parse().unwrap()).await), ProblemCode::NotFound);
    assert_eq!(code(client.module(&"nothing".parse().unwrap()).await), ProblemCode::NotFound);
    assert_eq!(code(client.remove_node(&"node-9".parse().unwrap()).await), ProblemCode::NotFound);
    assert_eq!(code(client.events(Some("yesterday"), 10).await), ProblemCode::Malformed);
    assert_eq!(code(client.events(Some("9999-9999"), 10).await), ProblemCode::Malformed);
    assert_eq!(code(client.events(None, 0).await), ProblemCode::Malformed);

    let malformed = Change::Apply { manifest: json!({ "name": "hello", "sudo": true }) };
    assert_eq!(code(client.plan(&PlanRequest { what: malformed }).await), ProblemCode::Malformed);
    let unknown = client.plan(&PlanRequest { what: module(&["node-9"]) }).await;
    assert_eq!(code(unknown), ProblemCode::Refused);

    let invitation = wait_for("the broker to take the account of an invitation", PATIENCE, async || {
        let request = InviteRequest { node: "node-1".parse().unwrap(), ttl_s: 60, labels: BTreeMap::new() };
        client.invite(&request).await.map_err(|error| error.to_string())
    })
    .await;
    let token: JoinToken = invitation.token.parse().unwrap();
    assert_eq!(token.node.as_str(), "node-1");
    let short = InviteRequest { node: "node-2".parse().unwrap(), ttl_s: 1, labels: BTreeMap::new() };
    assert_eq!(code(client.invite(&short).await), ProblemCode::Malformed);

    // The invited name is a node that has not joined; a stream from the beginning tells of it.
    let mut stream = client.watch("events", Some("0-0")).await.unwrap();
    let first = stream.next().await.unwrap().unwrap();
    assert_eq!(first.event, "event");
    assert!(first.data.contains("node_invited"), "{}", first.data);
    wait_for("the inventory to hear of the invitation", PATIENCE, async || {
        client.nodes().await.unwrap().items.len() == 1
    })
    .await;
}

#[tokio::test]
async fn a_plan_applies_once_and_not_after_the_world_moved() {
    let mesh = Mesh::start().await;
    let served = mesh.serve().await;
    let client = &served.client;
    wait_for("the invitation", PATIENCE, async || {
        let request = InviteRequest { node: "node-1".parse().unwrap(), ttl_s: 60, labels: BTreeMap::new() };
        client.invite(&request).await.map(drop).map_err(|error| error.to_string())
    })
    .await;
    let plan = wait_for("node-1 to be known", PATIENCE, async || {
        let request = PlanRequest { what: module(&["node-1"]) };
        client.plan(&request).await.map_err(|error| error.to_string())
    })
    .await;
    assert_eq!(plan.nodes.len(), 1);
    let stale = ApplyRequest { index: "0".repeat(64), what: module(&["node-1"]) };
    assert_eq!(code(client.apply(&stale).await), ProblemCode::WorldMoved);
    let request = ApplyRequest { index: plan.index, what: module(&["node-1"]) };
    let applied = client.apply(&request).await.unwrap();
    assert_eq!(applied.nodes.len(), 1);
    assert!(client.apply(&request).await.unwrap().nodes.is_empty(), "asked again, it is so already");
    let again = client.plan(&PlanRequest { what: module(&["node-1"]) }).await.unwrap();
    assert!(again.nodes.is_empty(), "no change");

    // Who watches from the beginning is told what is there now, and continues from there: not from each event before.
    let parts = |cursor: &str| -> Vec<u64> { cursor.split('-').map(|part| part.parse().unwrap()).collect() };
    let before = parts(&client.events(None, 1).await.unwrap().cursor);
    let mut stream = client.watch("modules", Some("0-0")).await.unwrap();
    let first = stream.next().await.unwrap().unwrap();
    let id = parts(first.id.as_deref().unwrap());
    assert_eq!(first.event, "module");
    assert!(id.iter().zip(&before).all(|(id, before)| id >= before), "{id:?} after {before:?}");
}

#[tokio::test]
async fn a_second_control_plane_is_refused() {
    let mesh = Mesh::start().await;
    let _served = mesh.serve().await;
    let refused = serve::run(mesh.settings(), &mesh.environment(), |_| panic!("it is served")).await;
    let reason = format!("{:#}", refused.unwrap_err());
    assert!(reason.contains("another control plane"), "{reason}");
}

#[tokio::test]
async fn while_store_or_broker_is_away_the_interface_says_so_and_comes_back() {
    let mut mesh = Mesh::start().await;
    let served = mesh.serve().await;
    mesh.broker.crash();
    assert!(served.client.nodes().await.is_ok(), "reading needs no broker");
    let request = InviteRequest { node: "node-1".parse().unwrap(), ttl_s: 60, labels: BTreeMap::new() };
    assert_eq!(code(served.client.invite(&request).await), ProblemCode::Unavailable);
    mesh.postgres.crash();
    assert_eq!(code(served.client.nodes().await), ProblemCode::Unavailable);
    mesh.postgres.restart().await;
    wait_for("the interface to answer again", PATIENCE, async || {
        served.client.nodes().await.map(drop).map_err(|error| error.to_string())
    })
    .await;
    assert!(!served.task.is_finished(), "the same process went on");
}
