//! The same forms as another program writes them: other key order, other spacing, empties omitted or spelled out,
//! members this program does not know.

use mesh_ids::NodeName;
use mesh_wire::{Alive, Declaration, JoinToken, Report, Resource, Signed, Spec};

use crate::samples;

fn file(name: &str) -> String {
    let path = format!("{}/tests/golden/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"))
}

#[test]
fn a_report_of_the_first_shape_alone_is_read() {
    let report: Report = serde_json::from_str(&file("foreign/report-first-shape.json")).unwrap();
    let expected = Report {
        applied: vec!["file:/etc/motd".into(), "unit:a b".into()],
        carried: vec![5432, 5671],
        ..Report::new("node-1".parse().unwrap())
    };
    assert_eq!(report, expected);
}

#[test]
fn a_report_with_empties_spelled_out_reads_as_one_without() {
    let report: Report = serde_json::from_str(&file("foreign/report-spelled-out.json")).unwrap();
    assert_eq!(report, Report::new("node-1".parse().unwrap()));
    assert_eq!(serde_json::to_string(&report).unwrap(), r#"{"node":"node-1"}"#);
}

#[test]
fn a_report_with_members_of_a_newer_node_is_read() {
    let report: Report = serde_json::from_str(&file("foreign/report-newer.json")).unwrap();
    assert_eq!(report.refused, "read the declaration");
}

#[test]
fn a_heartbeat_of_the_first_shape_is_read() {
    let node: NodeName = "node-1".parse().unwrap();
    let alive: Alive = serde_json::from_str(" {\n\t\"node\" : \"node-1\" } ").unwrap();
    assert_eq!(alive, Alive { node, accepted: None });
}

#[test]
fn the_members_of_the_first_shapes_are_named_as_they_always_were() {
    let names = |json: serde_json::Value| json.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(serde_json::to_value(samples::signed()).unwrap()), ["declaration", "signature"]);
    let report = names(serde_json::to_value(samples::report()).unwrap());
    for name in ["node", "applied", "failed", "refused", "carried"] {
        assert!(report.contains(&name.to_owned()), "{name}");
    }
}

#[test]
fn a_frame_in_another_spelling_carries_the_same_bytes() {
    let signed = samples::signed();
    let json = serde_json::to_value(&signed).unwrap();
    let spelled = format!(
        "{{\n  \"signature\": {},\r\n\t\"declaration\": {} }}\n",
        json["signature"],
        json["declaration"].to_string().replace('/', "\\/"),
    );
    let verified = Signed::open(spelled.as_bytes(), &[samples::declare_key().verifying_key()]).unwrap();
    assert_eq!(verified.as_slice(), signed.declaration);
}

#[test]
fn a_declaration_in_another_spelling_is_verified_as_it_arrived_and_read_the_same() {
    let bytes = file("foreign/declaration-spaced.json").into_bytes();
    let signed = Signed::new(bytes, &samples::declare_key());
    let verified = signed.verify(&[samples::declare_key().verifying_key()]).unwrap();
    let declaration = Declaration::read(&verified).unwrap();
    assert_eq!(declaration.position(), samples::position());
    let resources: Vec<Resource> = declaration.resources().into_iter().map(Result::unwrap).collect();
    let Spec::File(file) = &resources[0].spec else { panic!("the first resource is a file") };
    assert_eq!(file.mode.to_string(), "0644", "a mode that is not given is 0644");
    assert_eq!(file.content.bytes().unwrap(), b"hello\n");
}

#[test]
fn every_kind_is_read_back_from_what_was_written() {
    for resource in samples::resources() {
        let text = file(&format!("written/kind-{}.json", resource.spec.kind()));
        assert_eq!(Resource::read(&text, 0).unwrap(), resource);
    }
}

#[test]
fn a_token_is_read_back_with_space_around_it() {
    let token: JoinToken = format!("  {}\n", file("written/token.txt")).parse().unwrap();
    assert_eq!(token.to_text().unwrap(), samples::token().to_text().unwrap());
}
