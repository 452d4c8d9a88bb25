//! Says what is being done and how long it has been going on, one line a step.
//!
//! Called by everything that takes more than a moment. It never decides anything and a line that cannot be written
//! (a closed terminal) stops nothing.

use std::io::Write;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Where steps are told.
pub struct Progress {
    begun: Instant,
    out: Mutex<Box<dyn Write + Send>>,
}

impl Progress {
    /// Tells them to `out`.
    pub fn to(out: impl Write + Send + 'static) -> Self {
        Self { begun: Instant::now(), out: Mutex::new(Box::new(out)) }
    }

    /// Tells them to nobody.
    pub fn silent() -> Self {
        Self::to(std::io::sink())
    }

    /// How long it has been going on.
    pub fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// A step begins, or has come to something.
    pub fn step(&self, text: &str) {
        self.line(&format!("[{:6.1} s] {text}", self.elapsed().as_secs_f64()));
    }

    /// More about the last step.
    pub fn detail(&self, text: &str) {
        self.line(&format!("           {text}"));
    }

    fn line(&self, line: &str) {
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = writeln!(out, "{line}").and_then(|()| out.flush());
    }
}
