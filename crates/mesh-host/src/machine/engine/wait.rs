//! Waiting for what containers come to. Every wait has a deadline, and says what it saw last.
//!
//! A container is judged by its answers alone: that it runs, or is being started, says nothing.

use std::time::Duration;

use mesh_wire::kinds::Ready;
use tokio::time::{Instant, sleep, timeout_at};

use super::Engine;
use crate::failure::Failure;

/// How often a container that is waited for is asked. Asking costs the engine about 0.2 s of work by itself.
const ASK_EVERY: Duration = Duration::from_millis(150);
/// The first question is asked even of one who had all of its time, and the answer may take so long.
const ASK_ONCE: Duration = Duration::from_secs(5);

/// Why a container is not ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NotReady {
    /// It ended, or did not answer well in time.
    Judged(Failure),
    /// It could not be looked at: nothing is known of it.
    Unknown(Failure),
}

impl NotReady {
    pub(super) fn into_failure(self) -> Failure {
        match self {
            Self::Judged(why) | Self::Unknown(why) => why,
        }
    }
}

/// Asks until the answer is a good one. The deadline counts from the start of the container where this host started it.
pub(super) async fn ready(
    engine: &dyn Engine,
    container: &str,
    ready: &Ready,
    private_log: bool,
) -> Result<(), NotReady> {
    let within = Duration::from_secs(ready.within_s.into());
    let left = within.saturating_sub(engine.since_start(container).unwrap_or_default());
    let deadline = Instant::now() + left;
    // What a command takes is the container's matter; the host's own questions are short.
    let by_itself = ready.command.is_empty().then_some(ASK_ONCE);
    let one_answer = ready.timeout_s.map(|seconds| Duration::from_secs(seconds.into())).or(by_itself);
    let mut last = None;
    loop {
        let ended = engine.ended(container).await.map_err(NotReady::Unknown)?;
        if let Some(ended) = ended {
            return Err(NotReady::Judged(Failure::new(ended.in_words(private_log))));
        }
        let left = deadline.saturating_duration_since(Instant::now());
        // The first question is asked in any case, and has its time.
        let may_take = match &last {
            Some(_) if left.is_zero() => break,
            Some(_) => left,
            None => left.max(ASK_ONCE),
        };
        let asked = Instant::now();
        match engine.ask(container, ready, one_answer.unwrap_or(Duration::MAX).min(may_take)).await {
            Ok(()) => return Ok(()),
            // Cut off by the deadline, it says less than the answer before it.
            Err(_) if last.is_some() && asked.elapsed() >= left => break,
            Err(why) => last = Some(why),
        }
        let next = Instant::now() + ASK_EVERY;
        if next < deadline {
            sleep(ASK_EVERY).await;
        }
    }
    let answer = last.map_or_else(|| "it did not answer".to_owned(), |last| last.to_string());
    let answer = if private_log && !ready.command.is_empty() { private_answer(&answer) } else { answer };
    let log = if private_log {
        format!("its log is private: `logs {container}` of the engine shows it on the machine")
    } else {
        match engine.last_lines(container).await.as_slice() {
            [] => "it wrote nothing".to_owned(),
            lines => format!("its last lines: {}", lines.join(" | ")),
        }
    };
    Err(NotReady::Judged(Failure::new(format!(
        "it was not ready within {} s; asked last: {answer}; {log}",
        ready.within_s
    ))))
}

/// Of what a command in a container with a private log complained of, only how it ended.
fn private_answer(answer: &str) -> String {
    answer.split_once(": ").map_or(answer, |(ended, _)| ended).to_owned()
}

/// Waits until a container has ended, which it has to do with 0.
pub(super) async fn end(
    engine: &dyn Engine,
    container: &str,
    within_s: u32,
    private_log: bool,
) -> Result<(), Failure> {
    let deadline = Instant::now() + Duration::from_secs(within_s.into());
    let ended = timeout_at(deadline, async {
        loop {
            if let Some(ended) = engine.ended(container).await? {
                return Ok(ended);
            }
            sleep(ASK_EVERY).await;
        }
    })
    .await;
    match ended {
        Ok(Ok(ended)) if ended.code == 0 => Ok(()),
        Ok(Ok(ended)) => Err(Failure::new(ended.in_words(private_log))),
        Ok(Err(failure)) => Err(failure),
        Err(_) => Err(Failure::new(format!("it still runs after {within_s} s"))),
    }
}
