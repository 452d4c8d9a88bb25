//! `mesh-host version`.

use clap::Args;

use super::{Ended, Exit, output::print};

#[derive(Debug, Args)]
pub(super) struct Version {
    /// For programs.
    #[arg(long)]
    json: bool,
}

impl Version {
    #[expect(clippy::unnecessary_wraps, reason = "every command ends the same way")]
    pub(super) fn run(self) -> Result<Exit, Ended> {
        let version = env!("CARGO_PKG_VERSION");
        if self.json {
            print(serde_json::json!({ "name": "mesh-host", "version": version }));
        } else {
            print(format_args!("mesh-host {version}"));
        }
        Ok(Exit::Done)
    }
}
