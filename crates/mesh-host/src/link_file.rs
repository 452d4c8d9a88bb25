//! What the node knows of its mesh: `link.json`, written once when it joined. Private, since it holds a password.
//!
//! Called by: joining (writes), the run loop and the uplink (read), leaving (removes).

use std::collections::BTreeMap;

use mesh_ids::{MeshId, NodeName};
use mesh_link::{Address, ClientTls, Endpoint, Frames};
use mesh_seal::VerifyingKey;
use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize, Serializer};

use crate::failure::{During as _, Failure};
use crate::intake::Trust;
use crate::keys::{NodeKeys, read_private, remove_private, write_private};
use crate::ledger::Ledger;
use crate::paths::Paths;

/// The format this version writes, and the newest it reads.
const FORMAT: u32 = 1;
/// The virtual host of every mesh's link.
pub(crate) const VHOST: &str = "link";

/// The content of `link.json`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LinkFile {
    /// The format of what follows: 1.
    pub format: u32,
    /// The mesh.
    pub mesh: MeshId,
    /// This node's name in it.
    pub node: NodeName,
    /// The join token that was used, so that joining again with it is seen as done.
    pub token: String,
    /// Where the broker listens, the likeliest first.
    pub brokers: Vec<Address>,
    /// The name in its certificate.
    pub server_name: String,
    /// The certificate of the mesh's authority, as PEM.
    pub authority: String,
    /// The declare keys to trust, as base64.
    pub declare_keys: Vec<String>,
    /// The node's account on the broker.
    pub account: String,
    /// Its password.
    #[serde(serialize_with = "expose")]
    pub password: SecretString,
    /// Labels the issuer of the token fixed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

/// Into the one private file, and nowhere else.
fn expose<S: Serializer>(secret: &SecretString, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(secret.expose_secret())
}

impl LinkFile {
    /// The format that is written.
    pub(crate) const FORMAT: u32 = FORMAT;

    /// Reads the file; none where the machine has joined no mesh.
    pub fn read(paths: &Paths) -> Result<Option<Self>, Failure> {
        let path = paths.link_file();
        let what = || format!("read {}", path.display());
        let Some(text) = read_private(&path)? else { return Ok(None) };
        let link: Self = serde_json::from_str(&text).during(what())?;
        if link.format != FORMAT {
            let format = link.format;
            return Err(
                Failure::new(format!("it has format {format}, this host reads {FORMAT}")).during(what())
            );
        }
        Ok(Some(link))
    }

    /// Writes the file: from now on the machine is a node.
    pub(crate) fn write(&self, paths: &Paths) -> Result<(), Failure> {
        let path = paths.link_file();
        let json = serde_json::to_vec_pretty(self).during(format!("write {}", path.display()))?;
        write_private(&path, &json)
    }

    /// Whom the node follows.
    pub fn trust(&self, keys: &NodeKeys) -> Result<Trust, Failure> {
        let declare_keys: Result<Vec<VerifyingKey>, _> =
            self.declare_keys.iter().map(|key| key.parse()).collect();
        Ok(Trust {
            mesh: self.mesh.clone(),
            node: self.node.clone(),
            key: keys.identity.verifying_key().fingerprint(),
            declare_keys: declare_keys.during("read the declare keys in link.json")?,
        })
    }

    /// Where to connect and as whom.
    pub(crate) fn endpoint(&self) -> Result<Endpoint, Failure> {
        let tls = ClientTls::trusting(&self.authority, &self.server_name).during("read link.json")?;
        Ok(Endpoint {
            addresses: self.brokers.clone(),
            tls,
            vhost: VHOST.to_owned(),
            account: self.account.clone(),
            password: self.password.clone(),
            name: format!("mesh-host {}", self.node),
            frames: Frames::Small,
        })
    }
}

/// Why a machine without a link file is not one that has joined no mesh: what it still remembers of one. `None` where it
/// remembers nothing, or where the link file is there.
pub fn missing(paths: &Paths) -> Result<Option<Missing>, Failure> {
    if read_private(&paths.link_file())?.is_some() {
        return Ok(None);
    }
    let ledger = Ledger::glance(&paths.ledger(), &paths.ledger_note())?;
    let carries = ledger.as_ref().is_some_and(Ledger::carries);
    let link = paths.link_file().display().to_string();
    let again = "run 'mesh-host leave' and then 'mesh-host join' with a new token";
    if ledger.is_some_and(|ledger| ledger.knows_a_mesh()) {
        let keys = NodeKeys::made_for(paths)?.map_or("its keys are gone, too", |_| "its keys are there");
        let why = format!(
            "{link} is missing, though this machine's ledger remembers a mesh that it did not leave ({keys}): what was \
             assigned is left as it is; put back {link} and {} as they were, or {again}",
            paths.identity().display()
        );
        return Ok(Some(Missing { why, was_a_node: true, carries }));
    }
    let Some(token) = NodeKeys::made_for(paths)? else { return Ok(None) };
    let why = format!(
        "{} holds keys, but {link} is missing: an attempt to join with the token {token} got no answer, or the file was \
         removed; run 'mesh-host join' again with the same token, put the file back, or {again}",
        paths.identity().display()
    );
    Ok(Some(Missing { why, was_a_node: false, carries }))
}

/// A link file that should be there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// What is missing, what is there, and what to do, for a person.
    pub why: String,
    /// Whether the machine certainly was a node; otherwise it may have tried to join and got no answer.
    pub was_a_node: bool,
    /// Whether it carries anything, which is to be kept whatever became of its mesh.
    pub carries: bool,
}

/// Forgets the mesh: the link file first, so that a machine without keys never believes it is a node.
pub fn forget(paths: &Paths) -> Result<(), Failure> {
    remove_private(&paths.link_file())?;
    NodeKeys::remove(paths)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::ledger::{Folder, Record};

    #[test]
    fn a_machine_that_lost_its_link_file_is_not_one_without_a_mesh() {
        let root = tempfile::tempdir().unwrap();
        let paths = Paths::under(root.path());
        assert_eq!(missing(&paths).unwrap(), None, "a bare machine");
        let mut ledger = Ledger::open(Box::new(Folder::new(paths.ledger(), paths.ledger_note()))).unwrap();
        assert_eq!(missing(&paths).unwrap(), None, "a machine that applied a file");

        NodeKeys::make(&paths, "t7").unwrap();
        let tried = missing(&paths).unwrap().unwrap();
        assert!(!tried.was_a_node && tried.why.contains("token t7"), "{tried:?}");

        ledger.write([Record::Accepted { frame: "{}".to_owned(), issued: 1 }]).unwrap();
        ledger.commit().unwrap();
        let lost = missing(&paths).unwrap().unwrap();
        assert!(lost.was_a_node && !lost.carries && lost.why.contains("link.json is missing"), "{lost:?}");
        NodeKeys::remove(&paths).unwrap();
        assert!(missing(&paths).unwrap().unwrap().why.contains("its keys are gone, too"));

        write_private(&paths.link_file(), b"{}").unwrap();
        assert_eq!(missing(&paths).unwrap(), None, "it is there");
        remove_private(&paths.link_file()).unwrap();
        ledger.write([Record::Left]).unwrap();
        ledger.commit().unwrap();
        assert_eq!(missing(&paths).unwrap(), None, "a machine that left");
    }
}
