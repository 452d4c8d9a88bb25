//! Every event as it stands in a record, in a file of its own: `tests/golden/CONTEXT/KIND.json`. A file that was committed
//! is never edited: another shape is another version, and the old one stays readable by an upcast in its context.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::{collections::BTreeSet, fmt::Debug, path::PathBuf};

use mesh_events::{IdentityEvent, InventoryEvent, Stage};
use mesh_ids::{Digest, Epoch, Fingerprint, Generation, NodeName, Position, Sequence, Timestamp};
use serde::{Serialize, de::DeserializeOwned};

fn node() -> NodeName {
    "node-2".parse().unwrap()
}

fn position() -> Position {
    Position { epoch: Epoch::new(1), generation: Generation::new(2), sequence: Sequence::new(3) }
}

fn key() -> Fingerprint {
    Fingerprint::of_sha256([7; 32])
}

fn identity() -> Vec<IdentityEvent> {
    let labels = || [("role".to_owned(), "edge".to_owned())].into();
    let (expires, by) = (Timestamp::from_unix_s(1_800_000_000), "admin".to_owned());
    vec![
        IdentityEvent::NodeInvited { node: node(), expires, labels: labels(), by: by.clone() },
        IdentityEvent::InvitationEnded { node: node(), replaced: true },
        IdentityEvent::NodeJoined {
            node: node(),
            key: key(),
            labels: labels(),
            host_version: "0.1.0".to_owned(),
        },
        IdentityEvent::JoinTokenReused { node: node(), key: key() },
        IdentityEvent::NodeRemoved { node: node(), by: by.clone() },
        IdentityEvent::DeclarationIssued {
            node: node(),
            position: position(),
            stage: Stage::Foundation,
            resources: 0,
        },
        IdentityEvent::GenerationRaised { node: node(), generation: Generation::new(2), by },
    ]
}

fn inventory() -> Vec<InventoryEvent> {
    let (module, last_heard) = (|| "hello".parse().unwrap(), Timestamp::from_unix_s(1_800_000_000));
    let resource = || "hello/file:/etc/hello.conf".parse().unwrap();
    vec![
        InventoryEvent::NodeConnected { node: node(), silent_for_ms: Some(61_000) },
        InventoryEvent::NodeQuiet { node: node(), last_heard },
        InventoryEvent::NodeUnreachable { node: node(), last_heard },
        InventoryEvent::NodeReported {
            node: node(),
            position: Some(position()),
            applied: 2,
            failed: [("hello/container:web".to_owned(), "the port 8080 is taken".to_owned())].into(),
            refused: String::new(),
        },
        InventoryEvent::NodeUndeclared { node: node(), reason: "it is larger than a host reads".to_owned() },
        InventoryEvent::DriftFound {
            node: node(),
            resource: resource(),
            module: Some(module()),
            number: 4,
            noticed: last_heard,
            found: vec!["write /etc/hello.conf".to_owned()],
        },
        InventoryEvent::DriftRepaired {
            node: node(),
            resource: resource(),
            module: Some(module()),
            number: 4,
            repaired: last_heard,
        },
        InventoryEvent::ModuleApplied {
            module: module(),
            version: "1.0.0".parse().unwrap(),
            digest: Digest::of_sha256([1; 32]),
            nodes: vec![node()],
            changed: vec![node()],
            by: "admin".to_owned(),
        },
        InventoryEvent::ModulePlaced { module: module(), nodes: vec![node()], changed: vec![node()] },
        InventoryEvent::ModuleRemoved { module: module(), changed: vec![node()], by: "admin".to_owned() },
    ]
}

/// Compares each event with its golden file, both ways, and looks for files that no event has.
fn check<E: Serialize + DeserializeOwned + PartialEq + Debug>(
    context: &str,
    events: &[E],
    name: impl Fn(&E) -> &'static str,
) {
    let folder: PathBuf = [env!("CARGO_MANIFEST_DIR"), "tests", "golden", context].iter().collect();
    let mut known = BTreeSet::new();
    for event in events {
        let mut text = serde_json::to_string_pretty(event).unwrap();
        text.push('\n');
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        let (kind, version) = value["kind"].as_str().unwrap().split_once('/').unwrap();
        assert_eq!(kind, name(event), "the name of an event is its kind without the version");
        let file = format!("{kind}.{version}.json");
        let path = folder.join(&file);
        if !path.exists() && std::env::var_os("MESH_BLESS").is_some() {
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(&path, &text).unwrap();
        }
        let golden =
            std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert_eq!(golden, text, "{file}: another shape is another version");
        assert_eq!(&serde_json::from_str::<E>(&golden).unwrap(), event, "{file}");
        assert!(known.insert(file.clone()), "{file} is there twice");
    }
    for entry in std::fs::read_dir(&folder).unwrap() {
        let file = entry.unwrap().file_name().into_string().unwrap();
        assert!(known.contains(&file), "{file} is no event's: is its version still read by anything?");
    }
}

#[test]
fn events_of_identity_are_as_they_were_written() {
    check("identity", &identity(), IdentityEvent::name);
}

#[test]
fn events_of_inventory_are_as_they_were_written() {
    check("inventory", &inventory(), InventoryEvent::name);
}

#[test]
fn an_event_tells_itself_in_a_sentence() {
    let told: Vec<String> = identity()
        .iter()
        .map(ToString::to_string)
        .chain(inventory().iter().map(ToString::to_string))
        .collect();
    assert!(told.contains(&"admin applied hello 1.0.0: changes node-2".to_owned()), "{told:#?}");
    assert!(
        told.contains(&"node-2 applied 2 resources; failed: hello/container:web".to_owned()),
        "{told:#?}"
    );
    assert!(told.contains(&"node-2 is heard again after 61 s".to_owned()), "{told:#?}");
}

#[test]
fn an_event_nobody_knows_is_refused() {
    assert!(serde_json::from_str::<InventoryEvent>("{\"kind\":\"node_quiet/9\"}").is_err());
}
