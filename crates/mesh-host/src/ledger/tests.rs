//! Crash images and corruption of the ledger: what was durable is read, what was torn is dropped, what is damaged is never
//! taken for nothing.

use std::{cell::RefCell, io, rc::Rc};

use mesh_wire::kinds::VolumeSpec;

use super::*;

/// What a disk was asked to do.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Act {
    Append(Vec<u8>),
    Truncate(u64),
    Sync,
    Replace(Vec<u8>),
}

/// A disk in memory that remembers every act, and fails at one of them.
#[derive(Debug, Clone, Default)]
struct FakeDisk {
    bytes: Rc<RefCell<Option<Vec<u8>>>>,
    acts: Rc<RefCell<Vec<Act>>>,
    fail_at: Rc<RefCell<Option<usize>>>,
    begun: Rc<RefCell<Option<String>>>,
}

impl FakeDisk {
    fn with(bytes: &[u8]) -> Self {
        let disk = Self::default();
        *disk.bytes.borrow_mut() = Some(bytes.to_vec());
        disk
    }

    fn act(&self, act: Act) -> io::Result<()> {
        let mut acts = self.acts.borrow_mut();
        acts.push(act);
        if *self.fail_at.borrow() == Some(acts.len()) {
            return Err(io::Error::other("no space left on device"));
        }
        Ok(())
    }
}

impl Disk for FakeDisk {
    fn read(&mut self) -> io::Result<Option<Vec<u8>>> {
        Ok(self.bytes.borrow().clone())
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut file = self.bytes.borrow_mut();
        let file = file.as_mut().expect("a file");
        if let Err(error) = self.act(Act::Append(bytes.to_vec())) {
            // Half of it is there, as on a full disk.
            file.extend_from_slice(&bytes[..bytes.len() / 2]);
            return Err(error);
        }
        file.extend_from_slice(bytes);
        Ok(())
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.act(Act::Truncate(length))?;
        let length = usize::try_from(length).expect("a length");
        self.bytes.borrow_mut().as_mut().expect("a file").truncate(length);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.act(Act::Sync)
    }

    fn replace(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.act(Act::Replace(bytes.to_vec()))?;
        *self.bytes.borrow_mut() = Some(bytes.to_vec());
        Ok(())
    }

    fn begun(&mut self) -> io::Result<Option<String>> {
        Ok(self.begun.borrow().clone())
    }

    fn begin(&mut self, words: &str) -> io::Result<()> {
        *self.begun.borrow_mut() = Some(words.to_owned());
        Ok(())
    }

