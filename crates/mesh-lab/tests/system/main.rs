//! System tests on real nodes. They need an engine and a node image (`MESH_DIST`, else `dist/` of the checkout), run one
//! after the other in the nextest profile `lab`, and take down what they raised, also when they fail or are killed.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod living;
mod mesh;
mod nodes;
mod upgrade;

use std::path::{Path, PathBuf};

use mesh_lab::{Lab, LabName, Options, Progress};

/// Where `cargo xtask build` and `bundle` leave what they make.
pub(crate) fn dist() -> PathBuf {
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dist");
    std::env::var_os("MESH_DIST").map_or(checkout, PathBuf::from)
}

/// Nodes with nothing on them.
pub(crate) fn nodes_alone(what: &str, nodes: u8) -> Lab {
    let options = Options::for_test(LabName::unique(what), &dist(), nodes);
    Lab::up(&options, &Progress::to(std::io::stderr())).unwrap()
}
