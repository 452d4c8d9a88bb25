//! What the host has to remember, in its own store. Written before every act it describes; never reset to nothing.
//!
//! One file ([`journal`]): what happened is appended, and now and then the file is replaced by a snapshot of what still
//! counts. [`Ledger::write`] alone makes nothing durable: [`Ledger::commit`] does, once for everything before it. A
//! ledger that cannot be read stays as it is; the host then applies nothing until a higher generation, or a person at the
//! machine, begins a new one from what could still be read ([`salvage`]).

mod disk;
mod failing;
mod journal;
mod lock;
mod record;
mod salvage;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, VecDeque},
    path::Path,
};

use disk::Glance;
pub use disk::{Disk, Folder};
pub use failing::{Failing, Note, Since};
use journal::Chain;
pub use journal::FORMAT;
pub use lock::{Held, Lock};
use mesh_ids::{Digest, Epoch, Generation, Position, ResourceId};
use mesh_wire::{Drift, MAX_DRIFT, Resource};
pub use record::{Entry, Origin, Record, position_in};

use crate::failure::{During as _, Failure};

/// A journal is not replaced by its snapshot while it is smaller than this.
const SMALL: usize = 256 * 1024;

/// What is remembered.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Memory {
    /// The accepted declaration: the frame as it arrived.
    pub accepted: Option<String>,
    /// What the machine carries, in order.
    pub carried: Vec<Resource>,
    /// Every resource that was ever touched and not yet removed.
    pub entries: BTreeMap<(Origin, ResourceId), Entry>,
    /// Drift that no confirmed report carried yet, oldest first.
    pub drift: VecDeque<Drift>,
    /// What was found of resources that are only observed, for as long as it stands.
    pub standing: BTreeMap<(Origin, ResourceId), Drift>,
    /// The number of the last drift.
    pub last_drift: u64,
    /// The number of the last change of a resource, or of the last place in the order of application.
    pub last_change: u64,
    /// Reports are numbered above this.
    pub reports: u64,
    /// No declaration that verified was issued later than this: the earliest it can be now.
    pub floor: i64,
    /// Whether [`Self::accepted`] may not be the newest that was followed.
    pub doubted: bool,
    /// Copies that stay, whoever refers to them.
    pub salvaged: Vec<Digest>,
    /// What fails, since when, and with what it began.
    pub failing: Failing,
}

/// What is noted beside the ledger: that there is one, and the generation that was followed.
type Followed = Option<(Epoch, Generation)>;

/// The ledger.
pub struct Ledger {
    disk: Box<dyn Disk>,
    /// As it is noted; `None` where nothing is.
    begun: Option<Followed>,
    state: State,
    memory: Memory,
    chain: Chain,
    /// How long the file is, how much of it is durable, and how long its snapshot was.
    length: u64,
    synced: u64,
    snapshot: u64,
    syncs: u64,
}

#[derive(Debug, Clone, PartialEq)]
enum State {
    Readable,
    /// `left`: what could still be read; `None` where a newer host wrote it.
    Unreadable {
        reason: String,
        known: Option<Position>,
        left: Option<Box<Memory>>,
    },
}

impl Ledger {
    /// Opens the ledger, or begins one where there never was any. A ledger that cannot be read is opened as such, and so
    /// is one that is gone.
    pub fn open(mut disk: Box<dyn Disk>) -> Result<Self, Failure> {
        let bytes = disk.read().during("read the ledger")?;
        let begun = disk.begun().during("see whether there was a ledger")?.map(|words| read_followed(&words));
        let mut ledger = Self {
            disk,
            begun,
            state: State::Readable,
            memory: Memory::default(),
            chain: journal::snapshot([]).1,
            length: 0,
            synced: 0,
            snapshot: 0,
            syncs: 0,
        };
        match (bytes, begun) {
            (None, Some(followed)) => ledger.state = salvage::gone(followed.map(position_of)),
            (None, None) => {
                ledger.replace()?;
                ledger.note(None)?;
            }
            (Some(bytes), _) => {
                ledger.load(&bytes)?;
                if begun.is_none() {
                    // It was begun, and a kill or an older host left it at that.
                    ledger.note(ledger.followed())?;
                }
            }
        }
        Ok(ledger)
    }

