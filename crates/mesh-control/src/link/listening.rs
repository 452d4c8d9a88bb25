//! Whether somebody listens to the heartbeats, so that nobody is called silent to whom nobody listened.

use tokio::sync::watch;

/// How often listening began, and whether it goes on.
#[derive(Debug, Default)]
pub(super) struct Listening(watch::Sender<(u64, bool)>);

/// Listens until it is dropped.
pub(super) struct Listener<'a>(&'a Listening);

impl Listening {
    /// The consumer of the heartbeats stands.
    pub(super) fn begin(&self) -> Listener<'_> {
        self.0.send_modify(|(count, goes_on)| {
            *count += 1;
            *goes_on = true;
        });
        Listener(self)
    }

    /// How often listening began.
    pub(super) fn begun(&self) -> u64 {
        self.0.borrow().0
    }

    /// Which listening goes on now, counted from the start; none while nobody listens.
    pub(super) fn current(&self) -> Option<u64> {
        let (count, goes_on) = *self.0.borrow();
        goes_on.then_some(count)
    }
}

impl Drop for Listener<'_> {
    fn drop(&mut self) {
        self.0.0.send_modify(|(_, goes_on)| *goes_on = false);
    }
}
