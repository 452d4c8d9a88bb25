//! What host and control plane say to each other: declarations down, statements up, and how a machine joins.
//!
//! Vocabulary only: reads, writes and verifies bytes; no I/O, no decisions. Every form has golden files under
//! `tests/golden/`, which are never edited once released.

mod base64_bytes;
mod declaration;
mod enrol;
pub mod kinds;
mod local;
mod signed;
mod statement;

pub use declaration::{Declaration, DeclarationError, FORMAT, Resource, UnreadableResource};
pub use enrol::{
    ENROL_EXCHANGE, ENROL_KEY, Enrol, EnrolAnswer, EnrolOutcome, EnrolRefusal, EnrolReply, EnrolRequest,
    InvalidToken, JoinToken, password_place, reply_queue, token_account,
};
pub use kinds::{Kind, Spec};
pub use local::{LocalDeclaration, LocalError};
pub use signed::{FrameRefusal, MAX_FRAME_BYTES, Signed, VerifiedBytes, frame_bytes};
pub use statement::{
    Alive, Boot, Disk, Drift, Facts, FailedVersion, KEY_ALIVE, KEY_REPORT, MAX_DRIFT, MAX_STATEMENT_BYTES,
    Report, SIGNATURE_HEADER, Upgrade,
};
