//! A defect in any task or thread ends the process, so that systemd starts it anew: without that, a host whose uplink or
//! watch is gone would look alive and do half its work.
//!
//! Not `panic = "abort"` in the profile: that is one for all programs of the workspace, of which the control plane answers
//! on after a request that failed so; and an abort leaves a dump of memory, with the keys in it.

use std::{io::Write as _, panic};

/// From now on, after its words are printed, any panic ends the process as failed.
#[expect(
    clippy::disallowed_methods,
    reason = "there is no way from a panic to main; nothing here relies on destructors"
)]
pub fn end_on_panic() {
    let words = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        words(info);
        let _ = std::io::stderr().flush();
        std::process::exit(1);
    }));
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    const CHILD: &str = "MESH_HOST_TEST_PANICS";
    const NAME: &str = "run::panics::tests::a_panic_in_a_task_ends_the_process_as_failed";

    #[test]
    fn a_panic_in_a_task_ends_the_process_as_failed() {
        if std::env::var_os(CHILD).is_some() {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            super::end_on_panic();
            return runtime.block_on(async {
                let task = tokio::spawn(async { panic!("a defect") });
                // Nobody looks at it.
                drop(task);
                tokio::task::yield_now().await;
                tokio::task::yield_now().await;
            });
        }
        let this = std::env::current_exe().expect("this program");
        let mut child = Command::new(this);
        child
            .args(["--exact", NAME, "--nocapture"])
            .env(CHILD, "1")
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        // A test that fails by itself ends with 101, one that goes on with 0.
        assert_eq!(child.status().expect("it ends").code(), Some(1));
    }
}
