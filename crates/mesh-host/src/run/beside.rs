//! The thread beside the rounds: the uplink and systemd's watchdog. A round may wait for a slow disk, for minutes; the node
//! is heard all the while, and systemd does not take it for dead. Never touches the machine or the ledger.
//!
//! The rounds stay on the first thread with everything they share without locks. To give each of their many file
//! operations to a pool of threads was the other way: it would have put a wait and a copy into every one of them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::{sync::oneshot, time::interval};

use crate::{
    failure::{During as _, Failure},
    machine::{SystemClock, routes::RouteWatch},
    uplink::Uplink,
};

/// How long the first thread may be stuck in one operation until it is given up: the watchdog is then no longer told that
/// the host lives. Longer than a disk that comes back ever took, shorter than a person would wait.
const PATIENCE: Duration = Duration::from_mins(10);
const BEAT: Duration = Duration::from_secs(10);

/// When the first thread was last seen doing something.
#[derive(Debug, Clone)]
pub(super) struct Pulse {
    began: Instant,
    last_ms: Arc<AtomicU64>,
}

impl Default for Pulse {
    fn default() -> Self {
        Self { began: Instant::now(), last_ms: Arc::default() }
    }
}

impl Pulse {
    /// Beats for ever, on the thread that is to be seen.
    pub(super) async fn beat(&self) {
        let mut ticks = interval(BEAT);
        loop {
            ticks.tick().await;
            let now = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
            self.last_ms.store(now, Ordering::Relaxed);
        }
    }

    /// Whether it may still be taken for alive, so long after the beginning.
    fn is_felt(&self, now: Duration) -> bool {
        let last = Duration::from_millis(self.last_ms.load(Ordering::Relaxed));
        now.saturating_sub(last) < PATIENCE
    }
}

/// Runs this on a thread of its own until the process ends; resolves if it ends before.
pub(super) fn start<F, W>(work: F) -> Result<oneshot::Receiver<()>, Failure>
where
    F: FnOnce() -> W + Send + 'static,
    W: Future<Output = ()>,
{
    let (runs, ended) = oneshot::channel();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.during("start the thread of the uplink")?;
    let thread = std::thread::Builder::new().name("uplink".to_owned()).spawn(move || {
        let _runs: oneshot::Sender<()> = runs;
        runtime.block_on(work());
    });
    thread.during("start the thread of the uplink")?;
    Ok(ended)
}

/// Everything that thread does.
pub(super) async fn outwards(uplink: Option<Uplink>, pulse: Pulse) {
    tokio::join!(link(uplink), feed_watchdog(&pulse));
}

async fn link(uplink: Option<Uplink>) {
    let Some(uplink) = uplink else { return };
    let hint = uplink.hint();
    let routes = async move {
        let mut routes = match RouteWatch::open() {
            Ok(routes) => routes,
            Err(why) => return tracing::warn!(%why, "a changed route does not wake the uplink"),
        };
        while routes.changed().await.is_ok() {
            hint.give();
        }
    };
    tokio::join!(routes, async { uplink.run(SystemClock).await });
}

async fn feed_watchdog(pulse: &Pulse) {
    // Without a watchdog, and on a machine without a mesh, there is nothing to do here; it never ends all the same.
    let Some(period) = sd_notify::watchdog_enabled() else { return std::future::pending().await };
    let mut ticks = interval(period / 3);
    loop {
        ticks.tick().await;
        if pulse.is_felt(pulse.began.elapsed()) {
            // A first round may install packages for longer than a start may take.
            let more = u32::try_from(period.as_micros()).unwrap_or(u32::MAX);
            let lives = [sd_notify::NotifyState::Watchdog, sd_notify::NotifyState::ExtendTimeoutUsec(more)];
            let _ = sd_notify::notify(&lives);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use super::*;

    #[tokio::test]
    async fn what_runs_beside_goes_on_while_the_first_thread_is_stuck() {
        let (say, heard) = sync_channel(1);
        let _ended = start(move || async move {
            let mut ticks = interval(Duration::from_millis(10));
            loop {
                ticks.tick().await;
                if say.send(()).is_err() {
                    return;
                }
            }
        })
        .expect("a thread");
        // No other task of this thread runs meanwhile.
        for beat in 0..20 {
            heard
                .recv_timeout(Duration::from_secs(20))
                .unwrap_or_else(|_| panic!("nothing after {beat} beats"));
        }
    }

    #[tokio::test]
    async fn its_end_is_noticed() {
        assert!(start(|| async {}).expect("a thread").await.is_err(), "it ended");
    }

    #[test]
    fn a_disk_may_take_its_time_and_a_host_that_is_stuck_for_good_is_given_up() {
        let pulse = Pulse::default();
        pulse.last_ms.store(5_000, Ordering::Relaxed);
        let at = |s| Duration::from_secs(s);
        assert!(pulse.is_felt(at(5 + 30)) && pulse.is_felt(at(5 + 599)));
        assert!(!pulse.is_felt(at(5 + 600)));
    }
}
