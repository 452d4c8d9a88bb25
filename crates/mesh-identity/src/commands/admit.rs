//! Answering a machine that asks to become a node.

use mesh_ids::{MeshId, NodeName};
use mesh_seal::Purpose;
use mesh_store::Transaction;
use mesh_wire::{EnrolAnswer, EnrolOutcome, EnrolRefusal, EnrolReply, EnrolRequest, password_place};

use crate::{
    Error, Identity,
    domain::{Change, Decision, NewPassword, Proven, RETRY_FOR, Token, decide, read_request},
    queries::account,
    store::{
        nodes::{self, StoredNode},
        tokens,
    },
};

/// What came of a request to join.
#[derive(Debug, Clone)]
pub struct Redemption {
    /// The token the request names, unproven: the answer goes to that token's reply queue and to nobody else.
    pub token_id: String,
    /// The name the request asks for.
    pub node: NodeName,
    /// Whether the machine is that node, now or since an earlier request.
    pub joined: bool,
    /// Why it is not.
    pub refused: Option<EnrolRefusal>,
    /// The answer, signed.
    pub answer: EnrolAnswer,
}

impl Identity {
    /// Answers a request to join. `None`: it is not one, and there is nobody to answer.
    pub async fn redeem(&self, frame: &[u8]) -> Result<Option<Redemption>, Error> {
        let Some(request) = read_request(frame) else { return Ok(None) };
        let content = &request.content;
        let now = self.now();
        let mut transaction = self.begin().await?;
        // Names before tokens, as everywhere, so that nobody waits in a circle.
        nodes::lock_names(&mut transaction).await.map_err(|error| self.failed(error))?;
        let token =
            tokens::lock(&mut transaction, &content.token).await.map_err(|error| self.failed(error))?;
        let held = nodes::one(&mut transaction, &content.node).await.map_err(|error| self.failed(error))?;
        let (outcome, changes) = match decide(&request, token.as_ref(), held.is_some(), now) {
            Decision::Join(proven) => match &token {
                Some(token) => self.join(&mut transaction, token, content, &proven).await?,
                None => refuse(EnrolRefusal::Unknown),
            },
            Decision::Repeat => match held {
                Some(held) if held.sealing_key == content.sealing_key => (self.joined(&held), Vec::new()),
                _ => refuse(EnrolRefusal::Invalid),
            },
            Decision::Reused(proven) => {
                let (outcome, _) = refuse(EnrolRefusal::Used);
                let key = proven.identity.fingerprint();
                (outcome, vec![Change::TokenReused { node: content.node.clone(), key }])
            }
            Decision::Refuse(refusal) => refuse(refusal),
        };
        self.finish(transaction, now, changes).await?;
        let refused = match &outcome {
            EnrolOutcome::Joined { .. } => None,
            EnrolOutcome::Refused { code, .. } => Some(*code),
        };
        let answer = self.answer(content, outcome)?;
        Ok(Some(Redemption {
            token_id: content.token.clone(),
            node: content.node.clone(),
            joined: refused.is_none(),
            refused,
            answer,
        }))
    }

    async fn join(
        &self,
        transaction: &mut Transaction,
        token: &Token,
        content: &EnrolRequest,
        proven: &Proven,
    ) -> Result<(EnrolOutcome, Vec<Change>), Error> {
        let known =
            nodes::has_key(transaction, &proven.identity).await.map_err(|error| self.failed(error))?;
        if known {
            // A machine that is a node already, under another name.
            return Ok(refuse(EnrolRefusal::Invalid));
        }
        let now = self.now();
        let password = NewPassword::of(mesh_seal::random_bytes(), mesh_seal::random_bytes());
        let node = StoredNode {
            name: content.node.clone(),
            identity_key: proven.identity,
            sealing_key: content.sealing_key.clone(),
            tunnel_key: content.tunnel_key.clone(),
            labels: token.labels.clone(),
            joined: now,
            password_sealed: seal(&self.issuer().mesh, content, proven, &password)?,
            password_hash: password.hash,
        };
        nodes::put(transaction, &node).await.map_err(|error| self.failed(error))?;
        let until = now.plus(RETRY_FOR);
        tokens::bind(transaction, &token.id, &proven.identity.to_string(), until)
            .await
            .map_err(|error| self.failed(error))?;
        let change = Change::Joined {
            node: node.name.clone(),
            key: proven.identity.fingerprint(),
            labels: token.labels.clone(),
            host_version: content.host_version.clone(),
        };
        Ok((self.joined(&node), vec![change]))
    }

    fn joined(&self, node: &StoredNode) -> EnrolOutcome {
        EnrolOutcome::Joined {
            account: account(&node.name),
            password: node.password_sealed.clone(),
            declare_keys: vec![self.issuer().declare_key.verifying_key().to_string()],
            labels: node.labels.clone(),
        }
    }

    fn answer(&self, content: &EnrolRequest, outcome: EnrolOutcome) -> Result<EnrolAnswer, Error> {
        let reply = EnrolReply { nonce: content.nonce.clone(), outcome };
        let reply = serde_json::to_vec(&reply).map_err(|error| Error::Encode(error.to_string()))?;
        let signature = self.issuer().declare_key.sign(Purpose::EnrolReply, &reply).to_bytes().to_vec();
        Ok(EnrolAnswer { reply, signature })
    }
}

fn refuse(refusal: EnrolRefusal) -> (EnrolOutcome, Vec<Change>) {
    let advice = match refusal {
        EnrolRefusal::Expired | EnrolRefusal::Used | EnrolRefusal::Unknown => {
            "ask for a new one: mesh node invite NAME"
        }
        EnrolRefusal::Invalid => "copy the whole token again, or ask for a new one: mesh node invite NAME",
        EnrolRefusal::NameTaken => "choose another name, or remove that node first",
    };
    (EnrolOutcome::Refused { code: refusal, reason: format!("{refusal}; {advice}") }, Vec::new())
}

fn seal(
    mesh: &MeshId,
    content: &EnrolRequest,
    proven: &Proven,
    password: &NewPassword,
) -> Result<String, Error> {
    let place = password_place(mesh, &content.node);
    let sealed = proven.sealing.seal(&place, password.text.as_bytes());
    sealed.map(|sealed| sealed.to_string()).map_err(|error| Error::Encode(error.to_string()))
}
