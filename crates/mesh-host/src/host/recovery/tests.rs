//! A ledger with damage anywhere, on a machine in memory: what was carried, kept or still declared is not lost, and
//! what became somebody else's is not touched.

use std::fs;

use super::super::{
    tests::{Bench, carry, failed, file, follow, list, round},
    *,
};
use crate::machine::fake::Node;

/// The machine's files, and what was kept of it.
type Picture =
    (std::collections::BTreeMap<String, Node>, Vec<(mesh_ids::Digest, crate::machine::files::Content)>);

/// A machine with a history, and its ledger.
struct Lived {
    bench: Bench,
    picture: Picture,
    ledger: Vec<u8>,
}

impl Lived {
    /// Carries `c` and follows 2.1 with `a` and `b`, each in the place of something that stood there; 2.2 has no `b` any
    /// more, and a person put something in its place. `snapshot`: whether the ledger was replaced by its snapshot then.
    async fn new(snapshot: bool) -> Self {
        let bench = Bench::new();
        for path in ["/etc/a", "/etc/b", "/etc/c"] {
            bench.world.put(path, &format!("{path} stood here before"), 0o644);
        }
        let mut host = bench.host().await;
        carry(&mut host, list(&[file("c", "/etc/c", "carried")])).await;
        let both = list(&[file("a", "/etc/a", "assigned"), file("b", "/etc/b", "assigned")]);
        follow(&mut host, &bench.mesh.with(2, 1, &both)).await;
        follow(&mut host, &bench.mesh.with(2, 2, &both[..1])).await;
        assert_eq!(bench.world.text("/etc/b").as_deref(), Some("/etc/b stood here before"));
        bench.world.put("/etc/b", "by hand", 0o644);
        if snapshot {
            host.ledger.snapshot_now();
        }
        drop(host);
        let ledger = fs::read(bench.paths().ledger().join("journal")).expect("the ledger");
        let kept = bench.world.kept.borrow().iter().map(|(d, c)| (d.clone(), c.clone())).collect();
        let picture = (bench.world.tree.borrow().clone(), kept);
        Self { bench, picture, ledger }
    }

    /// The machine as it was, with this ledger.
    async fn with(&self, ledger: &[u8]) -> Host {
        *self.bench.world.tree.borrow_mut() = self.picture.0.clone();
        *self.bench.world.kept.borrow_mut() = self.picture.1.iter().cloned().collect();
        let folder = self.bench.paths().ledger();
        for aside in fs::read_dir(&folder).expect("the folder") {
            fs::remove_file(aside.expect("a file").path()).expect("removed");
        }
        fs::write(folder.join("journal"), ledger).expect("written");
        self.bench.host().await
    }

    /// The record in which this byte is.
    fn record_at(&self, at: usize) -> &str {
        let text = std::str::from_utf8(&self.ledger).expect("text");
        let mut end = 0;
        // The first line, then two lines a record.
        let mut lines = text.split_inclusive('\n');
        let first = lines.next().unwrap_or_default();
        end += first.len();
        let mut start = 0;
        while end <= at {
            start = end;
            end += lines.next().map_or(1, str::len) + lines.next().map_or(1, str::len);
        }
        &text[start..end.min(text.len())]
    }

    fn text(&self, path: &str) -> Option<String> {
        self.bench.world.text(path)
    }

    fn nothing_kept_is_lost(&self) -> bool {
        self.picture.1.iter().all(|(digest, _)| self.bench.world.kept.borrow().contains_key(digest))
    }
}

#[tokio::test]
async fn damage_at_any_byte_loses_nothing_but_the_record_it_is_in() {
    for snapshot in [false, true] {
        let lived = Lived::new(snapshot).await;
        let declared = list(&[file("a", "/etc/a", "assigned anew")]);
        let frame = lived.bench.mesh.with(3, 1, &declared);
        for at in (0..lived.ledger.len()).step_by(7) {
            let mut damaged = lived.ledger.clone();
            damaged[at] ^= 0x01;
            let record = lived.record_at(at);
            let mut host = lived.with(&damaged).await;
            let when = format!("snapshot {snapshot}, byte {at} of {record}");
            assert!(host.refused().contains("cannot be read"), "{when}");

            assert_eq!(failed(&follow(&mut host, &frame).await), [], "{when}");
            assert_eq!(host.memory().carried.len(), 1, "what is carried: {when}");
            assert_eq!(lived.text("/etc/a").as_deref(), Some("assigned anew"), "{when}");
            assert_eq!(lived.text("/etc/b").as_deref(), Some("by hand"), "{when}");
            assert_eq!(lived.text("/etc/c").as_deref(), Some("carried"), "{when}");
            assert!(lived.nothing_kept_is_lost(), "{when}");

            host.remove_all(true, &mut |_, _, _| {}).await.expect("left");
            for path in ["/etc/a", "/etc/c"] {
                let own = record.contains("{\"entry\"") && record.contains(path);
                let before = format!("{path} stood here before");
                assert!(own || lived.text(path) == Some(before), "{:?}: {when}", lived.text(path));
            }
            assert_eq!(lived.text("/etc/b").as_deref(), Some("by hand"), "{when}");
            assert!(lived.nothing_kept_is_lost(), "after removal: {when}");
        }
    }
}

