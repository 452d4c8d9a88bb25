//! A watched log: a test fails on an ERROR it did not announce, and on an announced one that never came.
//!
//! Never prints: the test's own panic carries the lines. It watches the current thread, which is where a
//! `#[tokio::test]` runs everything it spawns unless it asks for several threads.
//! Called by: tests.

use std::fmt::{Debug, Write as _};
use std::sync::{Arc, Mutex, PoisonError};

use tracing::field::{Field, Visit};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry;

/// Watches what this thread logs until it is dropped, and judges it then.
pub struct LogWatch {
    lines: Lines,
    announced: Vec<String>,
    _guard: DefaultGuard,
}

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<(Level, String)>>>);

impl LogWatch {
    /// Starts to watch.
    #[must_use]
    pub fn start() -> Self {
        let lines = Lines::default();
        let guard = tracing::subscriber::set_default(registry().with(lines.clone()));
        Self { lines, announced: Vec::new(), _guard: guard }
    }

    /// Says that an ERROR containing `text` belongs to this test: it must come, and does not fail the test.
    pub fn announce(&mut self, text: &str) {
        self.announced.push(text.to_owned());
    }

    /// Everything logged so far at INFO, WARN or ERROR, as `LEVEL text`.
    pub fn lines(&self) -> Vec<String> {
        self.lines.all().into_iter().map(|(level, text)| format!("{level} {text}")).collect()
    }

    /// Whether a line containing `text` was logged.
    pub fn has(&self, text: &str) -> bool {
        self.lines.all().iter().any(|(_, line)| line.contains(text))
    }

    fn verdict(&self) -> Result<(), String> {
        let errors: Vec<String> = self
            .lines
            .all()
            .into_iter()
            .filter(|(level, _)| *level == Level::ERROR)
            .map(|(_, line)| line)
            .collect();
        if let Some(surprise) =
            errors.iter().find(|line| !self.announced.iter().any(|text| line.contains(text)))
        {
            return Err(format!("an ERROR nobody announced was logged: {surprise}"));
        }
        match self.announced.iter().find(|text| !errors.iter().any(|line| line.contains(*text))) {
            Some(missing) => Err(format!("the announced ERROR never came: {missing}")),
            None => Ok(()),
        }
    }
}

impl Drop for LogWatch {
    fn drop(&mut self) {
        if !std::thread::panicking()
            && let Err(why) = self.verdict()
        {
            panic!("{why}");
        }
    }
}

impl Lines {
    fn all(&self) -> Vec<(Level, String)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl<S: Subscriber> Layer<S> for Lines {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let level = *event.metadata().level();
        // sqlx and others trace their own work below this; a test that asserts on it would assert on a library.
        if level > Level::INFO {
            return;
        }
        let mut text = Text(String::new());
        event.record(&mut text);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((level, text.0));
    }
}

struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let space = if self.0.is_empty() { "" } else { " " };
        let _ = if field.name() == "message" {
            write!(self.0, "{space}{value:?}")
        } else {
            write!(self.0, "{space}{}={value:?}", field.name())
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(run: impl FnOnce(&mut LogWatch)) -> Result<(), String> {
        let mut watch = LogWatch::start();
        run(&mut watch);
        let verdict = watch.verdict();
        // The verdict is taken; nothing is left for the drop to judge.
        watch.announced.clear();
        watch.lines.0.lock().expect("lines").clear();
        verdict
    }

    #[test]
    fn an_error_nobody_announced_fails() {
        let verdict = judged(|_| tracing::error!(node = "a", "it broke"));
        assert_eq!(verdict, Err("an ERROR nobody announced was logged: it broke node=\"a\"".to_owned()));
    }

    #[test]
    fn an_announced_error_passes_and_must_come() {
        assert_eq!(
            judged(|watch| {
                watch.announce("broke");
                tracing::error!("it broke");
            }),
            Ok(())
        );
        let missing = judged(|watch| watch.announce("broke"));
        assert_eq!(missing, Err("the announced ERROR never came: broke".to_owned()));
    }

    #[test]
    fn a_warning_does_not_fail() {
        assert_eq!(judged(|_| tracing::warn!("slow")), Ok(()));
    }
}
