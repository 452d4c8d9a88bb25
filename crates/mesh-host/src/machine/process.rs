//! This process and others of the machine, by number: whether one is there, and waking the daemon. Ends none.

use rustix::{
    io::Errno,
    process::{Pid, Signal, geteuid, kill_process, test_kill_process},
};

/// Whether there is such a process.
pub fn is_there(process: u32) -> bool {
    let process = i32::try_from(process).ok().and_then(Pid::from_raw);
    process.is_some_and(|process| !matches!(test_kill_process(process), Err(Errno::SRCH)))
}

/// Tells the daemon to look again (SIGHUP). One that is gone needs no telling.
pub fn wake(process: u32) {
    if let Some(process) = i32::try_from(process).ok().and_then(Pid::from_raw) {
        let _ = kill_process(process, Signal::HUP);
    }
}

/// Whether this process is root's.
pub fn is_root() -> bool {
    geteuid().is_root()
}
