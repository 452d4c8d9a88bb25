//! Identity on a real PostgreSQL.

#![expect(clippy::unwrap_used, reason = "tests")]

mod administrator;
mod issuing;
mod joining;
mod schema;

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use mesh_authz::Principal;
use mesh_identity::{Identity, Issuer, Redemption};
use mesh_ids::{Fingerprint, MeshId, NodeName, Timestamp};
use mesh_record::RecordPosition;
use mesh_seal::{OpeningKey, Purpose, SigningKey};
use mesh_store::Store;
use mesh_testkit::{ContextDatabase, Postgres};
use mesh_wire::{Enrol, EnrolOutcome, EnrolRefusal, EnrolReply, EnrolRequest, Facts, JoinToken};

const PATIENCE: Duration = Duration::from_secs(20);
const HOUR: Duration = Duration::from_hours(1);

/// Identity on a database of its own, and the clock it is handed.
struct Mesh {
    postgres: Postgres,
    database: ContextDatabase,
    clock: Arc<AtomicI64>,
    identity: Identity,
}

impl Mesh {
    async fn new() -> Self {
        let postgres = Postgres::start().await;
        let database = postgres.context("identity").await;
        let store = Store::open(mesh_identity::CONTEXT, &database.variables()).unwrap();
        store.migrate(&mesh_identity::migrations().unwrap(), PATIENCE).await.unwrap();
        let clock = Arc::new(AtomicI64::new(at(0).unix_ms()));
        let identity = open(&database, &clock, declare_key());
        Self { postgres, database, clock, identity }
    }

    /// Identity as another process of the control plane finds it.
    fn again(&self) -> Identity {
        open(&self.database, &self.clock, declare_key())
    }

    fn set_clock(&self, seconds: i64) {
        self.clock.store(at(seconds).unix_ms(), Ordering::SeqCst);
    }

    async fn invite(&self, name: &str) -> JoinToken {
        let labels = [("role".to_owned(), "edge".to_owned())].into();
        let token = self.identity.invite(&admin(), &node(name), HOUR, labels).await.unwrap();
        token.to_text().unwrap().parse().unwrap()
    }

    async fn join(&self, name: &str) -> Machine {
        let (token, machine) = (self.invite(name).await, Machine::new());
        assert!(self.redeem(&machine.frame(&token)).await.joined);
        machine
    }

    async fn redeem(&self, frame: &[u8]) -> Redemption {
        self.identity.redeem(frame).await.unwrap().unwrap()
    }

    /// Everything that was recorded, in sentences.
    async fn events(&self) -> Vec<String> {
        let batch = self.identity.record().read(RecordPosition::START, 1000).await.unwrap();
        assert!(batch.stopped.is_none());
        batch.entries.iter().map(|entry| entry.event.to_string()).collect()
    }

    /// Every text and every run of bytes in identity's store.
    async fn everything_stored(&self) -> String {
        let mut server = self.postgres.superuser("identity").await;
        let mut all = String::new();
        for table in ["nodes", "histories", "tokens", "declarations", "administrators", "record"] {
            let statement = format!("SELECT coalesce(string_agg(t::text, E'\\n'), '') FROM {table} AS t");
            let rows: String =
                sqlx::query_scalar(sqlx::AssertSqlSafe(statement)).fetch_one(&mut server).await.unwrap();
            all.push_str(&rows);
        }
        all
    }
}

fn open(database: &ContextDatabase, clock: &Arc<AtomicI64>, declare_key: SigningKey) -> Identity {
    let store = Store::open(mesh_identity::CONTEXT, &database.variables()).unwrap();
    let clock = Arc::clone(clock);
    let issuer = Issuer {
        mesh: mesh_id(),
        declare_key,
        brokers: vec!["192.0.2.1:5671".to_owned()],
        server_name: "broker.mesh.internal".to_owned(),
        ca_pin: Fingerprint::of_sha256([9; 32]),
    };
    Identity::open(store, Arc::new(move || Timestamp::from_unix_ms(clock.load(Ordering::SeqCst))), issuer)
}

fn mesh_id() -> MeshId {
    "0123456789abcdef0123456789abcdef".parse().unwrap()
}

fn declare_key() -> SigningKey {
    SigningKey::from_seed(&[42; 32])
}

fn admin() -> Principal {
    Principal::Admin { name: "admin".to_owned() }
}

fn node(name: &str) -> NodeName {
    name.parse().unwrap()
}

const fn at(seconds: i64) -> Timestamp {
    Timestamp::from_unix_s(1_800_000_000 + seconds)
}

/// A machine with its keys, as `mesh-host join` makes them.
struct Machine {
    identity: SigningKey,
    sealing: OpeningKey,
}

impl Machine {
    fn new() -> Self {
        Self { identity: SigningKey::generate(), sealing: OpeningKey::generate() }
    }

    fn frame(&self, token: &JoinToken) -> Vec<u8> {
        let request = EnrolRequest {
            token: token.id.clone(),
            node: token.node.clone(),
            identity_key: self.identity.verifying_key().to_string(),
            sealing_key: self.sealing.sealing_key().to_string(),
            tunnel_key: OpeningKey::generate().sealing_key().to_string(),
            nonce: "bm9uY2U=".to_owned(),
            facts: Facts::default(),
            host_version: "0.1.0".to_owned(),
        };
        let request = serde_json::to_vec(&request).unwrap();
        let mac = token.secret.derive(&token.id).mac(&request).to_vec();
        let signature = self.identity.sign(Purpose::Enrol, &request).to_bytes().to_vec();
        serde_json::to_vec(&Enrol { request, mac, signature }).unwrap()
    }

    /// The broker password in an answer.
    fn password(&self, redemption: &Redemption) -> String {
        let EnrolOutcome::Joined { password, .. } = outcome(redemption) else { panic!("not joined") };
        let place = mesh_wire::password_place(&mesh_id(), &redemption.node);
        let opened = self.sealing.open(&place, &password.parse().unwrap()).unwrap();
        String::from_utf8(opened.to_vec()).unwrap()
    }
}

/// What an answer says, its signature verified.
fn outcome(redemption: &Redemption) -> EnrolOutcome {
    let answer = &redemption.answer;
    let signature = mesh_seal::Signature::from_bytes(&answer.signature).unwrap();
    declare_key().verifying_key().verify(Purpose::EnrolReply, &answer.reply, &signature).unwrap();
    let reply: EnrolReply = serde_json::from_slice(&answer.reply).unwrap();
    assert_eq!(reply.nonce, "bm9uY2U=", "the answer is to this request");
    reply.outcome
}

fn refusal(redemption: &Redemption) -> EnrolRefusal {
    match outcome(redemption) {
        EnrolOutcome::Refused { code, .. } => code,
        EnrolOutcome::Joined { .. } => panic!("joined"),
    }
}

fn no_labels() -> BTreeMap<String, String> {
    BTreeMap::new()
}
