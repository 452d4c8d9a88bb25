//! The commands: reads arguments, prints results. One file a command; decides nothing.

use std::process::ExitCode;

/// Runs the command of this process's arguments.
pub fn main() -> ExitCode {
    ExitCode::SUCCESS
}
