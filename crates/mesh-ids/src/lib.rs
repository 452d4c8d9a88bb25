//! Typed names and numbers: a node's name is not a module's name, a sequence is not a generation.
//!
//! Every type checks itself on the way in (`FromStr`, `TryFrom`, `Deserialize`), so that a value that exists is a valid
//! one. Nothing here does I/O. Everybody uses it.

mod digest;
mod name;
mod position;
mod time;

pub use digest::{Digest, Fingerprint, ImageRef, InvalidDigest};
pub use name::{InvalidName, MeshId, ModuleName, ModuleVersion, NodeName, ResourceId};
pub use position::{Epoch, Generation, Position, Sequence};
pub use time::{Clock, Timestamp};
