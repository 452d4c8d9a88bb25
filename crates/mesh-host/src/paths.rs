//! Where the host keeps things. One struct, so that a test can move everything elsewhere.

use std::path::{Path, PathBuf};

/// The places of the host on a machine.
#[derive(Debug, Clone)]
pub struct Paths {
    root: PathBuf,
}

impl Default for Paths {
    fn default() -> Self {
        Self::under("/")
    }
}

impl Paths {
    /// The places under another root than `/`.
    pub fn under(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Where everything durable is: mode 0700.
    pub fn state(&self) -> PathBuf {
        self.root.join("var/lib/mesh-host")
    }

    /// The node's keys.
    pub fn identity(&self) -> PathBuf {
        self.state().join("identity")
    }

    /// What the node knows of its mesh, written when it joined.
    pub fn link_file(&self) -> PathBuf {
        self.state().join("link.json")
    }

    /// The ledger.
    pub fn ledger(&self) -> PathBuf {
        self.state().join("ledger")
    }

    /// Says that there is a ledger, should it go missing.
    pub fn ledger_note(&self) -> PathBuf {
        self.state().join("ledger.begun")
    }

    /// What stood on the machine before the host replaced it.
    pub fn saved(&self) -> PathBuf {
        self.state().join("saved")
    }

    /// Images that were given beside the bundle's.
    pub fn images(&self) -> PathBuf {
        self.state().join("images")
    }

    /// Secrets that the bootstrap generated.
    pub fn secrets(&self) -> PathBuf {
        self.state().join("secrets")
    }

    /// Held while a process changes the machine.
    pub fn lock(&self) -> PathBuf {
        self.state().join("lock")
    }

    /// What the running host says of itself.
    pub fn status(&self) -> PathBuf {
        self.root.join("run/mesh-host/status.json")
    }

    /// Where files are looked at before they are put in their places.
    pub fn checks(&self) -> PathBuf {
        self.root.join("run/mesh-host/check")
    }

    /// The host's own unit file.
    pub fn unit(&self) -> PathBuf {
        self.root.join("etc/systemd/system/mesh-host.service")
    }

    /// What the service starts.
    pub fn program(&self) -> PathBuf {
        self.root.join("usr/local/bin/mesh-host")
    }

    /// The programs beside it, a folder each. [`Self::program`] may be a link to one of them.
    pub fn programs(&self) -> PathBuf {
        self.root.join("usr/local/lib/mesh-host")
    }

    /// What is remembered of upgrades of the host.
    pub fn upgrade(&self) -> PathBuf {
        self.state().join("upgrade.json")
    }

    /// The bundle a first node carries.
    pub fn bundle(&self) -> PathBuf {
        self.root.join("usr/lib/mesh/bundle")
    }

    /// The root everything is under; `/` but for tests.
    pub fn root(&self) -> &Path {
        &self.root
    }
}
