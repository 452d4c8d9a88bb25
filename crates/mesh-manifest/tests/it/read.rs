//! Reading: every complaint names its place and what was expected.

use mesh_manifest::{Manifest, Placement};

use crate::{complaint, read};

#[test]
fn an_unknown_field_is_refused_where_it_stands_with_what_was_meant() {
    let text = complaint("[[container]]\nname = \"web\"\n  imge = \"mesh/hello\"\n");
    assert!(text.starts_with("6:3: unknown field `imge`, expected one of"), "{text}");
    assert!(text.ends_with("did you mean `image`?"), "{text}");
    assert!(complaint("[[files]]\npath = \"/x\"").ends_with("did you mean `file`?"));
    let text = complaint("[[container]]\nname='a'\nimage='a'\nlifecycle = \"onec\"\n");
    assert!(text.starts_with("7:") && text.ends_with("did you mean `once`?"), "{text}");
}

#[test]
fn a_wrong_type_is_refused_where_it_stands() {
    let text = complaint("[[container]]\nname='a'\nimage='a'\nports = [{ host = \"x\", container = 1 }]\n");
    assert!(text.starts_with("7:19: invalid type: string \"x\", expected u16"), "{text}");
    let text = complaint("[[directory]]\npath='/srv/x'\nmode = \"rwx\"\n");
    assert!(text.starts_with("6:8: \"rwx\" is not a mode"), "{text}");
    let text = complaint("[[directory\n");
    assert!(text.starts_with("4:"), "{text}");
}

#[test]
fn what_holds_together_badly_is_refused_where_it_stands() {
    for (body, place, words) in [
        ("", "1:1: ", "has no resource"),
        ("[[file]]\npath='/srv/a'\n", "4:1: ", "exactly one of content"),
        ("[[file]]\npath='/srv/../a'\ncontent='x'\n", "4:1: ", "'..' part"),
        ("[[unit]]\nname='a.service'\n", "4:1: ", "nothing is said of the unit"),
        ("[[directory]]\npath='/a'\n[[directory]]\npath='/a'\n", "6:1: ", "twice"),
        (
            "[[directory]]\npath='/a'\n[[file]]\npath='/b'\ncontent=''\nafter=['directory:/b']\n",
            "9:1: ",
            "did you mean \"directory:/a\"",
        ),
        (
            "[[directory]]\npath='/a'\nafter=['file:/b']\n[[file]]\npath='/b'\ncontent=''\nafter=['directory:/a']\n",
            "4:1: ",
            "wait for each other: directory:/a, file:/b",
        ),
        (
            "[[container]]\nname='a'\nimage='mesh/hello'\nnetworks=['x','nett']\n[[network]]\nname='x'\n[[network]]\nname='net'\n",
            "7:15: ",
            "did you mean \"net\"",
        ),
        ("[[container]]\nname='a'\nimage='nginx:latest'\n", "6:1: ", "names a tag"),
        ("[[container]]\nname='a'\nimage='x@sha256:1'\n", "6:1: ", "not an image by content"),
        (
            "[[container]]\nname='a'\nimage='x'\nports=[{host=80,container=1}]\n[[container]]\nname='b'\nimage='x'\nports=[{host=80,container=1}]\n",
            "8:1: ",
            "80 is bound by container:a",
        ),
        ("[[unit]]\nname='a'\nactive=true\n", "4:1: ", "does not end in one of"),
    ] {
        let text = complaint(body);
        assert!(text.starts_with(place) && text.contains(words), "{body}\n{text}");
    }
}

#[test]
fn a_placement_is_exactly_one_of_three() {
    let with = |placement: &str| {
        let text = format!("name='a'\nversion='1'\nplacement = {placement}\n[[directory]]\npath='/a'\n");
        Manifest::from_toml("m", &text, |_| Err(String::new())).map(|manifest| manifest.placement)
    };
    assert_eq!(with("{ every_node = true }"), Ok(Placement::EveryNode));
    assert!(matches!(with("{ nodes = ['node-1'] }"), Ok(Placement::Nodes(_))));
    assert!(matches!(with("{ count = 2 }"), Ok(Placement::Count(_))));
    for bad in [
        "{}",
        "{ every_node = false }",
        "{ count = 0 }",
        "{ count = 1, every_node = true }",
        "{ nodes = [] }",
    ] {
        let complaint = with(bad).unwrap_err().to_string();
        assert!(complaint.starts_with("m:3:"), "{bad}: {complaint}");
    }
    assert!(with("{ nodes = ['a', 'a'] }").unwrap_err().reason.contains("twice"));
}

#[test]
fn a_named_file_is_put_into_the_manifest() {
    let text = "name='a'\nversion='1'\nplacement.count=1\n[[file]]\npath='/a'\nsource='files/a'\n\
                [[file]]\npath='/b'\nsource='b'\n[[unit]]\nname='a.service'\nsource='a.service'\n";
    let manifest = Manifest::from_toml("m", text, |path| match path {
        "files/a" | "a.service" => Ok(path.as_bytes().to_vec()),
        "b" => Ok(vec![0xff]),
        other => Err(format!("unexpected {other}")),
    })
    .unwrap();
    assert_eq!(manifest.files[0].content.as_deref(), Some("files/a"));
    assert_eq!(manifest.files[1].base64.as_deref(), Some("/w=="));
    assert_eq!(manifest.units[0].content.as_deref(), Some("a.service"));
    assert_eq!(Manifest::from_json(&manifest.to_json()), Ok(manifest));
}

