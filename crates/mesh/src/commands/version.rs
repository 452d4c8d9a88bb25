//! `mesh version`.

use std::process::ExitCode;

use mesh_client::Client;
use serde_json::json;

use crate::output::{self, Format};

const OWN: &str = env!("CARGO_PKG_VERSION");

pub(super) async fn run(client: &Client, format: Format) -> anyhow::Result<ExitCode> {
    let control = client.version().await?;
    match format {
        Format::Json => output::json(&json!({"mesh": OWN, "control": control.version, "id": control.mesh}))?,
        Format::Human => {
            output::line(&format!("mesh {OWN}"));
            output::line(&format!(
                "mesh-control {} of mesh {}",
                output::printable(&control.version),
                control.mesh
            ));
        }
    }
    Ok(ExitCode::SUCCESS)
}
