//! Declarations on their way to the broker: the newest a node, each in turn, never two of one node at once.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mesh_ids::NodeName;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::behind::Behind;

/// What waits to be published. Bounded by the number of nodes.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    inner: Mutex<Inner>,
    news: Notify,
    behind: Mutex<Behind>,
}

#[derive(Debug, Default)]
struct Inner {
    newest: BTreeMap<NodeName, Arc<[u8]>>,
    turn: VecDeque<NodeName>,
    underway: BTreeSet<NodeName>,
}

impl Outbox {
    /// Puts a node's newest declaration in the place of any older one.
    pub(super) fn put(&self, node: &NodeName, frame: Arc<[u8]>) {
        let mut behind = self.behind();
        behind.offered(node);
        self.insert(node, frame);
    }

    /// Offers again what was looked up after `offered`, unless something newer was put meanwhile.
    pub(super) fn offer_again(&self, node: &NodeName, frame: Arc<[u8]>, offered: Option<Instant>) {
        let mut behind = self.behind();
        if behind.last_offered(node) == offered {
            behind.offered(node);
            self.insert(node, frame);
        }
    }

    /// Called while who is behind is locked, so that nothing older is put over something newer.
    fn insert(&self, node: &NodeName, frame: Arc<[u8]>) {
        let mut inner = self.lock();
        if inner.newest.insert(node.clone(), frame).is_none() {
            inner.turn.push_back(node.clone());
        }
        drop(inner);
        self.news.notify_one();
    }

    /// Drops what is meant for a node.
    pub(super) fn forget(&self, node: &NodeName) {
        self.behind().forget(node);
        let mut inner = self.lock();
        inner.newest.remove(node);
        inner.turn.retain(|waiting| waiting != node);
    }

    /// Waits for the next one that may be published now.
    pub(super) async fn next(&self) -> Outgoing<'_> {
        loop {
            // Registered before looking, so that nothing put in between is missed.
            let news = self.news.notified();
            if let Some((node, frame)) = self.take() {
                // There may be more, and others may wait for it.
                self.news.notify_one();
                return Outgoing { outbox: self, node, frame, done: false };
            }
            news.await;
        }
    }

    /// How many wait or are underway.
    pub(super) fn waiting(&self) -> usize {
        let inner = self.lock();
        inner.newest.len() + inner.underway.len()
    }

    /// What is known of who is behind.
    pub(super) fn behind(&self) -> MutexGuard<'_, Behind> {
        self.behind.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> Option<(NodeName, Arc<[u8]>)> {
        let mut inner = self.lock();
        let at = inner.turn.iter().position(|node| !inner.underway.contains(node))?;
        let node = inner.turn.remove(at)?;
        let frame = inner.newest.remove(&node)?;
        inner.underway.insert(node.clone());
        Some((node, frame))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A declaration being published. Dropped without [`Self::done`], it goes back unless a newer one waits by then.
#[derive(Debug)]
pub(super) struct Outgoing<'a> {
    outbox: &'a Outbox,
    /// For whom.
    pub(super) node: NodeName,
    /// What.
    pub(super) frame: Arc<[u8]>,
    done: bool,
}

impl Outgoing<'_> {
    /// It stands in the node's queue, or never will.
    pub(super) fn done(mut self) {
        self.done = true;
    }
}

impl Drop for Outgoing<'_> {
    fn drop(&mut self) {
        let mut inner = self.outbox.lock();
        inner.underway.remove(&self.node);
        if !self.done && !inner.newest.contains_key(&self.node) {
            inner.newest.insert(self.node.clone(), Arc::clone(&self.frame));
            inner.turn.push_back(self.node.clone());
        }
        drop(inner);
        self.outbox.news.notify_one();
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

    use futures_util::FutureExt as _;

    use super::*;

    fn name(text: &str) -> NodeName {
        text.parse().unwrap()
    }

    fn next(outbox: &Outbox) -> Option<Outgoing<'_>> {
        outbox.next().now_or_never()
    }

    #[test]
    fn only_the_newest_waits_and_nodes_take_turns() {
        let outbox = Outbox::default();
        outbox.put(&name("b"), Arc::from(*b"1"));
        outbox.put(&name("a"), Arc::from(*b"2"));
        outbox.put(&name("b"), Arc::from(*b"3"));
        let first = next(&outbox).unwrap();
        assert_eq!((first.node.as_str(), &*first.frame), ("b", b"3".as_slice()));
        first.done();
        next(&outbox).unwrap().done();
        assert!(next(&outbox).is_none());
    }

    #[test]
    fn two_of_one_node_are_never_underway_at_once() {
        let outbox = Outbox::default();
        outbox.put(&name("a"), Arc::from(*b"1"));
        let first = next(&outbox).unwrap();
        outbox.put(&name("a"), Arc::from(*b"2"));
        assert!(next(&outbox).is_none(), "the older could arrive after the newer");
        first.done();
        assert_eq!(&*next(&outbox).unwrap().frame, b"2");
    }

    #[test]
    fn what_was_not_placed_goes_back_unless_a_newer_one_waits() {
        let outbox = Outbox::default();
        outbox.put(&name("a"), Arc::from(*b"1"));
        drop(next(&outbox).unwrap());
        let again = next(&outbox).unwrap();
        assert_eq!(&*again.frame, b"1");
        outbox.put(&name("a"), Arc::from(*b"2"));
        drop(again);
        assert_eq!(&*next(&outbox).unwrap().frame, b"2");
    }

    #[test]
    fn a_removed_node_gets_nothing() {
        let outbox = Outbox::default();
        outbox.put(&name("a"), Arc::from(*b"1"));
        outbox.forget(&name("a"));
        assert!(next(&outbox).is_none());
    }
}
