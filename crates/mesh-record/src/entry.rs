//! One entry of a record, and the way between an event and the row that holds it.
//!
//! An event is written as a JSON object whose `kind` names what happened and in which shape: a changed shape gets a
//! new kind (`node-joined`, then `node-joined/2`), and an [`Upcast`] lifts the old one when it is read.
//! Never touches a database.
//! Called by: `append` and `read`.

use std::fmt;
use std::time::{Duration, SystemTime};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What a record may hold: a type that serde writes as an object with a string field `kind`, such as an enum under
/// `#[serde(tag = "kind")]`.
pub trait Event: Serialize + DeserializeOwned + Send + Sync + 'static {}

impl<T: Serialize + DeserializeOwned + Send + Sync + 'static> Event for T {}

/// A place in one context's record: 1 is its first entry, and 0 stands before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RecordPosition(u64);

impl RecordPosition {
    /// Before the first entry.
    pub const START: Self = Self(0);

    /// The position with this number.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// Its number.
    pub const fn get(self) -> u64 {
        self.0
    }

    pub(crate) fn follows(self, before: Self) -> bool {
        before.0.checked_add(1) == Some(self.0)
    }

    /// PostgreSQL has no unsigned numbers. A position that does not fit names no entry, and asking for what comes
    /// after the largest one finds nothing, which is true.
    pub(crate) fn to_sql(self) -> i64 {
        i64::try_from(self.0).unwrap_or(i64::MAX)
    }

    /// Never negative: the tables check it.
    pub(crate) fn from_sql(number: i64) -> Self {
        Self(number.unsigned_abs())
    }
}

impl fmt::Display for RecordPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Something that happened: where in the record, when, and what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry<E> {
    /// Its place in the owner's record.
    pub position: RecordPosition,
    /// When the owner says it happened, to the microsecond.
    pub at: SystemTime,
    /// The kind it was written under, before any [`Upcast`].
    pub kind: String,
    /// What happened.
    pub event: E,
}

/// Lifts an event of an old shape: read under `kind`, it becomes what `lift` returns, under that object's own kind.
#[derive(Clone, Copy, Debug)]
pub struct Upcast {
    /// The old kind.
    pub kind: &'static str,
    /// Makes a newer shape of it; `Err` says why it cannot.
    pub lift: fn(Object) -> Result<Object, String>,
}

/// An event as it is stored.
pub type Object = Map<String, Value>;

/// The kind and the object of an event; `Err` says why it cannot be written.
pub(crate) fn encode<E: Event>(event: &E) -> Result<(String, Value), String> {
    let value = serde_json::to_value(event).map_err(|why| why.to_string())?;
    match value.get("kind") {
        Some(Value::String(kind)) => Ok((kind.clone(), value)),
        _ => Err("it is not an object with a string field `kind`".to_owned()),
    }
}

/// The event in a stored object; `Err` says why it cannot be read.
pub(crate) fn decode<E: Event>(value: Value, upcasts: &[Upcast]) -> Result<E, String> {
    let Value::Object(mut object) = value else { return Err("it is not an object".to_owned()) };
    // Each lift leads to another kind; more lifts than there are would be going round in a circle.
    for _ in 0..=upcasts.len() {
        let Some(upcast) =
            object.get("kind").and_then(|kind| upcasts.iter().find(|upcast| kind == upcast.kind))
        else {
            return serde_json::from_value(Value::Object(object)).map_err(|why| why.to_string());
        };
        object = (upcast.lift)(object)?;
    }
    Err("its upcasts go round in a circle".to_owned())
}

/// Microseconds since 1970, as PostgreSQL counts.
pub(crate) fn to_micros(at: SystemTime) -> Result<i64, String> {
    let since =
        at.duration_since(SystemTime::UNIX_EPOCH).map_err(|_| "its time is before 1970".to_owned())?;
    i64::try_from(since.as_micros()).map_err(|_| "its time is too far ahead".to_owned())
}

pub(crate) fn from_micros(micros: i64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_micros(micros.unsigned_abs())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use serde_json::json;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    #[serde(tag = "kind", rename_all = "kebab-case")]
    enum Happened {
        #[serde(rename = "node-joined/3")]
        NodeJoined { node: String, labels: Vec<String> },
    }

    const UPCASTS: &[Upcast] = &[
        Upcast {
            kind: "node-joined",
            lift: |mut object| {
                let name = object.remove("name").ok_or("it has no name")?;
                object.insert("node".into(), name);
                object.insert("kind".into(), "node-joined/2".into());
                Ok(object)
            },
        },
        Upcast {
            kind: "node-joined/2",
            lift: |mut object| {
                object.insert("labels".into(), json!([]));
                object.insert("kind".into(), "node-joined/3".into());
                Ok(object)
            },
        },
    ];

    fn joined() -> Happened {
        Happened::NodeJoined { node: "anvil".to_owned(), labels: Vec::new() }
    }

    #[test]
    fn an_event_is_written_under_its_own_kind_and_read_back() {
        let (kind, value) = encode(&joined()).unwrap();
        assert_eq!(kind, "node-joined/3");
        assert_eq!(decode::<Happened>(value, UPCASTS), Ok(joined()));
    }

    #[test]
    fn an_old_shape_is_lifted_step_by_step() {
        for old in [
            json!({"kind": "node-joined", "name": "anvil"}),
            json!({"kind": "node-joined/2", "node": "anvil"}),
        ] {
            assert_eq!(decode::<Happened>(old, UPCASTS), Ok(joined()));
        }
        let why = decode::<Happened>(json!({"kind": "node-joined"}), UPCASTS).unwrap_err();
        assert_eq!(why, "it has no name");
    }

    #[test]
    fn what_nobody_knows_is_said_and_not_guessed() {
        let why = decode::<Happened>(json!({"kind": "node-flew"}), UPCASTS).unwrap_err();
        assert!(why.contains("unknown variant `node-flew`"), "{why}");
        assert_eq!(decode::<Happened>(json!([1]), UPCASTS).unwrap_err(), "it is not an object");
        let circle = [Upcast { kind: "node-joined", lift: Ok }];
        let why = decode::<Happened>(json!({"kind": "node-joined"}), &circle).unwrap_err();
        assert_eq!(why, "its upcasts go round in a circle");
    }

    #[test]
    fn an_event_without_a_kind_cannot_be_written() {
        assert!(encode(&json!({"node": "anvil"})).unwrap_err().contains("`kind`"));
        assert!(encode(&json!({"kind": 1})).is_err());
        assert!(encode(&json!("kind")).is_err());
    }

    #[test]
    fn times_keep_their_microseconds_and_nothing_before_1970_passes() {
        let at = SystemTime::UNIX_EPOCH + Duration::new(1_900_000_000, 123_456_000);
        assert_eq!(from_micros(to_micros(at).unwrap()), at);
        assert!(to_micros(SystemTime::UNIX_EPOCH - Duration::from_secs(1)).is_err());
    }
}