    fn set_aside(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn is_ours(&mut self) -> io::Result<bool> {
        Ok(true)
    }
}

fn entry(id: &str, changed: u64) -> Record {
    let spec = VolumeSpec { name: "x".to_owned(), released: false }.into();
    let resource = Resource { id: id.parse().expect("an id"), after: Vec::new(), observe_only: false, spec };
    Record::Entry(Box::new(Entry {
        origin: Origin::Assigned,
        resource,
        complete: false,
        before: serde_json::json!({ "nothing": null }),
        place: changed,
        changed,
        seen: BTreeMap::new(),
        restarting: false,
        drift: None,
    }))
}

fn completed(id: &str) -> Record {
    Record::Completed { origin: Origin::Assigned, id: id.parse().expect("an id"), seen: BTreeMap::new() }
}

fn drift(number: u64, repaired_at: Option<i64>) -> Record {
    let resource = "a".parse().expect("an id");
    Record::Drift(Drift { number, resource, noticed_at: 1, found: vec!["x".to_owned()], repaired_at })
}

/// A life of a ledger: groups of records, each made durable before the next.
fn life() -> Vec<Vec<Record>> {
    vec![
        vec![Record::Counted { reports: 100, drift: 7, change: 0, floor: 0 }],
        vec![Record::Accepted { frame: "{\"declaration\": \"…\"}".repeat(20), issued: 40 }],
        vec![entry("a", 1), entry("b", 2)],
        vec![completed("a"), completed("b"), entry("c", 3)],
        vec![drift(8, None), entry("a", 4)],
        vec![
            drift(8, Some(2)),
            completed("a"),
            Record::Removed { origin: Origin::Assigned, id: "c".parse().expect("an id") },
        ],
        vec![Record::Delivered { numbers: vec![8] }],
    ]
}

fn open(disk: &FakeDisk) -> Ledger {
    Ledger::open(Box::new(disk.clone())).expect("the disk answers")
}

/// Lives it, and says what was remembered after every commit.
fn live(disk: &FakeDisk) -> Vec<Memory> {
    let mut ledger = open(disk);
    let mut memories = vec![ledger.memory().clone()];
    for records in life() {
        ledger.write(records).expect("written");
        ledger.commit().expect("durable");
        memories.push(ledger.memory().clone());
    }
    memories
}

#[test]
fn what_was_remembered_is_remembered_after_a_restart_and_after_a_snapshot() {
    let disk = FakeDisk::default();
    let last = live(&disk).pop().expect("a memory");
    let mut ledger = open(&disk);
    assert_eq!(ledger.memory(), &last);
    ledger.replace().expect("a snapshot");
    assert_eq!(open(&disk).memory(), &last);
    assert_eq!((last.entries.len(), last.drift.len(), last.last_drift, last.floor), (2, 0, 8, 40));
}

#[test]
fn a_power_cut_at_any_moment_loses_nothing_that_was_durable() {
    let disk = FakeDisk::default();
    let memories = live(&disk);
    let acts = disk.acts.borrow().clone();
    let (mut durable, mut file, mut commits, mut images) = (Vec::new(), Vec::new(), 0, 0);
    for act in &acts {
        match act {
            Act::Replace(bytes) => (durable, file) = (bytes.clone(), bytes.clone()),
            Act::Truncate(_) => panic!("nothing was torn"),
            Act::Sync => {
                durable.clone_from(&file);
                commits += 1;
            }
            Act::Append(bytes) => {
                // Every prefix of what was not durable yet, and the whole with any of its sectors missing.
                let mut possible: Vec<Vec<u8>> =
                    (0..=bytes.len()).map(|n| [file.as_slice(), &bytes[..n]].concat()).collect();
                let whole = [file.as_slice(), bytes].concat();
                for sector in (0..whole.len()).step_by(512).filter(|s| s + 512 > file.len()) {
                    let mut image = whole.clone();
                    let end = (sector + 512).min(whole.len());
                    image[sector.max(file.len())..end].fill(0);
                    possible.push(image);
                }
                for image in possible {
                    images += 1;
                    let cut = FakeDisk::with(&image);
                    let ledger = open(&cut);
                    assert_eq!(ledger.unreadable(), None, "image of {} bytes", image.len());
                    let found = ledger.memory();
                    let (earlier, later) = (&memories[commits], memories.get(commits + 1));
                    let between = found.last_change >= earlier.last_change
                        && later.is_none_or(|later| found.last_change <= later.last_change)
                        && found.accepted.is_some() >= earlier.accepted.is_some()
                        && earlier.entries.keys().all(|key| found.entries.contains_key(key) || commits >= 5);
                    assert!(between, "image of {} bytes: {found:?}", image.len());
                    // What is appended next is read again.
                    drop(ledger);
                    let mut ledger = open(&cut);
                    ledger.write([entry("next", 99)]).expect("written");
                    ledger.commit().expect("durable");
                    assert_eq!(open(&cut).memory().last_change, 99);
                }
                file.extend_from_slice(bytes);
            }
        }
    }
    assert_eq!(durable, file);
    assert!(images > 2000, "{images}");
}

#[test]
fn no_changed_byte_is_taken_for_nothing() {
    let disk = FakeDisk::default();
    live(&disk);
    let bytes = disk.bytes.borrow().clone().expect("a file");
    for at in 0..bytes.len() {
        for change in [0x01, 0x80, 0xff] {
            let mut changed = bytes.clone();
            changed[at] ^= change;
            let mut ledger = open(&FakeDisk::with(&changed));
            assert!(ledger.unreadable().is_some(), "byte {at} changed by {change:#x}");
            assert!(ledger.write([completed("a")]).is_err(), "nothing is written behind damage");
        }
    }
}

#[test]
fn what_is_no_longer_there_is_not_taken_for_nothing() {
    let disk = FakeDisk::default();
    live(&disk);
    let mut ledger = open(&disk);
    ledger.replace().expect("a snapshot");
    let bytes = disk.bytes.borrow().clone().expect("a file");
    for length in 0..bytes.len() {
        let ledger = open(&FakeDisk::with(&bytes[..length]));
        assert!(ledger.unreadable().is_some(), "a snapshot cut to {length} bytes");
    }
}

#[test]
fn a_full_disk_leaves_the_ledger_as_it_was() {
    let disk = FakeDisk::default();
    let memories = live(&disk);
    for k in 1..=disk.acts.borrow().len() {
        let disk = FakeDisk::default();
        *disk.fail_at.borrow_mut() = Some(k);
        let Ok(mut ledger) = Ledger::open(Box::new(disk.clone())) else { continue };
        let mut done = 0;
        for records in life() {
            let before = ledger.memory().clone();
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                ledger.write(records).and_then(|()| ledger.commit())
            }));
            match outcome {
                Ok(Ok(())) => done += 1,
                Ok(Err(_)) => {
                    assert_eq!(ledger.memory(), &before, "act {k}");
                    break;
                }
                // A sync that failed: only reading again tells what is there.
                Err(_) => break,
            }
        }
        let found = open(&disk).memory().clone();
        assert!(
            found == memories[done] || memories.get(done + 1) == Some(&found),
            "act {k} failed: {found:?}"
        );
    }
}

