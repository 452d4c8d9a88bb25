//! Real nodes on one machine: containers that boot systemd, each with its own address, its own container engine inside
//! and its own TUN, raised and taken down by the machine's Podman.
//!
//! System tests use it as a library, people as the program `mesh-lab`. It never carries traffic to anything but the
//! networks it made, never touches a container it did not label, and never builds programs or images.
//!
//! - [`Lab`] raises, finds and removes; [`Node`] is cut, healed, rebooted, killed and asked
//! - [`wait_for`] waits for a condition, with a deadline and a reason
//! - [`raise`] makes a mesh of the nodes
//!
//! A test:
//! ```no_run
//! use mesh_lab::{Heal, Lab, LabName, Options, Progress};
//! let options = Options::for_test(LabName::unique("partition"), "dist".as_ref(), 2);
//! let lab = Lab::up(&options, &Progress::silent())?;
//! lab.node("node-2")?.cut()?;
//! assert_ne!(lab.node("node-1")?.exec(["ping", "-c1", "-W1", "node-2"])?.code, 0);
//! lab.node("node-2")?.heal(Heal::SameAddress)?;
//! # Ok::<(), mesh_lab::LabError>(())
//! ```

mod context;
mod engine;
mod error;
mod image;
mod lab;
mod machine;
mod node;
mod owner;
mod place;
mod process;
mod progress;
pub mod raise;
mod subnet;
mod wait;

pub use engine::Engine;
pub use error::LabError;
pub use lab::{Lab, Options, Removed};
pub use machine::package_source;
pub use node::{Booted, HOST_UNIT, Heal, Input, Node, NodeState};
pub use owner::Owner;
pub use place::LabName;
pub use process::Output;
pub use progress::Progress;
pub use subnet::Subnet;
pub use wait::wait_for;
