//! How a command ends: a code for programs, words for people.

use std::process::ExitCode;

use crate::failure::Failure;

/// The code a command ends with. The same in every program of the mesh, but for the last two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Done.
    Done = 0,
    /// Failed.
    Failed = 1,
    /// Wrong usage.
    Usage = 2,
    /// Refused: not allowed here, or the world moved.
    Refused = 3,
    /// What is needed is not reachable.
    Unreachable = 4,
    /// What was named does not exist.
    NotFound = 5,
    /// `plan --exit-code`: something would change.
    Changes = 10,
    /// `run`: a person has to put something right, and the service stays down until then. A code of its own, which no other
    /// program ends with by accident: one that is tried as the host and fails has to be followed by the installed one.
    StaysDown = 30,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// A command that ended without doing what it was asked for.
#[derive(Debug)]
pub struct Ended {
    /// The code.
    pub exit: Exit,
    /// Why, for a person: what is wrong and what to do.
    pub why: String,
}

impl Ended {
    /// Ends with this code and these words.
    pub fn new(exit: Exit, why: impl Into<String>) -> Self {
        Self { exit, why: why.into() }
    }
}

impl From<Failure> for Ended {
    fn from(failure: Failure) -> Self {
        Self::new(Exit::Failed, failure.to_string())
    }
}

/// Says why a command ended, if it was not as asked.
#[expect(clippy::print_stderr, reason = "the last word of a command")]
pub(super) fn end(ended: Result<Exit, Ended>) -> ExitCode {
    match ended {
        Ok(exit) => exit.into(),
        Err(Ended { exit, why }) => {
            eprintln!("error: {why}");
            exit.into()
        }
    }
}

/// Prints a result. A reader that went away (`| head`) is no failure.
pub(super) fn print(text: impl std::fmt::Display) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stdout(), "{text}");
}
