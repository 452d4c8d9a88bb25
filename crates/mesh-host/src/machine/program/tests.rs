//! Upgrades on a disk whose power is cut, or which is full, at every act: whatever happens, what the service starts is a
//! whole and proved program, a failed one is tried no more, and in the end the right one is installed.

use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use super::{
    power::{LOSSES, Loss, PowerDisk},
    shelf::Shelf,
};
use crate::{
    failure::Failure,
    paths::Paths,
    upgrade::{Intention, MOST_ATTEMPTS, Next, Stage, Start, State},
};
use mesh_ids::Digest;

const PROGRAM: &str = "/usr/local/bin/mesh-host";
const SOURCE: &str = "/srv/mesh-host";

/// A program of this machine whose bytes end so.
fn program(end: &str) -> Vec<u8> {
    let mut bytes = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\x3e\0".to_vec();
    bytes.extend(end.repeat(40).bytes());
    bytes
}

fn digest(bytes: &[u8]) -> Digest {
    Digest::of_sha256(Sha256::digest(bytes).into())
}

/// A machine that is told to upgrade.
struct Upgrade {
    shelf: Shelf<PowerDisk>,
    old: Vec<u8>,
    new: Vec<u8>,
    works: bool,
    /// The number of the present boot.
    boot: u32,
    /// How often the new program was tried.
    tries: u32,
}

impl Upgrade {
    /// `linked`: whether the old program was installed by an upgrade, and not by a person.
    fn new(linked: bool, works: bool) -> Self {
        let folders = [
            "/",
            "/usr",
            "/usr/local",
            "/usr/local/bin",
            "/usr/local/lib",
            "/srv",
            "/var",
            "/var/lib",
            "/var/lib/mesh-host",
        ];
        let disk = PowerDisk::with_folders(&folders);
        let (first, old, new) = (program("first"), program("old"), program("new"));
        disk.put(PROGRAM, if linked { &first } else { &old });
        let mut machine = Self {
            shelf: Shelf::new(disk, &Paths::default()),
            old,
            new: new.clone(),
            works: true,
            boot: 0,
            tries: 0,
        };
        if linked {
            (machine.old, machine.new) = (first, machine.old);
            machine.shelf.disk.put(SOURCE, &machine.new);
            for _ in 0..4 {
                machine.live().expect("nothing goes wrong");
            }
            assert_eq!(machine.installed(), machine.new, "it stands as it should before it begins");
            (machine.old, machine.new) = (machine.new, new);
        }
        machine.shelf.disk.put(SOURCE, &machine.new);
        (machine.works, machine.tries) = (works, 0);
        machine
    }

    /// One whose trial begins next.
    fn intended() -> Self {
        let mut upgrade = Self::new(false, true);
        upgrade.live().expect("installed beside, and intended");
        upgrade.shelf.disk.cut_before(0);
        upgrade
    }

    fn installed(&self) -> Vec<u8> {
        self.shelf.disk.peek(Path::new(PROGRAM)).expect("something is installed")
    }

    /// The service starts and goes on until it ends by itself: one life of a process, or of two in its place.
    fn live(&mut self) -> Result<(), Failure> {
        let installed = self.installed();
        assert!(installed == self.old || (self.works && installed == self.new), "a whole and proved program");
        let start = |installed| Start { installed, boot: self.boot.to_string(), at_s: 0 };
        self.shelf.is_another_process();
        match self.shelf.begin(start).unwrap_or(Next::Serve) {
            Next::Try(tried) => self.try_it(&tried),
            Next::Serve => self.serve(),
        }
    }

    /// The new program is on trial.
    fn try_it(&mut self, tried: &Digest) -> Result<(), Failure> {
        let bytes = self.shelf.disk.peek(&self.shelf.beside(tried)).expect("it is there");
        assert_eq!(bytes, self.new, "only what is whole is started");
        self.tries += 1;
        let keep = || self.shelf.switch_to(tried).and_then(|()| self.shelf.change(|state| state.keep(tried)));
        // It goes on trying until its deadline.
        if self.works { keep().or_else(|_| keep()) } else { Ok(()) }
    }

