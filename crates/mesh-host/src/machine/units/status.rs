//! How a unit stands after it was started, and how it ended if it did. Pure: what systemd said is handed in.

use std::time::Duration;

use super::Active;

/// For a unit to become ready: systemd's own limit for a start is 90 s.
pub(super) const READY: Duration = Duration::from_secs(100);
/// A program that is taken for ready as soon as it runs has to run for so long.
pub(super) const GRACE: Duration = Duration::from_millis(500);

/// What systemd says of a unit that was started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Status {
    /// Whether it runs.
    pub(super) active: Active,
    /// systemd's finer word.
    pub(super) sub: String,
    /// Of a service: how it is known to be ready, and how it ended last.
    pub(super) service: Option<ServiceStatus>,
}

/// What only services have (org.freedesktop.systemd1(5)).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ServiceStatus {
    /// `Type`.
    pub(super) kind: String,
    /// `Result`: `success`, or systemd's word for how it failed.
    pub(super) result: String,
    /// `ExecMainCode`: how the main process ended last (`CLD_EXITED` and its like); 0: it did not.
    pub(super) code: i32,
    /// `ExecMainStatus`: its exit code, or the signal.
    pub(super) status: i32,
}

/// What a look at a unit that was started says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is ready.
    Ready,
    /// It is to be looked at again.
    Wait,
    /// It failed.
    Failed(String),
}

impl Status {
    /// What to make of it, `up` after it was first seen to run.
    pub(super) fn verdict(&self, up: Option<Duration>) -> Verdict {
        match self.active {
            Active::Yes if self.is_ready_once_it_runs() && up.is_none_or(|up| up < GRACE) => Verdict::Wait,
            Active::Yes => Verdict::Ready,
            // It failed, and systemd starts it again after a while.
            Active::Starting if self.sub.starts_with("auto-restart") => Verdict::Failed(self.words()),
            Active::Starting | Active::Stopping => Verdict::Wait,
            // It ran to its end. Whether it should have is for the declaration to say.
            Active::No if self.service.as_ref().is_none_or(|service| service.result == "success") => {
                Verdict::Ready
            }
            Active::No | Active::Failed => Verdict::Failed(self.words()),
        }
    }

    /// Whether systemd takes it for active though its program may just be about to fail.
    fn is_ready_once_it_runs(&self) -> bool {
        let service = self.service.as_ref();
        service.is_some_and(|service| ["simple", "exec", "idle"].contains(&service.kind.as_str()))
            && self.sub == "running"
    }

    /// How it ended last, for a person.
    pub(super) fn words(&self) -> String {
        let Some(ServiceStatus { result, code, status, .. }) = &self.service else {
            return format!("it is {}", self.sub);
        };
        let ended = match code {
            1 => format!("its program ended with exit code {status}"),
            2 | 3 => format!("its program was ended by signal {status}"),
            _ => "its program did not start".to_owned(),
        };
        format!("{ended} (Result={result})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(active: Active, sub: &str, kind: &str, (result, code, status): (&str, i32, i32)) -> Status {
        let service = ServiceStatus { kind: kind.to_owned(), result: result.to_owned(), code, status };
        Status { active, sub: sub.to_owned(), service: Some(service) }
    }

    #[test]
    fn on_its_way_is_not_ready_and_a_failure_says_how_it_ended() {
        let well = ("success", 0, 0);
        let activating = status(Active::Starting, "start", "notify", well);
        assert_eq!(activating.verdict(None), Verdict::Wait);
        assert_eq!(status(Active::Yes, "running", "notify", well).verdict(None), Verdict::Ready);
        let again = status(Active::Starting, "auto-restart", "simple", ("exit-code", 1, 3));
        let why = "its program ended with exit code 3 (Result=exit-code)";
        assert_eq!(again.verdict(None), Verdict::Failed(why.to_owned()));
        let killed = status(Active::Failed, "failed", "notify", ("core-dump", 3, 11));
        let why = "its program was ended by signal 11 (Result=core-dump)";
        assert_eq!(killed.verdict(None), Verdict::Failed(why.to_owned()));
        let missing = status(Active::Failed, "failed", "simple", ("resources", 0, 0));
        assert_eq!(missing.words(), "its program did not start (Result=resources)");
    }

    #[test]
    fn what_is_ready_as_soon_as_it_runs_has_to_run_for_a_while() {
        let running = status(Active::Yes, "running", "simple", ("success", 0, 0));
        assert_eq!(running.verdict(None), Verdict::Wait);
        assert_eq!(running.verdict(Some(GRACE / 2)), Verdict::Wait);
        assert_eq!(running.verdict(Some(GRACE)), Verdict::Ready);
        let exited = status(Active::Yes, "exited", "simple", ("success", 1, 0));
        assert_eq!(exited.verdict(None), Verdict::Ready, "it stays active without a program");
        let timer = Status { active: Active::Yes, sub: "waiting".to_owned(), service: None };
        assert_eq!(timer.verdict(None), Verdict::Ready);
    }

    #[test]
    fn what_ran_to_its_end_did_not_fail() {
        let ended = status(Active::No, "dead", "oneshot", ("success", 1, 0));
        assert_eq!(ended.verdict(None), Verdict::Ready);
        let failed = status(Active::No, "dead", "oneshot", ("exit-code", 1, 1));
        assert!(matches!(failed.verdict(None), Verdict::Failed(_)));
    }
}
