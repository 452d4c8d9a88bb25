//! Issuing declarations: number, sign and keep, in one transaction.

use mesh_ids::{NodeName, Position, Timestamp};
use mesh_wire::{Declaration, FORMAT, MAX_FRAME_BYTES, Resource, Signed};

use crate::{
    Error, Identity,
    domain::{Change, Content, KEPT, Refusal, Stage, VALID_FOR, next_position, still_good},
    store::{
        declarations::{self, StoredDeclaration},
        nodes::{self, StoredNode},
    },
};

/// The newest declaration of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Newest {
    /// Where it stands.
    pub position: Position,
    /// Which part it holds.
    pub stage: Stage,
    /// When it was issued.
    pub issued: Timestamp,
    /// The frame to send.
    pub signed: Signed,
}

/// What came of issuing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Issued {
    /// There is a new one, to be sent.
    New(Newest),
    /// The newest one says the same already.
    Unchanged(Newest),
}

impl Issued {
    /// The newest declaration, new or not.
    pub const fn newest(&self) -> &Newest {
        match self {
            Self::New(newest) | Self::Unchanged(newest) => newest,
        }
    }
}

impl Identity {
    /// Has a node declared these resources. Two at once wait for each other: each position is given once.
    pub async fn issue(
        &self,
        node: &NodeName,
        resources: &[Resource],
        stage: Stage,
    ) -> Result<Issued, Error> {
        let key = self.issuer().declare_key.verifying_key();
        let content =
            Content::of(resources, stage, &key).map_err(|error| Error::Encode(error.to_string()))?;
        let now = self.now();
        let mut transaction = self.begin().await?;
        let read = async {
            let Some(held) = nodes::lock(&mut transaction, node).await? else { return Ok(None) };
            let generation = nodes::generation(&mut transaction, node).await?;
            Ok(Some((held, generation, declarations::newest(&mut transaction, node).await?)))
        };
        let Some((held, generation, newest)) = read.await.map_err(|error| self.failed(error))? else {
            return Err(Refusal::NoSuchNode { node: node.clone() }.into());
        };
        if let Some(newest) = &newest
            && still_good((&newest.content, newest.position, newest.not_after), &content, generation, now)
        {
            return Ok(Issued::Unchanged(newest.clone().into()));
        }
        let position = next_position(newest.map(|newest| newest.position), generation)
            .ok_or_else(|| Refusal::SequenceUsedUp { node: node.clone() })?;
        let not_after = now.plus(VALID_FOR);
        let signed = self.sign(&held, position, (now, not_after), resources)?;
        let issued = StoredDeclaration { position, stage, content, issued: now, not_after, signed };
        declarations::put(&mut transaction, node, &issued, KEPT).await.map_err(|error| self.failed(error))?;
        let change = Change::Issued { node: node.clone(), position, stage, resources: resources.len() };
        self.finish(transaction, now, [change]).await?;
        Ok(Issued::New(issued.into()))
    }

    fn sign(
        &self,
        node: &StoredNode,
        position: Position,
        (issued, not_after): (Timestamp, Timestamp),
        resources: &[Resource],
    ) -> Result<Signed, Error> {
        let encode = |error: serde_json::Error| Error::Encode(error.to_string());
        let mesh = self.issuer().mesh.clone();
        let declaration = Declaration {
            format: FORMAT,
            mesh,
            node: node.name.clone(),
            key: node.identity_key.fingerprint(),
            epoch: position.epoch,
            generation: position.generation,
            sequence: position.sequence,
            issued: issued.unix_s(),
            not_after: not_after.unix_s(),
            resources: resources.iter().map(Resource::to_raw).collect::<Result<_, _>>().map_err(encode)?,
        };
        let signed = Signed::new(declaration.to_bytes().map_err(encode)?, &self.issuer().declare_key);
        let size = serde_json::to_vec(&signed).map_err(encode)?.len();
        if size > MAX_FRAME_BYTES {
            return Err(Refusal::TooLarge { node: node.name.clone(), size, most: MAX_FRAME_BYTES }.into());
        }
        Ok(signed)
    }
}

impl From<StoredDeclaration> for Newest {
    fn from(stored: StoredDeclaration) -> Self {
        Self { position: stored.position, stage: stored.stage, issued: stored.issued, signed: stored.signed }
    }
}
