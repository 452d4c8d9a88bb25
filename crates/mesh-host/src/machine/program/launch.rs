//! Becoming another program: the same process, so that systemd follows it without knowing. Called by the installed program
//! when the service starts, and by nobody else.

use std::{ffi::OsString, os::unix::process::CommandExt as _, path::Path, process::Command};

use super::alarm;
use crate::failure::Failure;

/// The argument by which a program is told that it is on trial. One that does not know it is no host that could prove
/// itself, and ends by that.
pub const ON_TRIAL: &str = "--on-trial";
/// How long a program may be on trial. It gives up by itself a minute before; this ends one that does not.
pub const DEADLINE_S: u32 = 360;

/// Becomes the program at this path, on trial. Returns only where that cannot be.
pub fn become_program(program: &Path, arguments: impl IntoIterator<Item = OsString>) -> Failure {
    alarm::arm(DEADLINE_S);
    let error = Command::new(program).arg0("mesh-host").args(arguments).arg(ON_TRIAL).exec();
    alarm::disarm();
    Failure::of("it cannot be started", &error)
}