#[test]
fn a_ledger_that_cannot_be_read_says_what_it_last_followed() {
    let disk = FakeDisk::default();
    let declaration = br#"{"epoch": 1, "generation": 4, "sequence": 9}"#;
    let signed = mesh_wire::Signed { declaration: declaration.to_vec(), signature: vec![0; 64] };
    let frame = serde_json::to_string(&signed).expect("a frame");
    let mut ledger = open(&disk);
    ledger.write([Record::Accepted { frame, issued: 1 }, entry("a", 1)]).expect("written");
    ledger.commit().expect("durable");
    let mut bytes = disk.bytes.borrow().clone().expect("a file");
    let last = bytes.len() - 3;
    bytes[last] ^= 1;
    let disk = FakeDisk::with(&bytes);
    let mut ledger = open(&disk);
    let (_, known) = ledger.unreadable().expect("unreadable");
    assert_eq!(known.map(|known| known.to_string()), Some("1.4.9".to_owned()));
    ledger.begin_anew([Record::Accepted { frame: "{}".to_owned(), issued: 5 }]).expect("begun anew");
    assert_eq!((open(&disk).unreadable(), open(&disk).memory().floor), (None, 5));
}

#[test]
fn the_journal_is_replaced_by_its_snapshot_when_it_has_grown() {
    let disk = FakeDisk::default();
    let mut ledger = open(&disk);
    for n in 0..2000 {
        ledger.write([entry("a", n)]).expect("written");
        ledger.commit().expect("durable");
    }
    let length = disk.bytes.borrow().as_ref().map_or(0, Vec::len);
    assert!(length <= SMALL + 1024, "{length} bytes for one entry");
    assert_eq!(open(&disk).memory().last_change, 1999);
}

#[test]
fn drift_that_is_being_repaired_is_not_forgotten_when_it_was_delivered() {
    let disk = FakeDisk::default();
    let mut ledger = open(&disk);
    let Record::Entry(repairing) = entry("a", 1) else { unreachable!() };
    let repairing = Record::Entry(Box::new(Entry { drift: Some(8), ..*repairing }));
    ledger.write([drift(8, None), repairing, Record::Delivered { numbers: vec![8] }]).expect("written");
    assert_eq!(ledger.memory().drift.len(), 1);
    ledger
        .write([drift(8, Some(3)), completed("a"), Record::Delivered { numbers: vec![8] }])
        .expect("written");
    assert!(ledger.memory().drift.is_empty());
}

