//! What a failure means to the caller: one line on standard error, and a documented exit code.

use std::process::ExitCode;

use mesh_api::ProblemCode;
use mesh_client::Error;
use mesh_manifest::ManifestError;

use crate::output;

/// Something failed.
const FAILED: u8 = 1;
/// What was handed in is not what it has to be: the words of the command line (clap's own code), or a manifest.
const WRONG: u8 = 2;
/// The control plane refused: the plan no longer holds, the name is taken, the caller may not.
const REFUSED: u8 = 3;
/// The control plane does not answer.
const UNREACHABLE: u8 = 4;
/// There is no such node or module.
const NOT_FOUND: u8 = 5;

/// Shown by `mesh --help`.
pub(crate) const CODES: &str = "Exit codes:
  0  done
  1  failed
  2  wrong usage, or a manifest that cannot be read
  3  refused: the plan no longer holds, the name is taken, not allowed
  4  the control plane does not answer
  5  there is no such node or module
  10 `plan --exit-code`: there is something to change";

/// A file that the command line names and that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("read {path}: {reason}")]
pub(crate) struct Unread {
    /// Its path.
    pub(crate) path: String,
    /// Why, and what to do.
    pub(crate) reason: String,
}

/// Prints the failure with its causes once and chooses the exit code.
pub(crate) fn with(error: &anyhow::Error) -> ExitCode {
    let mut text = error.to_string();
    for cause in error.chain().skip(1) {
        let cause = cause.to_string();
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    output::remark(&format!("mesh: {}", output::printable(&text.replace('\n', " "))));
    let is_manifest = error.chain().any(|cause| cause.is::<ManifestError>() || cause.is::<Unread>());
    let other = if is_manifest { WRONG } else { FAILED };
    ExitCode::from(error.chain().find_map(|cause| cause.downcast_ref::<Error>()).map_or(other, code))
}

fn code(error: &Error) -> u8 {
    match error {
        Error::Unreachable { .. } => UNREACHABLE,
        Error::Refused(problem) => match problem.code {
            ProblemCode::NotFound => NOT_FOUND,
            ProblemCode::Unavailable => UNREACHABLE,
            ProblemCode::Malformed | ProblemCode::TooLarge => WRONG,
            ProblemCode::Internal | ProblemCode::Unknown => FAILED,
            _ => REFUSED,
        },
        Error::Foreign { .. } | Error::NoContext(_) | Error::Context { .. } => FAILED,
    }
}
