//! What this program writes, byte for byte. A released file is never edited: a new form gets a new file.
//! `MESH_BLESS=1` writes the files anew; a file without a sample is rejected.

use std::{collections::BTreeMap, fs, path::Path};

use mesh_wire::{Alive, Declaration, Enrol, EnrolAnswer, EnrolReply, EnrolRequest, Report, Signed};
use serde::Serialize;

use crate::samples;

fn pretty(value: &impl Serialize) -> String {
    serde_json::to_string_pretty(value).unwrap() + "\n"
}

fn written() -> BTreeMap<String, String> {
    let mut files = BTreeMap::from([
        ("signed.json", pretty(&samples::signed())),
        ("declaration.json", pretty(&serde_json::to_value(samples::declaration()).unwrap())),
        ("kind-container-guarded.json", pretty(&samples::guarded_container())),
        ("kind-volume-released.json", pretty(&samples::released_volume())),
        ("kind-network-internal.json", pretty(&samples::internal_network())),
        ("kind-unit-drop-ins.json", pretty(&samples::unit_with_drop_ins())),
        ("kind-file-checked.json", pretty(&samples::checked_file())),
        // The very bytes that are signed, on one line.
        ("declaration.bytes", String::from_utf8(samples::declaration().to_bytes().unwrap()).unwrap()),
        ("alive.json", pretty(&samples::alive())),
        ("report.json", pretty(&samples::report())),
        ("resource-observed.json", pretty(&samples::observed())),
        ("token.txt", samples::token().to_text().unwrap() + "\n"),
        ("enrol-request.json", pretty(&samples::enrol_request())),
        ("enrol.json", pretty(&samples::enrol())),
        ("enrol-reply.json", pretty(&samples::enrol_reply())),
        ("enrol-refusal.json", pretty(&samples::enrol_refusal())),
        ("enrol-answer.json", pretty(&samples::enrol_answer())),
    ])
    .into_iter()
    .map(|(name, text)| (name.to_owned(), text))
    .collect::<BTreeMap<_, _>>();
    for resource in samples::resources() {
        files.insert(format!("kind-{}.json", resource.spec.kind()), pretty(&resource));
    }
    files
}

fn schemas() -> BTreeMap<String, String> {
    fn schema<T: schemars::JsonSchema>() -> String {
        pretty(&schemars::schema_for!(T))
    }
    BTreeMap::from([
        ("signed.json".to_owned(), schema::<Signed>()),
        ("declaration.json".to_owned(), schema::<Declaration>()),
        ("alive.json".to_owned(), schema::<Alive>()),
        ("report.json".to_owned(), schema::<Report>()),
        ("enrol.json".to_owned(), schema::<Enrol>()),
        ("enrol-request.json".to_owned(), schema::<EnrolRequest>()),
        ("enrol-answer.json".to_owned(), schema::<EnrolAnswer>()),
        ("enrol-reply.json".to_owned(), schema::<EnrolReply>()),
    ])
}

fn compare(folder: &Path, expected: &BTreeMap<String, String>) {
    if std::env::var_os("MESH_BLESS").is_some() {
        fs::create_dir_all(folder).unwrap();
        for (name, text) in expected {
            fs::write(folder.join(name), text).unwrap();
        }
    }
    for (name, text) in expected {
        let file = fs::read_to_string(folder.join(name)).unwrap_or_default();
        assert_eq!(&file, text, "{name} is not what this program writes (MESH_BLESS=1 writes it anew)");
    }
    for entry in fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(expected.contains_key(&name), "{name} in {} belongs to no sample", folder.display());
    }
}

#[test]
fn every_form_is_written_as_its_golden_file_says() {
    compare(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/written"), &written());
}

#[test]
fn the_committed_schemas_are_those_of_the_types() {
    compare(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema/wire"), &schemas());
}

#[test]
fn what_is_written_is_read_as_it_was() {
    for resource in samples::resources().into_iter().chain([
        samples::guarded_container(),
        samples::released_volume(),
        samples::internal_network(),
    ]) {
        let json = serde_json::to_string(&resource).unwrap();
        assert_eq!(mesh_wire::Resource::read(&json, 0), Ok(resource));
    }
}

#[test]
fn every_kind_has_a_golden_file() {
    for kind in mesh_wire::Kind::ALL {
        assert!(written().contains_key(&format!("kind-{kind}.json")), "{kind}");
    }
}
