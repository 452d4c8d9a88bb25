//! The broker as a mechanism: TLS with one pinned authority, publish, consume, reconnect for ever, topology.
//!
//! Knows bytes and names, not meanings: what a message says is the wire's, what to do about it is the host's and the
//! control plane's. Never trusts the system's certificate authorities, never keeps a half-broken connection.
//! Called by: mesh-host (uplink, joining) and mesh-control (link).

mod address;
mod connection;
mod consume;
mod dial;
mod management;
pub mod names;
mod publish;
pub mod retry;
mod runtime;
mod supervise;
mod tls;
mod topology;

pub use address::{Address, InvalidAddress};
pub use connection::{Connection, Endpoint, Frames, LinkError, OpenError};
pub use consume::{Consumer, Delivery};
pub use dial::{DialError, DialFailure};
pub use management::{Management, ManagementError};
pub use publish::{Message, Published, Publisher};
pub use supervise::{Hint, Session, Supervisor, SupervisorState};
pub use tls::{ClientTls, InvalidTls, LearnedAuthority, TlsRefusal, authority_pin, learn_authority};
pub use topology::{Changes, NodeAccount, PasswordHash, TokenAccount, Topology};
