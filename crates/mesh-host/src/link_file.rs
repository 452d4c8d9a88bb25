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

/// Forgets the mesh: the link file first, so that a machine without keys never believes it is a node.
pub fn forget(paths: &Paths) -> Result<(), Failure> {
    remove_private(&paths.link_file())?;
    NodeKeys::remove(paths)
}
