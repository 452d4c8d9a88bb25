//! The node's three keys, and the few other files that hold a secret of the link: private, whole, durable.
//!
//! The keys are made on the machine and never leave it. They appear together or not at all: the folder is made beside
//! its place and moved there. Nothing here prints a secret, and nothing here knows the broker.
//! Called by: joining, leaving, the uplink.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

use mesh_seal::{OpeningKey, SigningKey};
use zeroize::Zeroizing;

use crate::failure::{During as _, Failure};
use crate::paths::Paths;

const IDENTITY: &str = "identity.key";
const SEALING: &str = "sealing.key";
const TUNNEL: &str = "tunnel.key";
/// For which join token the keys were made: a retry with it uses the same keys.
const TOKEN: &str = "token";

/// The secret halves.
#[derive(Debug)]
pub struct NodeKeys {
    /// Ed25519: what the node says is signed with it.
    pub identity: SigningKey,
    /// X25519: what is sealed to the node is opened with it.
    pub sealing: OpeningKey,
    /// X25519: the node's end of its tunnels.
    pub tunnel: OpeningKey,
}

impl NodeKeys {
    /// Reads the keys; none where this machine has none.
    pub fn read(paths: &Paths) -> Result<Option<Self>, Failure> {
        let folder = paths.identity();
        let Some(identity) = read_private(&folder.join(IDENTITY))? else { return Ok(None) };
        let key = |name: &str| {
            let path = folder.join(name);
            let missing = || Failure::new(format!("{} is missing beside the identity key", path.display()));
            read_private(&path)?.ok_or_else(missing)
        };
        let (sealing, tunnel) = (key(SEALING)?, key(TUNNEL)?);
        let what = format!("read the keys in {}", folder.display());
        Ok(Some(Self {
            identity: SigningKey::from_text(&identity).during(&what)?,
            sealing: OpeningKey::from_text(&sealing).during(&what)?,
            tunnel: OpeningKey::from_text(&tunnel).during(&what)?,
        }))
    }

    /// Makes new keys for an attempt to join with this token, in the place of any that are there.
    pub fn make(paths: &Paths, token_id: &str) -> Result<Self, Failure> {
        let keys = Self {
            identity: SigningKey::generate(),
            sealing: OpeningKey::generate(),
            tunnel: OpeningKey::generate(),
        };
        let folder = paths.identity();
        let new = folder.with_extension("new");
        make_private_folder(&paths.state())?;
        remove_folder(&new)?;
        make_private_folder(&new)?;
        write_private(&new.join(IDENTITY), keys.identity.to_text().as_bytes())?;
        write_private(&new.join(SEALING), keys.sealing.to_text().as_bytes())?;
        write_private(&new.join(TUNNEL), keys.tunnel.to_text().as_bytes())?;
        write_private(&new.join(TOKEN), token_id.as_bytes())?;
        remove_folder(&folder)?;
        let moved = fs::rename(&new, &folder).and_then(|()| sync_folder(&paths.state()));
        moved.during(format!("put the keys in {}", folder.display()))?;
        Ok(keys)
    }

    /// The token that the keys on this machine were made for.
    pub fn made_for(paths: &Paths) -> Result<Option<String>, Failure> {
        Ok(read_private(&paths.identity().join(TOKEN))?.map(|token| token.trim().to_owned()))
    }

    /// Removes the keys for ever.
    pub fn remove(paths: &Paths) -> Result<(), Failure> {
        remove_folder(&paths.identity().with_extension("new"))?;
        remove_folder(&paths.identity())
    }
}

/// Reads a text file that holds a secret; none where there is none.
pub(crate) fn read_private(path: &Path) -> Result<Option<Zeroizing<String>>, Failure> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(Zeroizing::new(text))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Failure::of(format!("read {}", path.display()), &error)),
    }
}

/// Replaces a file, readable by root alone from its first byte on: the old content or the new one is there, whole.
pub(crate) fn write_private(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let new = path.with_extension("new");
    let write = || -> io::Result<()> {
        match fs::remove_file(&new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        // `create_new`: whatever else stands at that name is not written into.
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&new, path)?;
        path.parent().map_or(Ok(()), sync_folder)
    };
    write().during(format!("write {}", path.display()))
}

/// Removes a file; one that is not there is removed.
pub(crate) fn remove_private(path: &Path) -> Result<(), Failure> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Failure::of(format!("remove {}", path.display()), &error))
        }
        _ => path
            .parent()
            .filter(|folder| folder.exists())
            .map_or(Ok(()), sync_folder)
            .during("sync the folder"),
    }
}

/// Makes a folder that only root can enter, with those above it.
pub(crate) fn make_private_folder(path: &Path) -> Result<(), Failure> {
    DirBuilder::new().recursive(true).mode(0o700).create(path).during(format!("make {}", path.display()))
}

fn remove_folder(path: &Path) -> Result<(), Failure> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Failure::of(format!("remove {}", path.display()), &error))
        }
        _ => Ok(()),
    }
}

fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn keys_are_read_as_they_were_made_and_nobody_else_can_read_them() {
        let root = tempfile::tempdir().unwrap();
        let paths = Paths::under(root.path());
        assert!(NodeKeys::read(&paths).unwrap().is_none());
        let made = NodeKeys::make(&paths, "t1").unwrap();
        let read = NodeKeys::read(&paths).unwrap().unwrap();
        assert_eq!(read.identity.verifying_key(), made.identity.verifying_key());
        assert_eq!(read.sealing.sealing_key(), made.sealing.sealing_key());
        assert_eq!(read.tunnel.sealing_key(), made.tunnel.sealing_key());
        assert_eq!(NodeKeys::made_for(&paths).unwrap().as_deref(), Some("t1"));
        for file in fs::read_dir(paths.identity()).unwrap() {
            assert_eq!(file.unwrap().metadata().unwrap().permissions().mode() & 0o777, 0o600);
        }
        for folder in [paths.state(), paths.identity()] {
            assert_eq!(folder.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        }
        NodeKeys::remove(&paths).unwrap();
        assert!(NodeKeys::read(&paths).unwrap().is_none());
        assert_eq!(fs::read_dir(paths.state()).unwrap().count(), 0);
    }

    #[test]
    fn half_a_set_of_keys_is_not_taken_for_none() {
        let root = tempfile::tempdir().unwrap();
        let paths = Paths::under(root.path());
        NodeKeys::make(&paths, "t1").unwrap();
        fs::remove_file(paths.identity().join(TUNNEL)).unwrap();
        assert!(NodeKeys::read(&paths).unwrap_err().to_string().contains("tunnel.key is missing"));
    }
}
