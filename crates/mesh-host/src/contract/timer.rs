//! Cases of the kind `timer`.

use super::{Bench, Case, carry, converge, folder, holds};
use crate::machine::{fake::FakeUnit, files::Content};

const DAILY: &str = r#"[{"id": "t", "kind": "timer", "spec": {"name": "backup", "calendar": "daily", "command": ["/bin/true"]}}]"#;
const HOURLY: &str = r#"[{"id": "t", "kind": "timer", "spec": {"name": "backup", "interval_s": 3600,
    "command": ["/bin/true", "all"], "user": "hello"}}]"#;
const TIMER: &str = "/etc/systemd/system/backup.timer";
const SERVICE: &str = "/etc/systemd/system/backup.service";

fn unit(bench: &Bench, name: &str) -> FakeUnit {
    bench.world.units.borrow().get(name).cloned().unwrap_or_default()
}

#[tokio::test]
async fn a_timer_that_was_not_there() {
    let case = Case {
        name: "timer",
        machine: Bench::without_engine,
        first: DAILY,
        second: HOURLY,
        drift: |bench| {
            let mut units = bench.world.units.borrow_mut();
            let unit = units.get_mut("backup.timer").expect("the timer");
            (unit.active, unit.enabled) = (false, false);
        },
    };
    holds(&case).await;
    let other = Case {
        name: "timer, its service changed",
        drift: |bench| bench.world.put(SERVICE, "x", 0o600),
        ..case
    };
    holds(&other).await;
}

#[tokio::test]
async fn a_timer_that_replaces_one() {
    let case = Case {
        name: "replaced timer",
        machine: || {
            let bench = Bench::without_engine();
            for (path, name, runs) in [(TIMER, "backup.timer", true), (SERVICE, "backup.service", false)] {
                let text = format!("[Unit]\n#old {name}\n[Install]\n");
                bench.world.put(path, &text, 0o600);
                let read = Some(Content::new(text.as_bytes()).digest());
                let unit = FakeUnit {
                    with: read.clone().filter(|_| runs),
                    read,
                    active: runs,
                    enabled: runs,
                    ..FakeUnit::default()
                };
                bench.world.units.borrow_mut().insert(name.to_owned(), unit);
            }
            bench
        },
        first: DAILY,
        second: HOURLY,
        drift: |bench| {
            bench.world.tree.borrow_mut().remove(TIMER);
        },
    };
    holds(&case).await;
}

#[tokio::test]
async fn a_run_that_has_begun_is_left_to_its_end_by_a_change_and_stopped_by_a_removal() {
    let (bench, folder) = (Bench::without_engine(), folder());
    converge(&bench, folder.path(), DAILY, "daily").await;
    assert!(!unit(&bench, "backup.service").active, "it runs when it is time");
    bench.world.units.borrow_mut().get_mut("backup.service").expect("the service").active = true;
    let runs = || bench.world.starts.borrow().get("backup.service").copied();
    converge(&bench, folder.path(), HOURLY, "hourly").await;
    assert!(unit(&bench, "backup.service").active && runs().is_none(), "{:?}", runs());
    assert_eq!(bench.world.starts.borrow().get("backup.timer"), Some(&2), "the timer reads what is new");
    converge(&bench, folder.path(), "[]", "removed").await;
    assert!(!unit(&bench, "backup.service").active);
}

#[tokio::test]
async fn a_timer_and_a_unit_of_one_name_clash() {
    let (bench, folder) = (Bench::without_engine(), folder());
    let json = r#"[{"id": "t", "kind": "timer", "spec": {"name": "a", "calendar": "daily", "command": ["/bin/true"]}},
        {"id": "u", "kind": "unit", "spec": {"name": "a.service", "content": "[Service]\n"}}]"#;
    let outcome = carry(&bench, folder.path(), json).await;
    let why: Vec<String> = outcome.failed.values().map(ToString::to_string).collect();
    assert_eq!(why, ["the unit a.service belongs to t (carried): one of the two has to yield"]);
}
