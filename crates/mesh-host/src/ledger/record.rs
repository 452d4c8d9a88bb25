//! What the ledger remembers, one record at a time. Every released form stays readable: this crate's
//! `tests/golden/ledger/` holds one of each, and what has to be read out of it.

use std::{collections::BTreeMap, fmt, str::FromStr as _};

use mesh_ids::{Digest, Position, ResourceId};
use mesh_wire::{Drift, Resource, Signed};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use super::Note;

/// Who put a resource on the machine. Neither removes the other's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The bundle, or a file on the machine.
    #[default]
    Carried,
    /// The mesh.
    Assigned,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Carried => "carried",
            Self::Assigned => "assigned",
        })
    }
}

/// What is remembered of one resource, from before it is first touched until it is removed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Whose it is.
    pub origin: Origin,
    /// What is, or is being, applied.
    #[serde(deserialize_with = "resource")]
    pub resource: Resource,
    /// Whether that is complete: not so from before the first step until after the last one.
    pub complete: bool,
    /// What stood there before, in the form of its kind.
    pub before: serde_json::Value,
    /// Its place in the order of application: what is removed is removed in the reverse of it.
    pub place: u64,
    /// The number of its last change. Rises over all resources, so that two are never the same.
    pub changed: u64,
    /// Of the resources it is restarted for: the change each of them had when it was last started.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub seen: BTreeMap<ResourceId, u64>,
    /// Whether a restart was begun and is not known to be done.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub restarting: bool,
    /// The drift that is being repaired, by number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drift: Option<u64>,
}

/// Something to remember.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Record {
    /// A declaration was accepted.
    Accepted {
        /// The frame as it arrived. It verified, so it is JSON.
        frame: String,
        /// When it was issued.
        issued: i64,
    },
    /// The mesh was left: nothing is assigned, and its clock says nothing any more.
    Left,
    /// What the machine carries.
    Carried {
        /// All of it, in order.
        #[serde(deserialize_with = "resources")]
        resources: Vec<Resource>,
    },
    /// A resource is about to be touched, or removed.
    Entry(Box<Entry>),
    /// Every step of a resource is done.
    Completed {
        /// Whose.
        origin: Origin,
        /// Which.
        id: ResourceId,
        /// As in [`Entry::seen`].
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        seen: BTreeMap<ResourceId, u64>,
    },
    /// A resource is gone, and what stood there before is back.
    Removed {
        /// Whose.
        origin: Origin,
        /// Which.
        id: ResourceId,
    },
    /// Something was found other than declared; said again when it is put right.
    Drift(Drift),
    /// A resource that is only observed was found other than declared.
    Differs {
        /// Whose.
        origin: Origin,
        /// What was found.
        drift: Drift,
        /// Whether a confirmed report said so.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        told: bool,
    },
    /// It no longer is, or is no longer observed.
    Agrees {
        /// Whose.
        origin: Origin,
        /// Which.
        id: ResourceId,
        /// Since when, in seconds since 1970-01-01 UTC.
        at: i64,
    },
    /// The broker confirmed a report that said these drifts as they are known now.
    Delivered {
        /// Their numbers.
        numbers: Vec<u64>,
    },
    /// The ledger was begun anew from one that could not be read. These copies of what stood there before were on the
    /// machine then. They stay, whether or not something remembered refers to them: what did may be lost.
    Salvaged {
        /// All of them.
        kept: Vec<Digest>,
    },
    /// The accepted declaration may not be the newest that was followed: it is not applied, and only a higher generation
    /// is followed. Until the next one is accepted.
    Doubted,
    /// Something that helps a person, and that nothing depends on.
    Note(Note),
    /// Numbers that are taken.
    Counted {
        /// Of reports.
        #[serde(default)]
        reports: u64,
        /// Of drift.
        #[serde(default)]
        drift: u64,
        /// Of changes.
        #[serde(default)]
        change: u64,
        /// The earliest it can be, in seconds since 1970-01-01 UTC.
        #[serde(default)]
        floor: i64,
    },
}

/// Reads a resource from its own text. Its own way of reading, which is for every format, takes twice the time, and the
/// ledger is read whole whenever the host starts.
fn resource<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Resource, D::Error> {
    read_resource(&Box::<RawValue>::deserialize(deserializer)?)
}

fn resources<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Resource>, D::Error> {
    Vec::<Box<RawValue>>::deserialize(deserializer)?.iter().map(|raw| read_resource(raw)).collect()
}

fn read_resource<E: serde::de::Error>(raw: &RawValue) -> Result<Resource, E> {
    Resource::read(raw.get(), 0).map_err(|error| E::custom(format!("{}: {}", error.id, error.reason)))
}

/// The position in a frame, without judging it: only where the frame, or the ledger around it, cannot be trusted.
pub fn position_in(frame: &str) -> Option<Position> {
    #[derive(Deserialize)]
    struct Placed {
        epoch: u64,
        generation: u64,
        sequence: u64,
    }
    let signed: Signed = serde_json::from_str(frame).ok()?;
    let placed: Placed = serde_json::from_slice(&signed.declaration).ok()?;
    Some(Position {
        epoch: mesh_ids::Epoch::new(placed.epoch),
        generation: mesh_ids::Generation::new(placed.generation),
        sequence: mesh_ids::Sequence::new(placed.sequence),
    })
}

/// Collects the digests in a value, whatever the kind that wrote it.
pub(super) fn digests_in(value: &serde_json::Value, found: &mut Vec<Digest>) {
    match value {
        serde_json::Value::String(text) => found.extend(Digest::from_str(text)),
        serde_json::Value::Array(values) => values.iter().for_each(|value| digests_in(value, found)),
        serde_json::Value::Object(members) => members.values().for_each(|value| digests_in(value, found)),
        _ => {}
    }
}
