//! The kernel's own deadline for a program on trial. It outlasts the start of another program in the same process
//! (alarm(2)), it counts time that no change of the clock touches, and a program that hangs in whatever way is ended by
//! it. Asked for by [`super::launch`] and called off by a program that proved itself.
//!
//! Not systemd's limits: those that could be set for one start alone end with the word of the program that it is ready,
//! and a program that says so may hang all the same.

#![expect(
    unsafe_code,
    reason = "alarm(2) has no safe wrapper in what this program links; it takes and returns numbers"
)]

/// Ends this process after so many seconds, whatever it runs by then.
pub(super) fn arm(seconds: u32) {
    // SAFETY: it touches no memory.
    unsafe { libc::alarm(seconds) };
}

/// Calls it off.
pub fn disarm() {
    arm(0);
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
    use std::process::{Command, Stdio};

    const CHILD: &str = "MESH_HOST_TEST_ALARM";
    const NAME: &str =
        "machine::program::alarm::tests::a_program_that_was_started_in_this_process_is_ended_by_it";

    #[test]
    fn a_program_that_was_started_in_this_process_is_ended_by_it() {
        if std::env::var_os(CHILD).is_some() {
            super::arm(1);
            panic!("{}", Command::new("sleep").arg("60").exec());
        }
        let this = std::env::current_exe().expect("this program");
        let mut child = Command::new(this);
        child.args(["--exact", NAME, "--nocapture"]).env(CHILD, "1").stdout(Stdio::null());
        let ended = child.status().expect("it ends");
        assert_eq!(ended.signal(), Some(libc::SIGALRM), "{ended}");
    }
}