#[test]
fn an_observed_difference_stands_until_it_goes_and_is_reported_at_both_ends() {
    let mut ledger = open(&FakeDisk::default());
    let (key, unrepaired) =
        ((Origin::Assigned, "a".parse().expect("an id")), |record: Record| match record {
            Record::Drift(drift) => drift,
            other => panic!("{other:?}"),
        });
    let found = Drift { resource: "a".parse().expect("an id"), ..unrepaired(drift(8, None)) };
    ledger.write([Record::Differs { origin: key.0, drift: found.clone(), told: false }]).expect("written");
    assert_eq!(ledger.memory().drift, std::slice::from_ref(&found));
    ledger.snapshot_now();
    assert_eq!(ledger.memory().drift, std::slice::from_ref(&found), "a snapshot changes nothing");
    ledger.write([Record::Delivered { numbers: vec![8] }]).expect("written");
    assert_eq!((ledger.memory().drift.len(), ledger.memory().standing.get(&key)), (0, Some(&found)));
    let again = ledger.memory().records();
    let mut memory = Memory::default();
    for record in again {
        memory.take(record);
    }
    assert_eq!(&memory, ledger.memory(), "what was told is not told again");
    ledger.write([Record::Agrees { origin: key.0, id: key.1.clone(), at: 99 }]).expect("written");
    assert_eq!(ledger.memory().drift, [Drift { repaired_at: Some(99), ..found }]);
    assert!(ledger.memory().standing.is_empty());
}

#[test]
fn undelivered_drift_is_bounded() {
    let mut ledger = open(&FakeDisk::default());
    ledger.write((1..=2000).map(|n| drift(n, Some(1)))).expect("written");
    assert_eq!(ledger.memory().drift.len(), MAX_DRIFT);
    assert_eq!(ledger.memory().drift.back().map(|drift| drift.number), Some(2000));
}

/// A ledger as the first release wrote it, and what has to be read out of it for ever. `MESH_BLESS=1` writes both anew,
/// while they are not released.
#[test]
fn the_first_form_of_the_ledger_is_read_for_ever() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/ledger");
    let (journal, memory) = (folder.join("1.journal"), folder.join("1.json"));
    if std::env::var_os("MESH_BLESS").is_some() {
        let disk = FakeDisk::default();
        let mut ledger = open(&disk);
        let groups = life();
        for (place, records) in groups.into_iter().enumerate() {
            ledger.write(records).expect("written");
            ledger.commit().expect("durable");
            if place == 3 {
                ledger.replace().expect("a snapshot");
            }
        }
        let carried = Resource {
            id: "v".parse().expect("an id"),
            after: Vec::new(),
            observe_only: false,
            spec: VolumeSpec { name: "x".to_owned(), released: false }.into(),
        };
        ledger.write([Record::Carried { resources: vec![carried] }, drift(9, None)]).expect("written");
        let kept = vec![Digest::of_sha256([7; 32])];
        ledger.write([Record::Salvaged { kept }, Record::Doubted]).expect("written");
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::write(&journal, disk.bytes.borrow().as_ref().expect("a file")).expect("written");
        std::fs::write(&memory, picture(ledger.memory())).expect("written");
    }
    let ledger = open(&FakeDisk::with(&std::fs::read(&journal).expect("the journal")));
    assert_eq!(ledger.unreadable(), None);
    assert_eq!(picture(ledger.memory()), std::fs::read_to_string(&memory).expect("the memory"));
}