    /// Looks at the ledger in this folder without writing to it and without waiting for who does; none where there is
    /// none and, by the note beside it, never was one.
    pub fn glance(folder: &Path, note: &Path) -> Result<Option<Self>, Failure> {
        let mut disk = Box::new(Glance { folder: folder.to_owned(), note: note.to_owned() });
        let never = disk.begun().during("see whether there was a ledger")?.is_none();
        if never && disk.read().during("read the ledger")?.is_none() {
            return Ok(None);
        }
        Self::open(disk).map(Some)
    }

    /// The generation of what was accepted last.
    fn followed(&self) -> Followed {
        let position = self.memory.accepted.as_deref().and_then(position_in);
        position.map(|position| (position.epoch, position.generation))
    }

    /// Notes beside the ledger that there is one, and what it followed, so that a ledger that is gone is not taken for one
    /// that never was.
    fn note(&mut self, followed: Followed) -> Result<(), Failure> {
        if self.begun != Some(followed) {
            self.disk.begin(&write_followed(followed)).during("note beside the ledger that there is one")?;
            self.begun = Some(followed);
        }
        Ok(())
    }

    fn load(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let read = match journal::read(bytes) {
            Ok(read) => read,
            Err(damaged) => {
                self.state = salvage::unreadable(damaged.reason, damaged.left);
                return Ok(());
            }
        };
        for payload in &read.payloads {
            match serde_json::from_slice::<Record>(payload) {
                Ok(record) => self.memory.take(record),
                Err(error) => {
                    let whole = read.payloads.iter().map(|payload| journal::Piece::Whole(payload)).collect();
                    self.state =
                        salvage::unreadable(format!("a record cannot be read: {error}"), Some(whole));
                    self.memory = Memory::default();
                    return Ok(());
                }
            }
        }
        (self.chain, self.length, self.synced) = (read.chain, read.good as u64, read.good as u64);
        if self.length < bytes.len() as u64 {
            tracing::warn!(
                bytes = bytes.len() as u64 - self.length,
                "the end of the ledger was torn by a power cut and is dropped"
            );
            self.disk.truncate(self.length).during("cut the torn end off the ledger")?;
            self.sync();
        }
        Ok(())
    }

    /// Why the ledger cannot be read, and the last position that could be; `None` where it can be read.
    pub fn unreadable(&self) -> Option<(&str, Option<Position>)> {
        match &self.state {
            State::Readable => None,
            State::Unreadable { reason, known, .. } => Some((reason, *known)),
        }
    }

    /// What could still be read of a ledger that cannot be read; not to be acted upon.
    pub fn left(&self) -> Option<&Memory> {
        match &self.state {
            State::Readable => None,
            State::Unreadable { left, .. } => left.as_deref(),
        }
    }

    /// What it says of a mesh, also where it cannot be read whole: the machine was told something by one, and did not
    /// leave it.
    pub fn knows_a_mesh(&self) -> bool {
        let memory = self.left().unwrap_or(&self.memory);
        let known = self.unreadable().is_some_and(|(_, known)| known.is_some());
        known || memory.accepted.is_some() || memory.entries.keys().any(|(of, _)| *of == Origin::Assigned)
    }

    /// Whether the machine carries anything, also where the ledger cannot be read whole.
    pub fn carries(&self) -> bool {
        let memory = self.left().unwrap_or(&self.memory);
        !memory.carried.is_empty() || memory.entries.keys().any(|(of, _)| *of == Origin::Carried)
    }

    /// What is remembered; nothing where the ledger cannot be read.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Sets the unreadable ledger aside, for a person to look at, and begins a new one from what could still be read and
    /// these records. The old one is in place until the new one is whole: nothing is forgotten in between.
    pub fn begin_anew(&mut self, records: impl IntoIterator<Item = Record>) -> Result<(), Failure> {
        let Some(left) = self.left() else {
            return Err(Failure::new(
                "the ledger was written by a newer mesh-host: install that version again",
            ));
        };
        let mut memory = left.clone();
        records.into_iter().for_each(|record| memory.take(record));
        self.disk.set_aside().during("set the unreadable ledger aside")?;
        self.replace_by(&memory)?;
        self.memory = memory;
        self.state = State::Readable;
        self.note(self.followed())
    }

