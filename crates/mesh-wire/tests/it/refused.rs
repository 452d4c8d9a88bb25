//! What is refused: bytes that do not verify, before anything of them is parsed; and parts of what verifies.

use mesh_seal::SigningKey;
use mesh_wire::{
    Declaration, DeclarationError, FrameRefusal, InvalidToken, JoinToken, MAX_FRAME_BYTES, Signed,
    frame_bytes,
};
use serde_json::{Value, json};

use crate::samples;

fn read(declaration: &Value) -> Result<Declaration, DeclarationError> {
    read_text(&declaration.to_string())
}

fn read_text(text: &str) -> Result<Declaration, DeclarationError> {
    let key = samples::declare_key();
    let verified = Signed::new(text.as_bytes().to_vec(), &key).verify(&[key.verifying_key()]).unwrap();
    Declaration::read(&verified)
}

fn sample() -> Value {
    serde_json::to_value(samples::declaration()).unwrap()
}

#[test]
fn every_flipped_bit_of_a_frame_is_refused() {
    let trusted = [samples::declare_key().verifying_key()];
    let frame = serde_json::to_vec(&samples::signed()).unwrap();
    let bytes = Signed::open(&frame, &trusted).unwrap();
    for at in 0..frame.len() {
        for bit in 0..8 {
            let mut changed = frame.clone();
            changed[at] ^= 1 << bit;
            if let Ok(opened) = Signed::open(&changed, &trusted) {
                assert_eq!(opened, bytes, "byte {at} bit {bit} changed what was verified");
            }
        }
    }
}

#[test]
fn every_truncation_and_every_trailing_byte_is_refused() {
    let trusted = [samples::declare_key().verifying_key()];
    let frame = serde_json::to_vec(&samples::signed()).unwrap();
    for length in 0..frame.len() {
        assert!(Signed::open(&frame[..length], &trusted).is_err(), "{length} bytes");
    }
    assert!(matches!(Signed::open(&[&frame[..], b"x"].concat(), &trusted), Err(FrameRefusal::Malformed(_))));
}

#[test]
fn an_oversized_frame_is_refused_unread() {
    let frame = vec![b' '; MAX_FRAME_BYTES + 1];
    assert_eq!(Signed::open(&frame, &[]), Err(FrameRefusal::TooLarge { size: MAX_FRAME_BYTES + 1 }));
}

#[test]
fn a_frame_is_never_larger_than_was_reckoned_from_its_resources() {
    for bytes in [1, 1000, 300_000] {
        let mut declaration = samples::declaration();
        // Every character is six in JSON.
        let content = "\u{1}".repeat(bytes);
        let text = serde_json::json!({"id": "a/file:/a", "kind": "file", "spec": {"path": "/a", "content": content}});
        declaration.resources = vec![serde_json::value::to_raw_value(&text).unwrap()];
        let resources: usize = declaration.resources.iter().map(|raw| raw.get().len() + 1).sum();
        let signed = Signed::new(declaration.to_bytes().unwrap(), &samples::declare_key());
        let frame = serde_json::to_vec(&signed).unwrap().len();
        let reckoned = frame_bytes(resources);
        assert!(frame <= reckoned && reckoned - frame < 64 * 1024, "{frame} bytes, reckoned {reckoned}");
    }
}

#[test]
fn another_key_is_refused_and_any_of_several_is_enough() {
    let other = SigningKey::from_seed(&[2; 32]).verifying_key();
    let frame = serde_json::to_vec(&samples::signed()).unwrap();
    assert_eq!(Signed::open(&frame, &[other]), Err(FrameRefusal::WrongSignature));
    assert!(Signed::open(&frame, &[other, samples::declare_key().verifying_key()]).is_ok());
    assert_eq!(Signed::open(&frame, &[]), Err(FrameRefusal::WrongSignature));
}

#[test]
fn an_unknown_member_of_the_declaration_refuses_it_whole() {
    let mut declaration = sample();
    declaration["sudo"] = json!(true);
    assert!(matches!(read(&declaration), Err(DeclarationError::Malformed(e)) if e.contains("sudo")));
}