/// The same of what came later.
#[test]
fn the_notes_in_the_ledger_are_read_for_ever_and_those_of_a_newer_host_passed_over() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/ledger");
    let (journal, memory) = (folder.join("2.journal"), folder.join("2.json"));
    if std::env::var_os("MESH_BLESS").is_some() {
        let disk = FakeDisk::default();
        let mut ledger = open(&disk);
        let note = |id, why| Record::Note(Note::failing(Origin::Assigned, id, 7, &Failure::new(why)));
        ledger
            .write([note("a", "no space".to_owned()), note("resource 3", "ü".repeat(400))])
            .expect("written");
        ledger.replace().expect("a snapshot");
        let mended = Note::Mended { origin: Origin::Assigned, id: "a".to_owned() };
        ledger
            .write([note("a", "later".to_owned()), Record::Note(mended), note("b", "full".to_owned())])
            .expect("written");
        std::fs::write(&journal, disk.bytes.borrow().as_ref().expect("a file")).expect("written");
        std::fs::write(&memory, picture(ledger.memory())).expect("written");
    }
    let ledger = open(&FakeDisk::with(&std::fs::read(&journal).expect("the journal")));
    assert_eq!(ledger.unreadable(), None);
    assert_eq!(picture(ledger.memory()), std::fs::read_to_string(&memory).expect("the memory"));
    let newer = r#"{"note": {"of": "weather", "sky": {"blue": [1, 2]}}}"#;
    assert_eq!(serde_json::from_str::<Record>(newer).expect("passed over"), Record::Note(Note::Newer));
}

#[test]
fn what_fails_is_remembered_with_its_first_cause_and_within_bounds() {
    let disk = FakeDisk::default();
    let mut ledger = open(&disk);
    let note =
        |id: &str, at, why: &str| Record::Note(Note::failing(Origin::Carried, id, at, &Failure::new(why)));
    ledger.write([note("a", 5, "no space"), note("a", 9, "no folder")]).expect("written");
    ledger.write((0..3000).map(|n| note(&format!("x{n}"), 9, &"ü".repeat(5000)))).expect("written");
    ledger.replace().expect("a snapshot");
    let ledger = open(&disk);
    let a = &ledger.memory().failing[&(Origin::Carried, "a".to_owned())];
    assert_eq!((a.at, a.first.as_str()), (5, "no space"));
    assert_eq!(a.other_than("no folder"), Some("no space"));
    assert_eq!(a.other_than("no space (tried again, ever more rarely)"), None);
    assert_eq!(ledger.memory().failing.len(), 1000);
    assert!(ledger.memory().failing.values().all(|since| since.first.len() <= 610));
}

#[test]
fn a_ledger_that_is_gone_is_not_taken_for_one_that_never_was() {
    let disk = FakeDisk::default();
    let mut ledger = open(&disk);
    assert_eq!(disk.begun.borrow().as_deref(), Some("nothing yet\n"));
    let declaration = br#"{"epoch": 1, "generation": 4, "sequence": 9}"#;
    let signed = mesh_wire::Signed { declaration: declaration.to_vec(), signature: vec![0; 64] };
    let frame = serde_json::to_string(&signed).expect("a frame");
    ledger.write([Record::Accepted { frame: frame.clone(), issued: 1 }]).expect("written");
    ledger.commit().expect("durable");
    assert_eq!(disk.begun.borrow().as_deref(), Some("1.4\n"));
    // Of a host that noted nothing: it is noted when it is opened.
    *disk.begun.borrow_mut() = None;
    open(&disk);
    assert_eq!(disk.begun.borrow().as_deref(), Some("1.4\n"));
    *disk.bytes.borrow_mut() = None;
    let mut ledger = open(&disk);
    let (reason, known) = ledger.unreadable().expect("unreadable");
    assert_eq!(
        (reason, known.map(|at| at.to_string()).as_deref()),
        ("it is gone, though there was one", Some("1.4.0"))
    );
    assert!(ledger.write([entry("a", 1)]).is_err(), "nothing is written as if it were the first");
    assert_eq!(*disk.bytes.borrow(), None);
    ledger.begin_anew([Record::Accepted { frame, issued: 5 }]).expect("begun anew");
    assert_eq!(open(&disk).unreadable(), None);
    *disk.begun.borrow_mut() = Some("scribble".to_owned());
    *disk.bytes.borrow_mut() = None;
    assert!(open(&disk).unreadable().is_some_and(|(_, known)| known.is_none()));
}

fn picture(memory: &Memory) -> String {
    serde_json::to_string_pretty(&memory.records()).expect("JSON") + "\n"
}
