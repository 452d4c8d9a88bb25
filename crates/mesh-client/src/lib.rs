//! Speaks to the control plane's HTTP interface, over TLS that trusts the mesh's own CA and nothing else.
//!
//! Used by the CLI and by tests. Decides nothing and caches nothing; the only files it touches are the contexts
//! (which mesh, where, with what token) of the person who runs it.

mod client;
mod context;
mod error;
mod stream;

pub use client::Client;
pub use context::{Context, ContextStore};
pub use error::Error;
pub use stream::{Stream, StreamEvent};