#[test]
fn a_member_given_twice_refuses_it_whole() {
    let text = sample().to_string();
    let twice = text.replacen("\"format\":1", "\"format\":1,\"node\":\"node-2\"", 1);
    assert_ne!(text, twice);
    assert!(matches!(read_text(&twice), Err(DeclarationError::Malformed(e)) if e.contains("duplicate")));
}

#[test]
fn a_newer_format_is_refused_with_what_to_do() {
    let mut declaration = sample();
    declaration["format"] = json!(2);
    let error = read(&declaration).unwrap_err();
    assert_eq!(error, DeclarationError::UnknownFormat(2));
    assert!(error.to_string().contains("upgrade mesh-host"));
}

#[test]
fn an_unknown_kind_or_member_refuses_that_resource_by_name_and_no_other() {
    let mut declaration = sample();
    let good = declaration["resources"].as_array().unwrap().len();
    let resources = declaration["resources"].as_array_mut().unwrap();
    resources.push(json!({"id": "exec:rm", "kind": "exec", "spec": {"command": "rm"}}));
    resources.push(json!({"id": "volume:v", "kind": "volume", "spec": {"name": "v", "size": 1}}));
    resources.push(json!({"id": "volume:w", "kind": "volume", "spec": {"name": "w"}, "unless": "x"}));
    resources.push(json!({"kind": "volume", "spec": {"name": "w"}}));
    let read = read(&declaration).unwrap().resources();
    let refused: Vec<_> = read.iter().filter_map(|r| r.as_ref().err()).collect();
    assert_eq!(read.len() - refused.len(), good);
    let ids: Vec<_> = refused.iter().map(|r| r.id.as_str()).collect();
    assert_eq!(ids, ["exec:rm", "volume:v", "volume:w", &format!("resource {}", good + 4)]);
    assert!(refused[0].reason.contains("\"exec\""), "{}", refused[0].reason);
    assert!(refused[1].reason.contains("size"), "{}", refused[1].reason);
}

#[test]
fn a_resource_is_kept_as_declared_unless_it_says_that_it_is_only_observed() {
    let read = |json: Value| mesh_wire::Resource::read(&json.to_string(), 0);
    let volume = json!({"id": "volume:v", "kind": "volume", "spec": {"name": "v"}});
    let kept = read(volume.clone()).unwrap();
    assert!(!kept.observe_only);
    assert_eq!(serde_json::to_value(&kept).unwrap(), volume, "what is not said is not written");
    let mut observed = volume;
    observed["observe_only"] = json!(true);
    assert_eq!(serde_json::to_value(read(observed.clone()).unwrap()).unwrap(), observed);
    assert!(read(observed.clone()).unwrap().observe_only);
    observed["observe_only"] = json!("yes");
    assert!(read(observed).is_err());
}

#[test]
fn two_resources_with_one_id_refuse_the_declaration() {
    let mut declaration = sample();
    let resources = declaration["resources"].as_array_mut().unwrap();
    resources.push(resources[0].clone());
    assert!(
        matches!(read(&declaration), Err(DeclarationError::DuplicateId(id)) if id.as_str() == "directory:/etc/hello")
    );
}

