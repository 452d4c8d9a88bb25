//! The peers: other programs that do the same, fetched once, installed into a node, and asked for their version.
//!
//! None is installed on this machine. One file a peer.

pub(crate) mod ansible;
pub(crate) mod cfengine;
mod debian;
