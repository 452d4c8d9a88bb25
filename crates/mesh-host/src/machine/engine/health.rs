//! Which containers are asked while they run, when, and whose answers stay bad. Pure; nothing of it survives a restart of
//! the host, which then asks from the beginning.

use std::{collections::BTreeMap, time::Duration};

use super::Watch;
use crate::failure::Failure;

/// How long one answer may take where nothing is declared.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// The containers that are asked. Times are since the program started.
#[derive(Debug, Default)]
pub(super) struct Health(BTreeMap<String, Asked>);

#[derive(Debug)]
struct Asked {
    watch: Watch,
    next: Duration,
    /// Bad answers in a row.
    bad: u32,
    last: Option<Failure>,
}

/// One question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Question {
    pub(super) name: String,
    pub(super) watch: Watch,
    pub(super) within: Duration,
}

impl Asked {
    fn interval(&self) -> Duration {
        Duration::from_secs(self.watch.health.interval_s.into())
    }

    fn is_unwell(&self) -> bool {
        self.bad >= self.watch.health.failures
    }
}

impl Health {
    /// `name` is asked this from now on, or nothing any more. What is asked already goes on.
    pub(super) fn watch(&mut self, name: &str, watch: Option<&Watch>, now: Duration) {
        match watch {
            None => drop(self.0.remove(name)),
            Some(watch) if self.0.get(name).is_some_and(|asked| asked.watch == *watch) => {}
            Some(watch) => {
                let mut asked = Asked { watch: watch.clone(), next: now, bad: 0, last: None };
                asked.next += asked.interval();
                self.0.insert(name.to_owned(), asked);
            }
        }
    }

    /// `name` is stopped: its answers so far are those of another run.
    pub(super) fn forget(&mut self, name: &str) {
        self.0.remove(name);
    }

    /// The question that is due first, and when. Whoever is unwell waits for its restart, and is not asked.
    pub(super) fn next(&self) -> Option<(Duration, Question)> {
        let waiting = self.0.iter().filter(|(_, asked)| !asked.is_unwell());
        let (name, asked) = waiting.min_by_key(|(_, asked)| asked.next)?;
        let within = asked.watch.ready.timeout_s.map_or(ANSWER_WITHIN, |s| Duration::from_secs(s.into()));
        Some((asked.next, Question { name: name.clone(), watch: asked.watch.clone(), within }))
    }

    /// What was answered; whether that makes it unwell.
    pub(super) fn answered(
        &mut self,
        question: &Question,
        answer: Result<(), Failure>,
        now: Duration,
    ) -> bool {
        // It may have been stopped, or be asked something else, since.
        let Some(asked) = self.0.get_mut(&question.name).filter(|asked| asked.watch == question.watch) else {
            return false;
        };
        asked.next = now + asked.interval();
        match answer {
            Ok(()) => (asked.bad, asked.last) = (0, None),
            Err(why) => (asked.bad, asked.last) = (asked.bad.saturating_add(1), Some(why)),
        }
        asked.is_unwell()
    }

    /// The last answer of one whose answers stay bad.
    pub(super) fn unwell(&self, name: &str) -> Option<Failure> {
        let asked = self.0.get(name).filter(|asked| asked.is_unwell())?;
        let last = asked.last.as_ref().map(ToString::to_string).unwrap_or_default();
        Some(Failure::new(format!("{} bad answers in a row, the last: {last}", asked.bad)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watch(failures: u32) -> Watch {
        let ready = serde_json::from_str(r#"{"tcp": 80, "within_s": 5}"#).expect("a probe");
        Watch { ready, health: mesh_wire::kinds::Health { interval_s: 10, failures } }
    }

    fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn only_bad_answers_in_a_row_count() {
        let mut health = Health::default();
        health.watch("a", Some(&watch(2)), secs(0));
        let mut now = secs(0);
        let mut bad = Vec::new();
        for good in [false, true, false, false] {
            let (at, question) = health.next().expect("it is asked");
            assert_eq!(at, now + secs(10), "once an interval");
            now = at;
            // Every round says again that it is watched.
            health.watch("a", Some(&watch(2)), now);
            let answer = if good { Ok(()) } else { Err(Failure::new("refused")) };
            bad.push(health.answered(&question, answer, now));
        }
        assert_eq!(bad, [false, false, false, true]);
        assert_eq!(
            health.unwell("a").expect("unwell").to_string(),
            "2 bad answers in a row, the last: refused"
        );
        assert_eq!(health.next(), None, "it is not asked until it was restarted");
        health.forget("a");
        assert_eq!(health.unwell("a"), None);
    }

    #[test]
    fn an_answer_of_an_earlier_run_says_nothing() {
        let mut health = Health::default();
        health.watch("a", Some(&watch(1)), secs(0));
        let (_, question) = health.next().expect("it is asked");
        health.forget("a");
        assert!(!health.answered(&question, Err(Failure::new("refused")), secs(10)));
        health.watch("a", Some(&watch(3)), secs(10));
        assert!(!health.answered(&question, Err(Failure::new("refused")), secs(11)));
        health.watch("a", None, secs(12));
        assert_eq!(health.next(), None);
    }

    #[test]
    fn who_is_due_first_is_asked_first() {
        let mut health = Health::default();
        health.watch("b", Some(&watch(1)), secs(3));
        health.watch("a", Some(&watch(1)), secs(7));
        assert_eq!(health.next().map(|(at, question)| (at, question.name)), Some((secs(13), "b".to_owned())));
    }
}