#[test]
fn a_member_given_twice_inside_a_spec_refuses_that_resource() {
    let text = sample().to_string();
    let twice = text.replacen(r#"{"name":"data"}"#, r#"{"name":"data","name":"other"}"#, 1);
    assert_ne!(text, twice);
    let resources = read_text(&twice).unwrap().resources();
    let refused: Vec<_> = resources.iter().filter_map(|r| r.as_ref().err()).collect();
    assert_eq!(refused.len(), 1);
    assert_eq!(refused[0].id, "volume:data");
}

#[test]
fn paths_that_wander_and_names_that_are_options_are_refused() {
    let cases = [
        json!({"id": "a", "kind": "directory", "spec": {"path": "relative"}}),
        json!({"id": "a", "kind": "directory", "spec": {"path": "/"}}),
        json!({"id": "a", "kind": "directory", "spec": {"path": "/etc/../root"}}),
        json!({"id": "a", "kind": "directory", "spec": {"path": "/etc//x"}}),
        json!({"id": "a", "kind": "file", "spec": {"path": "/x", "content": {"base64": "?"}}}),
        json!({"id": "a", "kind": "file", "spec": {"path": "/x", "content": {"text": ""}, "mode": "999"}}),
        json!({"id": "a", "kind": "file", "spec": {"path": "/x", "content": {"text": ""}, "check": "sh"}}),
        json!({"id": "a", "kind": "file", "spec": {"path": "/x", "content": {"text": ""}, "check": "ini-systemd-unit"}}),
        json!({"id": "a", "kind": "package", "spec": {"names": ["--reinstall"]}}),
        json!({"id": "a", "kind": "package", "spec": {"names": ["tzdata-"]}}),
        json!({"id": "a", "kind": "package", "spec": {"names": []}}),
        json!({"id": "a", "kind": "unit", "spec": {"name": "../x.service"}}),
        json!({"id": "a", "kind": "unit", "spec": {"name": "x"}}),
        json!({"id": "a", "kind": "volume", "spec": {"name": "-v"}}),
        json!({"id": "a", "kind": "sysctl", "spec": {"name": "a/b", "settings": {"vm.swappiness": "1"}}}),
        json!({"id": "a", "kind": "sysctl", "spec": {"name": "a", "settings": {}}}),
        json!({"id": "a", "kind": "container", "spec": {"name": "a", "image": "mesh/hello:latest"}}),
    ];
    for case in cases {
        assert!(mesh_wire::Resource::read(&case.to_string(), 0).is_err(), "{case}");
    }
}

#[test]
fn a_token_with_any_character_changed_is_refused() {
    let text = samples::token().to_text().unwrap();
    for at in 0..text.len() {
        let mut changed = text.clone().into_bytes();
        changed[at] = if changed[at] == b'x' { b'y' } else { b'x' };
        let changed = String::from_utf8(changed).unwrap();
        assert!(changed.parse::<JoinToken>().is_err(), "character {at}");
    }
    assert_eq!("hello".parse::<JoinToken>().unwrap_err(), InvalidToken::NotAToken);
}

/// Reads a container of which this is said beside its name and its image.
fn container(said: &Value) -> Result<mesh_wire::Spec, String> {
    let mut spec = json!({ "name": "web", "image": format!("mesh/hello@sha256:{}", "ab".repeat(32)) });
    spec.as_object_mut().unwrap().extend(said.as_object().unwrap().clone());
    mesh_wire::Spec::read("container", &spec.to_string())
}

#[test]
fn what_no_engine_could_do_for_a_container_is_refused_in_words() {
    let cases = [
        (json!({"cap_add": ["ALL"]}), "cap_add takes no ALL"),
        (json!({"cap_add": ["CAP_NET_ADMIN"]}), "without CAP_, such as NET_ADMIN"),
        (json!({"cap_drop": ["net_raw"]}), "cap_drop: \"net_raw\" is not a capability"),
        (json!({"stop_signal": "SIGKILL"}), "\"SIGKILL\" is not a signal that can end a program"),
        (json!({"stop_signal": "TERM"}), "such as SIGTERM"),
        (json!({"cpu_millicores": 9}), "cpu_millicores is 9, and has to be 10 or more"),
        (json!({"pids": 0}), "pids is 0"),
        (json!({"shm_bytes": 0}), "shm_bytes is 0"),
        (json!({"tmpfs": [{"target": "tmp"}]}), "is not absolute"),
        (json!({"tmpfs": [{"target": "/a:rw"}]}), "holds a ':'"),
        (json!({"tmpfs": [{"target": "/a"}, {"target": "/a"}]}), "something is mounted at /a already"),
        (json!({"labels": {"mesh.spec": "x"}}), "the label mesh.spec is the host's own"),
        (json!({"extra_hosts": {"a b": "192.0.2.1"}}), "\"a b\" is not a host"),
        (json!({"ready": {"within_s": 5}}), "neither http nor tcp is given"),
        (
            json!({"ready": {"command": ["true"], "tcp": 80, "within_s": 5}}),
            "exactly one of command, http and tcp",
        ),
        (json!({"ready": {"tcp": 0, "within_s": 5}}), "ready.tcp is not a port"),
        (json!({"ready": {"http": {"port": 80, "path": "/a b"}, "within_s": 5}}), "without spaces"),
        (json!({"ready": {"http": {"port": 80}, "within_s": 5, "timeout_s": 0}}), "ready.timeout_s is 0"),
        (json!({"health": {}}), "there is no `ready`"),
        (json!({"health": {"failures": 0}, "ready": {"tcp": 80, "within_s": 5}}), "have to be 1 or more"),
        (
            json!({"health": {}, "lifecycle": "once", "ready": {"tcp": 80, "within_s": 5}}),
            "the lifecycle is once",
        ),
        (json!({"name": "web.mesh-old"}), "ends in .mesh-old"),
        (json!({"replace": "start-first"}), "start-first needs `ready`"),
        (json!({"replace": "start-first", "lifecycle": "once"}), "the lifecycle is once"),
        (
            json!({"replace": "start-first", "ready": {"tcp": 80, "within_s": 5}, "ports": [{"host": 80, "container": 80}]}),
            "only one container at a time can bind the port 80",
        ),
        (
            json!({"replace": "start-first", "ready": {"tcp": 80, "within_s": 5}, "mounts": [{"source": "d", "target": "/d"}]}),
            "two containers would write to d at a time",
        ),
        (json!({"working_directory": "srv"}), "is not absolute"),
    ];
    for (said, expected) in cases {
        let refused = container(&said).unwrap_err();
        assert!(refused.contains(expected), "{said}: {refused}");
    }
    let good = json!({"cap_drop": ["ALL"], "stop_signal": "SIGRTMIN+3", "cpu_millicores": 10, "working_directory": "/"});
    container(&good).unwrap();
    let beside = json!({"replace": "start-first", "ready": {"tcp": 80, "within_s": 5}, "mounts": [
        {"source": "d", "target": "/d", "shared": true}, {"source": "/e", "target": "/e", "read_only": true}]});
    container(&beside).unwrap();
}

#[test]
fn a_parameter_of_the_kernel_is_written_in_one_way_and_leads_nowhere_else() {
    let read = |key: &str, value: &str| {
        let spec = json!({"name": "a", "settings": {key: value}});
        mesh_wire::Spec::read("sysctl", &spec.to_string())
    };
    let good = ["net.ipv4.ip_forward", "net.ipv4.conf.eth0/7.rp_filter", "dev.raid.speed-limit", "fs.a:b.c"];
    for key in good {
        assert!(read(key, "1").is_ok(), "{key}");
    }
    let bad = [
        "",
        "vm",
        "vm.",
        ".vm",
        "vm..swappiness",
        "vm./.x",
        "vm.//.x",
        "vm.//etc.passwd",
        "vm.a//b",
        "/vm.x",
        "vm/x.y",
        "vm.*",
        "-vm.swappiness",
        "vm.x y",
        "vm.x=1",
        "vm.x\ny",
        "vm.é",
        "../../etc/passwd",
        "a.b/",
    ];
    for key in bad {
        assert!(read(key, "1").is_err(), "{key}");
    }
    for value in ["", " 1", "1 ", "1\n2", "\u{1}"] {
        assert!(read("vm.swappiness", value).is_err(), "{value:?}");
    }
    assert!(read("net.ipv4.tcp_rmem", "4096\t131072 6291456").is_ok());
}

#[test]
fn a_user_is_never_root_and_its_entry_holds_no_other_line() {
    let read = |spec: Value| mesh_wire::Spec::read("user", &spec.to_string());
    let good = [
        json!({"name": "hello"}),
        json!({"name": "_apt-1", "uid": 100, "gid": 60000, "home": "/var/lib/a b", "groups": ["adm", "video"]}),
    ];
    for spec in good {
        assert!(read(spec.clone()).is_ok(), "{spec}");
    }
    let bad = [
        json!({"name": "root"}),
        json!({"name": ""}),
        json!({"name": "-r"}),
        json!({"name": "1hello"}),
        json!({"name": "Hello"}),
        json!({"name": "a:b"}),
        json!({"name": "a\nb"}),
        json!({"name": "x".repeat(32)}),
        json!({"name": "a", "uid": 0}),
        json!({"name": "a", "gid": 0}),
        json!({"name": "a", "uid": 65534}),
        json!({"name": "a", "home": "relative"}),
        json!({"name": "a", "home": "/a:0:0"}),
        json!({"name": "a", "shell": "/bin/sh\nroot::0"}),
        json!({"name": "a", "groups": ["a,b"]}),
        json!({"name": "a", "groups": ["b", "b"]}),
        json!({"name": "a", "groups": ["a"]}),
    ];
    for spec in bad {
        assert!(read(spec.clone()).is_err(), "{spec}");
    }
}

#[test]
fn a_timer_says_when_and_what_and_nothing_that_systemd_would_read_otherwise() {
    let read = |said: Value| {
        let mut spec = json!({"name": "a", "calendar": "daily", "command": ["/bin/true"]});
        let members = spec.as_object_mut().unwrap();
        members.extend(said.as_object().unwrap().clone());
        members.retain(|_, value| !value.is_null());
        mesh_wire::Spec::read("timer", &spec.to_string())
    };
    let good = [
        json!({}),
        json!({"calendar": null, "interval_s": 60}),
        json!({"persistent": true, "working_directory": "/", "user": "root", "environment": {"A_1": "a\n\t%"}}),
    ];
    for said in good {
        assert!(read(said.clone()).is_ok(), "{said}");
    }
    let bad = [
        (json!({"name": "a.timer"}), "has a type"),
        (json!({"name": "a/b"}), "is not a timer"),
        (json!({"interval_s": 60}), "exactly one of"),
        (json!({"calendar": null}), "exactly one of"),
        (json!({"calendar": "sometimes"}), "no calendar event"),
        (json!({"calendar": "daily\nUser=root"}), "no calendar event"),
        (json!({"calendar": null, "interval_s": 0}), "interval_s is 0"),
        (json!({"calendar": null, "interval_s": 60, "persistent": true}), "persistent goes with calendar"),
        (json!({"command": []}), "command is empty"),
        (json!({"command": ["true"]}), "is not absolute"),
        (json!({"command": ["/bin/$HOME"]}), "quotes, '\\' or '$'"),
        (json!({"command": ["/bin/true", "a\u{0}b"]}), "holds a NUL"),
        (json!({"command": ["/bin/true", "x".repeat(70_000)]}), "more than 65536 bytes"),
        (json!({"user": "a b"}), "is not the name of a user"),
        (json!({"environment": {"A=B": "c"}}), "is not the name of a variable"),
        (json!({"environment": {"A": "\u{1}"}}), "control characters"),
        (json!({"working_directory": "/a\\"}), "systemd cannot be told"),
        (json!({"working_directory": "/a "}), "systemd cannot be told"),
        (json!({"working_directory": "relative"}), "is not absolute"),
        (json!({"randomized_delay_s": 1_u64 << 40}), "longer than ten years"),
    ];
    for (said, expected) in bad {
        let refused = read(said.clone()).unwrap_err();
        assert!(refused.contains(expected), "{said}: {refused}");
    }
}

#[test]
fn a_drop_in_that_systemd_would_not_read_is_refused() {
    for (name, good) in
        [("10-a.conf", true), ("a", false), ("../x.conf", false), (".conf", false), ("a/b.conf", false)]
    {
        let spec = json!({"name": "ssh.service", "drop_ins": {name: "[Service]\n"}});
        assert_eq!(mesh_wire::Spec::read("unit", &spec.to_string()).is_ok(), good, "{name}");
    }
}