    /// A round of the installed program, with the new one declared.
    fn serve(&mut self) -> Result<(), Failure> {
        let wanted = digest(&self.new);
        let state = self.shelf.state()?;
        if state.trial.is_some() || state.failed(&wanted).is_some() || self.shelf.installed()? == wanted {
            return Ok(());
        }
        if !self.shelf.has(&wanted)? {
            self.shelf.install(Path::new(SOURCE), &wanted)?;
        }
        let intention =
            Intention { version: "2".to_owned(), digest: wanted, retry: 0, login: false, ledger_format: 1 };
        self.shelf.change(|state| state.intend(intention))
    }

    /// Lives until nothing changes any more, and demands the right end. Returns how many acts that took.
    fn converges(&mut self, when: &str) -> u64 {
        for _ in 0..8 {
            // What fails here failed because of the cut, and is tried again as a round would.
            let _ = self.live();
        }
        let acts = self.shelf.disk.acts();
        self.shelf.disk.cut_before(0);
        let state = self.shelf.state().unwrap_or_else(|why| panic!("{when}: {why}"));
        assert_eq!(state.trial, None, "{when}");
        if self.works {
            assert_eq!((self.installed() == self.new, &state), (true, &State::default()), "{when}");
        } else {
            assert_eq!(self.installed(), self.old, "{when}");
            let failed: Vec<&Digest> = state.failed.iter().map(|failed| &failed.digest).collect();
            assert_eq!(failed, [&digest(&self.new)], "{when}");
        }
        let tries = self.tries;
        let _ = self.live();
        assert_eq!(self.tries, tries, "{when}: tried no more");
        assert!(self.tries <= MOST_ATTEMPTS, "{when}: tried {} times", self.tries);
        assert!(self.on_the_shelf().len() <= 2, "{when}: {:?}", self.on_the_shelf());
        acts
    }

    fn on_the_shelf(&self) -> Vec<PathBuf> {
        use super::disk::Disk as _;
        let folder = Paths::default().programs();
        let names = self.shelf.disk.names(&folder).expect("a folder");
        names.into_iter().map(|name| folder.join(name)).collect()
    }

    fn power_cut(&mut self, loss: Loss) {
        self.shelf.disk.restart(loss);
        self.boot += 1;
    }
}

/// The acts of a whole upgrade that nothing disturbs.
fn acts_of(linked: bool, works: bool) -> u64 {
    let mut upgrade = Upgrade::new(linked, works);
    upgrade.shelf.disk.cut_before(0);
    upgrade.converges("undisturbed")
}

const MACHINES: [(bool, bool); 4] = [(false, true), (false, false), (true, true), (true, false)];

#[expect(clippy::print_stdout, reason = "how many were covered is part of the result")]
fn count(what: &str, how_many: usize, at_least: usize) {
    println!("upgrade: {how_many} {what}");
    assert!(how_many > at_least, "{how_many} {what}");
}

#[test]
fn the_power_may_be_cut_at_every_act_and_once_more_at_every_act_after() {
    let (mut cuts, long) = (0, std::env::var_os("MESH_LONG").is_some());
    for (linked, works) in MACHINES {
        let acts = acts_of(linked, works);
        for (first, loss) in (1..=acts).flat_map(|act| LOSSES.map(|loss| (act, loss))) {
            // The second cut comes at every seventh act, another one of the seven for each first cut.
            let step = if long { 1 } else { 7 };
            let offset = u64::try_from(step).expect("a small number");
            for second in std::iter::once(0).chain((1 + first % offset..=40).step_by(step)) {
                let when = format!(
                    "linked {linked}, works {works}, cut before act {first}, {loss:?}, then {second}"
                );
                let mut upgrade = Upgrade::new(linked, works);
                upgrade.shelf.disk.cut_before(first);
                while upgrade.live().is_ok() && upgrade.shelf.disk.acts() < first {}
                upgrade.power_cut(loss);
                cuts += 1;
                if second > 0 {
                    upgrade.shelf.disk.cut_before(second);
                    for _ in 0..6 {
                        if upgrade.live().is_err() || upgrade.shelf.disk.acts() >= second {
                            break;
                        }
                    }
                    upgrade.power_cut(loss);
                    cuts += 1;
                }
                upgrade.converges(&when);
            }
        }
    }
    count("power cuts", cuts, 2_000);
}

