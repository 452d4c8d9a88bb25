//! `mesh-host version`.

use clap::Args;

use super::{Ended, Exit, output::print};
use crate::machine::program::own_digest;

#[derive(Debug, Args)]
pub(super) struct Version {
    /// For programs.
    #[arg(long)]
    json: bool,
}

impl Version {
    pub(super) fn run(self) -> Result<Exit, Ended> {
        let version = env!("CARGO_PKG_VERSION");
        if self.json {
            let digest = own_digest()?;
            print(serde_json::json!({ "name": "mesh-host", "version": version, "digest": digest }));
        } else {
            print(format_args!("mesh-host {version}"));
        }
        Ok(Exit::Done)
    }
}
