//! A machine that joins the mesh of a test through its broker, and then speaks and listens as a host does.

use std::collections::BTreeMap;

use mesh_api::InviteRequest;
use mesh_client::Client;
use mesh_ids::NodeName;
use mesh_link::names::{down_queue, node_account, reply_queue, token_account, up_exchange};
use mesh_link::{Address, ClientTls, Connection, Endpoint, Frames, Message, Published};
use mesh_seal::{OpeningKey, Purpose, SigningKey, VerifyingKey};
use mesh_testkit::{Broker, wait_for};
use mesh_wire::{
    Declaration, Enrol, EnrolAnswer, EnrolOutcome, EnrolReply, EnrolRequest, Facts, JoinToken, Signed,
};

use crate::broker::{Mesh, PATIENCE};

/// A node, connected to the broker under its account.
pub(crate) struct Machine {
    pub(crate) name: NodeName,
    identity: SigningKey,
    connection: Connection,
}

async fn enter(mesh: &Mesh, account: &str, password: &str) -> Connection {
    let endpoint = Endpoint {
        addresses: vec![Address::new("127.0.0.1", mesh.broker.amqps_port())],
        tls: ClientTls::trusting(&mesh.broker.authority().pem(), Broker::SERVER_NAME).unwrap(),
        vhost: Broker::VHOST.to_owned(),
        account: account.to_owned(),
        password: password.to_owned().into(),
        name: account.to_owned(),
        frames: Frames::Small,
    };
    wait_for("the broker to let the machine in", PATIENCE, async || {
        Connection::open(&endpoint, PATIENCE).await.map_err(|error| error.to_string())
    })
    .await
}

impl Machine {
    /// Is invited and joins.
    pub(crate) async fn join(mesh: &Mesh, client: &Client, name: &str) -> Self {
        let name: NodeName = name.parse().unwrap();
        let invitation = wait_for("the invitation", PATIENCE, async || {
            let request = InviteRequest { node: name.clone(), ttl_s: 60, labels: BTreeMap::new() };
            client.invite(&request).await.map_err(|error| error.to_string())
        })
        .await;
        let token: JoinToken = invitation.token.parse().unwrap();
        let (identity, sealing) = (SigningKey::generate(), OpeningKey::generate());
        let request = EnrolRequest {
            token: token.id.clone(),
            node: name.clone(),
            identity_key: identity.verifying_key().to_string(),
            sealing_key: sealing.sealing_key().to_string(),
            tunnel_key: OpeningKey::generate().sealing_key().to_string(),
            nonce: "bm9uY2U=".to_owned(),
            facts: Facts::default(),
            host_version: "0.1.0".to_owned(),
        };
        let request = serde_json::to_vec(&request).unwrap();
        let keys = token.secret.derive(&token.id);
        let mac = keys.mac(&request).to_vec();
        let signature = identity.sign(Purpose::Enrol, &request).to_bytes().to_vec();
        let body = serde_json::to_vec(&Enrol { request, mac, signature }).unwrap();
        let stranger = enter(mesh, &token_account(&token.id), keys.broker_password()).await;
        let mut replies = stranger.consume(&reply_queue(&token.id), 1).await.unwrap();
        let message =
            Message { exchange: "enrol", key: "enrol", body: &body, signature: None, persistent: true };
        let publisher = stranger.publisher().await.unwrap();
        assert_eq!(publisher.publish(message).await, Ok(Published::Routed));
        let reply = tokio::time::timeout(PATIENCE, replies.next()).await.expect("no answer").unwrap();
        let answer: EnrolAnswer = serde_json::from_slice(&reply.body).unwrap();
        let reply: EnrolReply = serde_json::from_slice(&answer.reply).unwrap();
        let EnrolOutcome::Joined { password, .. } = reply.outcome else { panic!("{:?}", reply.outcome) };
        let place = mesh_wire::password_place(&token.mesh, &name);
        let password = sealing.open(&place, &password.parse().unwrap()).unwrap();
        let password = std::str::from_utf8(&password).unwrap();
        let connection = enter(mesh, &node_account(&name), password).await;
        Self { name, identity, connection }
    }

    /// States something under its account and its signature.
    pub(crate) async fn state(&self, key: &str, body: &impl serde::Serialize) {
        let body = serde_json::to_vec(body).unwrap();
        let signature = self.identity.sign(Purpose::Statement, &body).to_string();
        let exchange = up_exchange(&self.name);
        let message =
            Message { exchange: &exchange, key, body: &body, signature: Some(&signature), persistent: true };
        let publisher = self.connection.publisher().await.unwrap();
        assert_eq!(publisher.publish(message).await, Ok(Published::Routed));
    }

    /// Waits for a declaration that is as wished.
    pub(crate) async fn declared(
        &self,
        key: &VerifyingKey,
        wished: impl Fn(&Declaration) -> bool,
    ) -> Declaration {
        let mut queue = self.connection.consume(&down_queue(&self.name), 8).await.unwrap();
        loop {
            let delivery =
                tokio::time::timeout(PATIENCE, queue.next()).await.expect("no such declaration").unwrap();
            queue.acknowledge(&delivery).await.unwrap();
            let verified = Signed::open(&delivery.body, std::slice::from_ref(key)).unwrap();
            let declaration = Declaration::read(&verified).unwrap();
            if wished(&declaration) {
                return declaration;
            }
        }
    }
}
