//! What is only observed, seen through the whole host: what is told of it, what waits for it, what never happens to it.

use super::*;

fn observed(file: &str) -> String {
    file.replacen('{', r#"{"observe_only": true, "#, 1)
}

/// Of the report: which resources, whether each is over, and what was found.
fn told(host: &Host) -> Vec<(u64, bool, String)> {
    let report = host.report().expect("a report");
    let words = |drift: &Drift| (drift.number, drift.repaired_at.is_some(), drift.found.join("; "));
    report.drift.iter().map(words).collect()
}

#[tokio::test]
async fn what_is_other_than_declared_is_told_once_until_it_changes_or_goes() {
    let bench = Bench::new();
    let mut host = bench.host().await;
    bench.world.put("/etc/a", "x", 0o644);
    let frame = bench.mesh.with(1, 1, &list(&[observed(&file("a", "/etc/a", "x"))]));
    assert_eq!(follow(&mut host, &frame).await.drifted, 0);
    assert_eq!(told(&host), []);
    bench.world.put("/etc/a", "by hand", 0o644);
    assert_eq!(round(&mut host).await.drifted, 1);
    assert_eq!(round(&mut host).await.drifted, 0, "told already");
    let first = told(&host);
    assert!(first.len() == 1 && !first[0].1, "{first:?}");
    assert!(
        first[0].2.starts_with("/etc/a holds something else (mode 0644, root:root); write /etc/a"),
        "{first:?}"
    );
    assert_eq!(bench.world.text("/etc/a").as_deref(), Some("by hand"));
    host.confirmed(&host.report().expect("a report")).await.expect("written");
    assert_eq!(told(&host), [], "what was heard is not said again");
    // Also not by a host that starts anew.
    let mut host = bench.host().await;
    assert_eq!((round(&mut host).await.drifted, told(&host)), (0, Vec::new()));
    // Changed to something else: the first is over, and this is another.
    bench.world.tree.borrow_mut().remove("/etc/a");
    assert_eq!(round(&mut host).await.drifted, 1);
    let second = told(&host);
    assert_eq!((second[0].0, second[0].1), (first[0].0, true), "{second:?}");
    assert!(second[1].0 > first[0].0 && second[1].2.starts_with("/etc/a is not there"), "{second:?}");
    bench.world.put("/etc/a", "x", 0o644);
    round(&mut host).await;
    assert!(told(&host).iter().all(|(_, over, _)| *over), "{:?}", told(&host));
    // It is neither the machine's nor failed.
    let report = host.report().expect("a report");
    assert!(report.applied.is_empty() && report.failed.is_empty(), "{report:?}");
}

#[tokio::test]
async fn nothing_waits_for_what_is_only_observed() {
    let bench = Bench::new();
    let mut host = bench.host().await;
    let after = file("b", "/etc/b", "x").replacen('{', r#"{"after": ["a", "c"], "#, 1);
    // One is other than declared, the other cannot be looked at.
    let broken = observed(r#"{"id": "c", "kind": "unit", "spec": {"name": "no.service", "active": true}}"#);
    let json = format!("[{}, {broken}, {after}]", observed(&file("a", "/etc/a", "x")));
    let outcome = follow(&mut host, &bench.mesh.with(1, 1, &resources(&json))).await;
    assert_eq!(bench.world.text("/etc/b").as_deref(), Some("x"), "{outcome:?}");
    assert_eq!(bench.world.text("/etc/a"), None);
    let why = failed(&outcome);
    assert!(why.len() == 1 && why[0].0 == "assigned c" && why[0].1.starts_with("look at it: "), "{why:?}");
}

#[tokio::test]
async fn what_was_kept_and_is_only_observed_stays_when_it_is_no_longer_declared() {
    let bench = Bench::new();
    bench.world.put("/etc/a", "old", 0o600);
    let mut host = bench.host().await;
    let kept = |n| bench.mesh.with(1, n, &list(&[file("a", "/etc/a", "x")]));
    let seen = |n| bench.mesh.with(1, n, &list(&[observed(&file("a", "/etc/a", "y"))]));
    follow(&mut host, &kept(1)).await;
    let outcome = follow(&mut host, &seen(2)).await;
    assert_eq!((outcome.steps, outcome.drifted), (0, 1));
    // Kept again and removed: what stood there before is back.
    follow(&mut host, &kept(3)).await;
    assert!(told(&host).iter().all(|(_, over, _)| *over), "no longer observed: {:?}", told(&host));
    follow(&mut host, &bench.mesh.at(1, 4)).await;
    assert_eq!(bench.world.text("/etc/a").as_deref(), Some("old"));
    // Observed when it goes: it stays.
    follow(&mut host, &kept(5)).await;
    follow(&mut host, &seen(6)).await;
    let outcome = follow(&mut host, &bench.mesh.at(1, 7)).await;
    assert_eq!((outcome.steps, bench.world.text("/etc/a").as_deref()), (0, Some("x")));
    assert!(bench.world.kept.borrow().is_empty() && host.memory().standing.is_empty());
    assert!(told(&host).iter().all(|(_, over, _)| *over), "no longer observed: {:?}", told(&host));
}

#[tokio::test]
async fn a_plan_shows_what_is_only_observed_beside_what_would_change() {
    let bench = Bench::new();
    let host = bench.host().await;
    let declared: Vec<Declared> =
        list(&[observed(&file("a", "/etc/a", "x")), file("b", "/etc/b", "x")]).into_iter().map(Ok).collect();
    let plan = host.plan_carried(&declared).await;
    assert_eq!(plan.planned.iter().map(|planned| planned.id.as_str()).collect::<Vec<_>>(), ["b"]);
    assert!(
        plan.observed.len() == 1 && plan.observed[0].2[0] == "/etc/a is not there",
        "{:?}",
        plan.observed
    );
    bench.world.put("/etc/a", "x", 0o644);
    let plan = host.plan_carried(&declared[..1]).await;
    assert!(plan.is_empty() && plan.observed.is_empty() && plan.unchanged == 1, "{plan:?}");
}
