//! The doctor on whole machines: bare, joined, and one that lost what made it a node.

use super::*;
use crate::{
    ledger::{Folder, Ledger, Record},
    machine::{engine::fake::FakeEngine, fake::World},
};

async fn found(root: &std::path::Path) -> Vec<Finding> {
    let world = World::bare();
    let machine = world.machine(FakeEngine::new(&world.faults));
    examine(&Paths::under(root), &machine).await
}

fn of<'a>(findings: &'a [Finding], check: &str) -> &'a Finding {
    findings
        .iter()
        .find(|finding| finding.check == check)
        .unwrap_or_else(|| panic!("no {check}: {findings:#?}"))
}

#[tokio::test]
async fn a_machine_that_has_joined_no_mesh_is_looked_at_and_left_as_it_was() {
    let root = tempfile::tempdir().expect("a folder");
    let findings = found(root.path()).await;
    assert_eq!(of(&findings, "mesh").level, Level::Ok, "{findings:#?}");
    assert_eq!(of(&findings, "ledger").level, Level::Ok);
    assert_eq!(of(&findings, "unit").level, Level::Ok);
    assert!(findings.iter().all(|finding| finding.check != "broker"), "nobody to reach");
    assert_eq!(std::fs::read_dir(root.path()).expect("the folder").count(), 0, "something was written");
    for finding in &findings {
        assert_eq!(finding.level == Level::Ok, finding.remedy.is_none(), "{finding:?}");
    }
}

#[tokio::test]
async fn a_lost_link_file_and_a_damaged_ledger_are_said_with_what_to_do() {
    let root = tempfile::tempdir().expect("a folder");
    let paths = Paths::under(root.path());
    let mut ledger =
        Ledger::open(Box::new(Folder::new(paths.ledger(), paths.ledger_note()))).expect("a ledger");
    ledger.write([Record::Accepted { frame: "{}".to_owned(), issued: 1_900_000_500 }]).expect("written");
    ledger.commit().expect("durable");
    let findings = found(root.path()).await;
    let mesh = of(&findings, "mesh");
    assert!(mesh.level == Level::Fail && mesh.found.contains("link.json is missing"), "{mesh:?}");
    assert!(mesh.remedy.as_deref().is_some_and(|remedy| remedy.contains("put back")), "{mesh:?}");
    // The fake machine's clock is 500 s behind what was signed.
    assert_eq!(of(&findings, "clock").level, Level::Fail);

    let journal = paths.ledger().join("journal");
    let mut bytes = std::fs::read(&journal).expect("the journal");
    bytes[20] ^= 1;
    std::fs::write(&journal, &bytes).expect("damaged");
    let findings = found(root.path()).await;
    let ledger = of(&findings, "ledger");
    assert!(ledger.level == Level::Fail && ledger.found.contains("cannot be read"), "{ledger:?}");
    assert_eq!(std::fs::read(&journal).expect("the journal"), bytes, "it was written to");
}

#[test]
fn the_worst_finding_decides_and_sizes_are_readable() {
    let (ok, warn) = (Finding::ok("a", "b"), Finding::warn("a", "b", "c"));
    assert_eq!(worst(&[]), Level::Ok);
    assert_eq!(worst(&[ok.clone(), warn.clone()]), Level::Warn);
    assert_eq!(worst(&[ok, Finding::fail("a", "b", "c"), warn]), Level::Fail);
    assert_eq!(
        [bytes(5), bytes(2048), bytes(5 << 20), bytes(3 << 30)],
        ["5 B", "2.0 KiB", "5.0 MiB", "3.0 GiB"]
    );
    assert_eq!(spoken(3_661), "1h 1m");
}