    /// Whether no other process wrote the ledger since this one read it.
    pub fn is_ours(&mut self) -> Result<bool, Failure> {
        self.disk.is_ours().during("look at the ledger")
    }

    /// Remembers these. Durable after the next [`Self::commit`].
    pub fn write(&mut self, records: impl IntoIterator<Item = Record>) -> Result<(), Failure> {
        if let State::Unreadable { reason, .. } = &self.state {
            return Err(Failure::new(format!("write the ledger: it cannot be read: {reason}")));
        }
        let (mut bytes, mut chain) = (Vec::new(), self.chain);
        let records: Vec<Record> = records.into_iter().collect();
        for record in &records {
            let payload = serde_json::to_vec(record).during("write the ledger")?;
            chain = journal::append(&mut bytes, chain, self.synced, &payload);
        }
        if bytes.is_empty() {
            return Ok(());
        }
        if let Err(error) = self.disk.append(&bytes) {
            // Half a record may be there now. Nothing may be appended behind it.
            if let Err(second) = self.disk.truncate(self.length) {
                let reason = format!("an append failed ({error}) and could not be undone ({second})");
                self.state = salvage::interrupted(reason, std::mem::take(&mut self.memory));
            }
            return Err(Failure::of("write the ledger", &error));
        }
        self.chain = chain;
        self.length += bytes.len() as u64;
        for record in records {
            self.memory.take(record);
        }
        Ok(())
    }

    /// Makes everything that was written durable.
    pub fn commit(&mut self) -> Result<(), Failure> {
        if self.synced == self.length {
            return Ok(());
        }
        let made_durable = self.make_durable();
        made_durable.and_then(|()| self.note(self.followed()))
    }

    fn make_durable(&mut self) -> Result<(), Failure> {
        if self.length > SMALL as u64 && self.length > 4 * self.snapshot {
            return self.replace();
        }
        self.sync();
        Ok(())
    }

    /// Replaces the file by a snapshot of what is remembered.
    fn replace(&mut self) -> Result<(), Failure> {
        let memory = std::mem::take(&mut self.memory);
        let outcome = self.replace_by(&memory);
        self.memory = memory;
        outcome
    }

    fn replace_by(&mut self, memory: &Memory) -> Result<(), Failure> {
        let payloads = memory.records().iter().map(serde_json::to_vec).collect::<Result<Vec<_>, _>>();
        let payloads = payloads.during("write the ledger")?;
        let (bytes, chain) = journal::snapshot(payloads.iter().map(Vec::as_slice));
        self.disk.replace(&bytes).during("write the ledger")?;
        self.syncs += 3;
        self.chain = chain;
        self.length = bytes.len() as u64;
        (self.synced, self.snapshot) = (self.length, self.length);
        Ok(())
    }

    /// # Panics
    /// When the disk does not confirm: what it then holds is not known, and only reading it again tells.
    fn sync(&mut self) {
        self.syncs += 1;
        if let Err(error) = self.disk.sync() {
            panic!("the ledger could not be made durable: {error}");
        }
        self.synced = self.length;
    }

    /// Replaces the file by a snapshot now.
    #[cfg(test)]
    pub(crate) fn snapshot_now(&mut self) {
        self.replace().expect("a snapshot");
    }

    /// How many bytes its file has; 0 where it cannot be read.
    pub fn size(&self) -> u64 {
        self.length
    }

    /// How often the disk was asked to make something durable, since the ledger was opened.
    pub fn syncs(&self) -> u64 {
        self.syncs
    }
}

/// As [`write_followed`] wrote it. What cannot be read says no more than that there was a ledger.
fn read_followed(words: &str) -> Followed {
    let (epoch, generation) = words.trim().split_once('.')?;
    Some((Epoch::new(epoch.parse().ok()?), Generation::new(generation.parse().ok()?)))
}

fn write_followed(followed: Followed) -> String {
    followed
        .map_or_else(|| "nothing yet\n".to_owned(), |(epoch, generation)| format!("{epoch}.{generation}\n"))
}

fn position_of((epoch, generation): (Epoch, Generation)) -> Position {
    Position { epoch, generation, ..Position::default() }
}

impl Memory {
    /// The next number for a change.
    pub fn next_change(&self) -> u64 {
        self.last_change + 1
    }