#[tokio::test]
async fn with_a_hole_anywhere_what_runs_is_kept_and_what_is_not_ours_is_not_touched() {
    for snapshot in [false, true] {
        let lived = Lived::new(snapshot).await;
        let frame = lived.bench.mesh.with(3, 1, &list(&[file("a", "/etc/a", "assigned")]));
        for start in (0..lived.ledger.len()).step_by(31) {
            for length in [64, 512, 4096] {
                let mut damaged = lived.ledger.clone();
                let end = (start + length).min(damaged.len());
                damaged[start..end].fill(0);
                let mut host = lived.with(&damaged).await;
                let when = format!("snapshot {snapshot}, a hole of {length} at {start}");
                if host.ledger.unreadable().is_none() {
                    // At the end, where it may be what a power cut left.
                    continue;
                }
                assert_eq!(failed(&follow(&mut host, &frame).await), [], "{when}");
                assert_eq!(lived.text("/etc/b").as_deref(), Some("by hand"), "{when}");
                assert_eq!(lived.text("/etc/c").as_deref(), Some("carried"), "{when}");
                assert!(lived.nothing_kept_is_lost(), "{when}");
            }
        }
    }
}

/// The ledger with its last record damaged: that `b` was removed.
fn without_its_removal(lived: &Lived) -> Vec<u8> {
    let mut damaged = lived.ledger.clone();
    let text = std::str::from_utf8(&lived.ledger).expect("text");
    let at = text.rfind("{\"removed\"").expect("a removal");
    damaged[at + 3] ^= 0x01;
    damaged
}

#[tokio::test]
async fn while_the_ledger_cannot_be_read_nothing_is_applied_removed_or_forgotten() {
    let lived = Lived::new(false).await;
    let mut host = lived.with(&without_its_removal(&lived)).await;
    let advice = "run 'mesh node recover node-1'";
    let refusals = [
        host.remove_all(true, &mut |_, _, _| {}).await.map(|_| ()),
        host.remove_all(false, &mut |_, _, _| {}).await.map(|_| ()),
        host.forget_assigned(),
        host.carry(Vec::new(), &mut |_, _, _| {}).await.map(|_| ()),
        host.refuse_unreadable("nothing was applied"),
    ];
    for refusal in refusals {
        let why = refusal.expect_err("refused").to_string();
        assert!(why.contains("cannot be read (it is damaged") && why.contains(advice), "{why}");
    }
    assert!(host.round(&mut |_, _, _| {}).await.is_err());
    assert_eq!(*lived.bench.world.tree.borrow(), lived.picture.0);
    assert_eq!(lived.bench.world.kept.borrow().len(), lived.picture.1.len());
}

#[tokio::test]
async fn what_is_not_certainly_ours_is_left_as_it_is_and_named_once() {
    let lived = Lived::new(false).await;
    let mut host = lived.with(&without_its_removal(&lived)).await;
    follow(&mut host, &lived.bench.mesh.with(3, 1, &list(&[file("a", "/etc/a", "assigned")]))).await;
    let report = host.report().expect("a report");
    let named: Vec<_> = report.drift.iter().map(|drift| (drift.resource.as_str(), &drift.found[0])).collect();
    assert!(named.len() == 1 && named[0].0 == "b" && named[0].1.contains("left as it is"), "{named:?}");
    host.confirmed(&report).await.expect("written");
    assert_eq!(host.report().expect("a report").drift, []);
}

#[tokio::test]
async fn a_person_who_raises_the_machine_again_carries_and_touches_nothing_assigned() {
    for snapshot in [false, true] {
        let lived = Lived::new(snapshot).await;
        let declared = list(&[file("a", "/etc/a", "assigned")]);
        let carried = list(&[file("c", "/etc/c", "carried anew")]);
        for at in (0..lived.ledger.len()).step_by(5) {
            let mut damaged = lived.ledger.clone();
            damaged[at] ^= 0x01;
            let mut host = lived.with(&damaged).await;
            let when = format!("snapshot {snapshot}, byte {at} of {}", lived.record_at(at));
            assert_eq!(host.carried_before().len(), 1, "{when}");
            host.begin_to_carry(&carried).await.expect("begun");
            carry(&mut host, carried.clone()).await;
            lived.bench.world.put("/etc/a", "by hand", 0o644);
            drop(host);

            // It is known for as long as it lasts that a newer declaration may have been followed.
            let mut host = lived.bench.host().await;
            round(&mut host).await;
            assert_eq!(lived.text("/etc/a").as_deref(), Some("by hand"), "{when}");
            assert_eq!(lived.text("/etc/c").as_deref(), Some("carried anew"), "{when}");
            assert!(host.refused().contains("mesh node recover"), "{}", host.refused());
            for (generation, sequence) in [(1, 9), (2, 1), (2, 2)] {
                let record = lived.record_at(at);
                if record.contains("{\"accepted\"") && generation == 2 {
                    // Its own record was the damaged one.
                    continue;
                }
                let taken = host.accept(&lived.bench.mesh.with(generation, sequence, &declared)).await;
                assert!(
                    matches!(taken, Ok(Taken::Refused(Refusal::NoRecovery { .. }))),
                    "{generation}.{sequence}: {taken:?}: {when}"
                );
            }
            follow(&mut host, &lived.bench.mesh.with(3, 1, &declared)).await;
            assert_eq!(lived.text("/etc/a").as_deref(), Some("assigned"), "{when}");
            assert_eq!(lived.text("/etc/b").as_deref(), Some("by hand"), "{when}");
            assert!(lived.nothing_kept_is_lost(), "{when}");
        }
    }
}