#[test]
fn every_act_may_fail_once_as_on_a_full_disk() {
    let mut faults = 0;
    for (linked, works) in MACHINES {
        for act in 1..=acts_of(linked, works) {
            let mut upgrade = Upgrade::new(linked, works);
            upgrade.shelf.disk.fail_at(act);
            upgrade.converges(&format!("linked {linked}, works {works}, act {act} failed"));
            faults += 1;
        }
    }
    count("faults", faults, 100);
}

#[test]
fn nothing_is_started_of_which_the_attempt_is_not_on_the_disk() {
    let start = |installed| Start { installed, boot: "0".to_owned(), at_s: 0 };
    let stage = |upgrade: &Upgrade| upgrade.shelf.state().expect("read").trial.expect("a trial").stage;
    let upgrade = Upgrade::intended();
    assert_eq!(upgrade.shelf.begin(start).expect("decided"), Next::Try(digest(&upgrade.new)));
    let acts = upgrade.shelf.disk.acts();
    assert!(matches!(stage(&upgrade), Stage::Begun { attempts: 1, .. }));
    for act in 1..=acts {
        let upgrade = Upgrade::intended();
        upgrade.shelf.disk.fail_at(act);
        assert!(upgrade.shelf.begin(start).is_err(), "act {act}");
        let stage = stage(&upgrade);
        assert_eq!(
            stage,
            Stage::Waiting { attempts: 0 },
            "act {act}: what is not tried does not count as tried"
        );
    }
}

fn refusal(upgrade: &Upgrade, wanted: &Digest) -> String {
    let why = upgrade.shelf.install(Path::new(SOURCE), wanted).expect_err("refused").to_string();
    assert!(!upgrade.shelf.has(wanted).expect("looked"), "{why}");
    let wanted = Paths::default().programs().join(wanted.hex());
    assert!(!upgrade.on_the_shelf().contains(&wanted), "{why}: nothing is left of it");
    why
}

#[test]
fn what_is_cut_short_of_another_digest_or_for_another_machine_is_refused_in_words() {
    let upgrade = Upgrade::new(false, true);
    let wanted = digest(&upgrade.new);
    upgrade.shelf.disk.put(SOURCE, &upgrade.new[..50]);
    let why = refusal(&upgrade, &wanted);
    assert!(why.starts_with("/srv/mesh-host has the digest sha256:") && why.contains("cut short"), "{why}");
    let mut other = upgrade.new.clone();
    other[18] = 183;
    upgrade.shelf.disk.put(SOURCE, &other);
    let why = refusal(&upgrade, &digest(&other));
    assert!(why.contains("aarch64") && why.contains("x86_64"), "{why}");
    upgrade.shelf.disk.put(SOURCE, b"#!/bin/sh\nexit 0 and so on");
    assert!(refusal(&upgrade, &wanted).contains("no program"));
    assert!(upgrade.shelf.install(Path::new("/srv/nothing"), &wanted).is_err());
    assert_eq!(upgrade.installed(), upgrade.old);
}

#[test]
fn a_copy_that_was_damaged_beside_is_not_started() {
    let mut upgrade = Upgrade::new(false, true);
    upgrade.live().expect("intended");
    let wanted = digest(&upgrade.new);
    upgrade.shelf.disk.put(&upgrade.shelf.beside(&wanted).display().to_string(), b"\x7fELF and then zeros");
    upgrade.live().expect("served");
    assert_eq!(upgrade.tries, 0);
    let why = &upgrade.shelf.state().expect("read").failed[0].why;
    assert!(why.contains("gone or damaged"), "{why}");
}

#[test]
fn a_memory_that_cannot_be_read_begins_nothing_and_says_so() {
    let mut upgrade = Upgrade::new(false, false);
    upgrade.live().expect("intended");
    upgrade.shelf.disk.put("/var/lib/mesh-host/upgrade.json", b"{\"trial\": ");
    let why = upgrade.live().expect_err("said").to_string();
    assert!(why.contains("/var/lib/mesh-host/upgrade.json") && upgrade.tries == 0, "{why}");
}

#[test]
fn forgetting_leaves_the_installed_program_alone() {
    for linked in [false, true] {
        let mut upgrade = Upgrade::new(linked, false);
        upgrade.converges("tried and failed");
        upgrade.shelf.forget().expect("forgotten");
        assert_eq!(upgrade.installed(), upgrade.old);
        assert_eq!(upgrade.on_the_shelf().len(), usize::from(linked));
        assert_eq!(upgrade.shelf.state().expect("read"), State::default());
    }
}