    /// Every digest that something remembered refers to.
    pub fn digests(&self) -> Vec<Digest> {
        let mut found = Vec::new();
        self.entries.values().for_each(|entry| record::digests_in(&entry.before, &mut found));
        found.extend(self.salvaged.iter().cloned());
        found
    }

    /// Takes in what happened.
    pub(crate) fn take(&mut self, record: Record) {
        match record {
            Record::Accepted { frame, issued } => {
                self.accepted = Some(frame);
                self.doubted = false;
                self.floor = self.floor.max(issued);
            }
            Record::Left => (self.accepted, self.floor, self.doubted) = (None, 0, false),
            Record::Doubted => self.doubted = true,
            Record::Salvaged { kept } => self.salvaged = kept,
            Record::Carried { resources } => self.carried = resources,
            Record::Entry(entry) => {
                self.last_change = self.last_change.max(entry.changed).max(entry.place);
                self.take_seen(&entry.seen);
                self.entries.insert((entry.origin, entry.resource.id.clone()), *entry);
            }
            Record::Completed { origin, id, seen } => {
                self.take_seen(&seen);
                if let Some(entry) = self.entries.get_mut(&(origin, id)) {
                    entry.complete = true;
                    entry.restarting = false;
                    entry.drift = None;
                    entry.seen = seen;
                }
            }
            Record::Removed { origin, id } => {
                self.entries.remove(&(origin, id));
            }
            Record::Drift(drift) => self.take_drift(drift),
            Record::Differs { origin, drift, told } => {
                self.last_drift = self.last_drift.max(drift.number);
                self.standing.insert((origin, drift.resource.clone()), drift.clone());
                if !told {
                    self.take_drift(drift);
                }
            }
            Record::Agrees { origin, id, at } => {
                if let Some(drift) = self.standing.remove(&(origin, id)) {
                    self.take_drift(Drift { repaired_at: Some(at), ..drift });
                }
            }
            Record::Delivered { numbers } => {
                // What is still being repaired is said again, once it is.
                let open = |number| self.entries.values().any(|entry| entry.drift == Some(number));
                self.drift.retain(|drift| !numbers.contains(&drift.number) || open(drift.number));
            }
            Record::Note(note) => failing::take(&mut self.failing, note),
            Record::Counted { reports, drift, change, floor } => {
                self.reports = self.reports.max(reports);
                self.last_drift = self.last_drift.max(drift);
                self.last_change = self.last_change.max(change);
                self.floor = self.floor.max(floor);
            }
        }
    }

    /// What was seen may be gone from a ledger that was begun anew; its number is not used again all the same.
    fn take_seen(&mut self, seen: &BTreeMap<ResourceId, u64>) {
        self.last_change = seen.values().copied().fold(self.last_change, u64::max);
    }

    fn take_drift(&mut self, drift: Drift) {
        self.last_drift = self.last_drift.max(drift.number);
        match self.drift.iter_mut().find(|known| known.number == drift.number) {
            Some(known) => *known = drift,
            None => self.drift.push_back(drift),
        }
        while self.drift.len() > MAX_DRIFT {
            self.drift.pop_front();
        }
    }

    /// The records from which this comes out again.
    fn records(&self) -> Vec<Record> {
        let mut records = vec![Record::Counted {
            reports: self.reports,
            drift: self.last_drift,
            change: self.last_change,
            floor: self.floor,
        }];
        // The time floor is in the counters already.
        let accepted = self.accepted.clone().map(|frame| Record::Accepted { frame, issued: i64::MIN });
        records.extend(accepted);
        records.extend(self.doubted.then_some(Record::Doubted));
        if !self.salvaged.is_empty() {
            records.push(Record::Salvaged { kept: self.salvaged.clone() });
        }
        if !self.carried.is_empty() {
            records.push(Record::Carried { resources: self.carried.clone() });
        }
        records.extend(self.entries.values().cloned().map(|entry| Record::Entry(Box::new(entry))));
        records.extend(self.standing.iter().map(|((origin, _), drift)| Record::Differs {
            origin: *origin,
            drift: drift.clone(),
            told: true,
        }));
        records.extend(self.drift.iter().cloned().map(Record::Drift));
        records.extend(failing::notes(&self.failing).map(Record::Note));
        records
    }
}