#[test]
fn no_file_outside_the_folder_is_asked_for() {
    for source in ["/etc/shadow", "../x", "a/../../x", "./x", "a//b", "", "a\\\\b"] {
        let text =
            format!("name='a'\nversion='1'\nplacement.count=1\n[[file]]\npath='/a'\nsource=\"{source}\"\n");
        let read = Manifest::from_toml("m", &text, |path| panic!("asked for {path}"));
        let complaint = read.unwrap_err().to_string();
        assert!(
            complaint.starts_with("m:6:1: ") && complaint.contains("below the manifest's folder"),
            "{complaint}"
        );
    }
}

#[test]
fn contents_have_a_limit() {
    let body = "[[file]]\npath='/a'\nsource='a'\n";
    let text = format!("{}{body}", crate::HEAD);
    let read = |size: usize| Manifest::from_toml("m", &text, |_| Ok(vec![b'x'; size]));
    assert!(read(mesh_manifest::MAX_CONTENT_BYTES).is_ok());
    assert!(read(mesh_manifest::MAX_CONTENT_BYTES + 1).unwrap_err().reason.contains("more than 1048576"));
}

#[test]
fn the_json_form_is_checked_as_well() {
    let mut json = read("[[file]]\npath='/a'\ncontent='x'\n").unwrap().to_json();
    json["file"][0]["path"] = "relative".into();
    let problem = Manifest::from_json(&json).unwrap_err().to_string();
    assert!(problem.starts_with("file[0]: ") && problem.contains("not absolute"), "{problem}");
    json["file"][0]["source"] = "/etc/shadow".into();
    assert!(Manifest::from_json(&json).is_err(), "a source nobody put in");
    json["fle"] = 1.into();
    assert!(Manifest::from_json(&json).unwrap_err().reason.contains("did you mean `file`?"));
}

/// Every id is compared with every other for a suggestion, so that their length has to be bounded first.
#[test]
fn ids_that_are_too_long_are_refused_before_they_are_compared() {
    let files: Vec<String> =
        (0..998).map(|number| format!("[[file]]\npath='/etc/{number}'\ncontent=''\n")).collect();
    let long = "q".repeat(1_000_000);
    let complaint =
        complaint(&format!("{}[[file]]\npath='/etc/x'\ncontent=''\nafter=['file:{long}']\n", files.concat()));
    assert!(complaint.contains("with the module's name is no id: expected at most 512 bytes"), "{complaint}");
    assert!(complaint.contains("(1000005 bytes)") && complaint.len() < 400, "{complaint}");

    let files: Vec<String> = (0..300)
        .map(|number| format!("[[file]]\npath='/{}{number}'\ncontent=''\n", "p".repeat(3000)))
        .collect();
    let complaint = self::complaint(&files.concat());
    assert!(
        complaint.starts_with("4:1: ") && complaint.contains("is no id: expected at most 512"),
        "{complaint}"
    );
}

#[test]
fn what_every_machine_would_refuse_is_refused_with_its_place() {
    let container = "[[container]]\nimage='mesh/hello'\n";
    for (body, said) in [
        (
            "[[directory]]\npath='/srv/a'\n[[file]]\npath='/srv/a'\ncontent=''\n".to_owned(),
            "6:1: the file cannot be at \"/srv/a\": a directory of this module is",
        ),
        (
            "[[file]]\npath='/etc/systemd/system/a.service'\ncontent=''\n[[unit]]\nname='a.service'\ncontent='x'\n"
                .to_owned(),
            "7:1: the unit cannot be at \"/etc/systemd/system/a.service\": a file of this module is",
        ),
        (format!("{container}name=''\n"), "6:1: the container has no name"),
        ("[[volume]]\nname=''\n".to_owned(), "5:1: the volume has no name"),
        (
            format!("{container}name='web'\nenvironment={{A=\"x\\u0000\"}}\n"),
            "7:1: the variable \"A\" holds a NUL, which no environment can",
        ),
        (
            "[[network]]\nname='n'\nsubnet='garbage'\n".to_owned(),
            "6:1: \"garbage\" is not a subnet: expected one such as 10.90.0.0/24",
        ),
        ("[[network]]\nname='n'\nsubnet='10.0.0.0/33'\n".to_owned(), "6:1: \"10.0.0.0/33\" is not a subnet"),
        ("[[network]]\nname='n'\nsubnet='10.0.0.1/24'\n".to_owned(), "6:1: \"10.0.0.1/24\" has bits beyond"),
        (
            "[[file]]\npath='/a'\ncontent=''\nowner=\"a\\nb\"\n".to_owned(),
            "7:1: \"a\\nb\" is not the name of a user or a group",
        ),
        ("[[directory]]\npath='/a'\ngroup=''\n".to_owned(), "6:1: \"\" is not the name of a user or a group"),
    ] {
        let complaint = complaint(&body);
        assert!(complaint.starts_with(said), "{complaint}\n{said}");
    }
    for subnet in ["10.90.0.0/24", "fd00::/64", "192.168.1.4/30", "10.0.0.1/32"] {
        let read = read(&format!("[[network]]\nname='n'\nsubnet='{subnet}'\n"));
        assert!(read.is_ok(), "{read:?}");
    }
    // One that only switches a unit whose file the module brings owns one path.
    let body = "[[file]]\npath='/etc/systemd/system/a.service'\ncontent=''\n[[unit]]\nname='a.service'\nactive=true\n";
    assert!(read(body).is_ok());
}

#[test]
fn a_module_declares_neither_the_host_nor_what_only_a_bundle_carries() {
    for kind in ["host", "database", "vhost"] {
        let text = complaint(&format!("[[{kind}]]\nversion = \"1\"\n"));
        assert!(text.contains(&format!("unknown field `{kind}`")), "{text}");
    }
}
