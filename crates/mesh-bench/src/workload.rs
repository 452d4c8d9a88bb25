//! What is declared: the same thousand files for the host and for its peer, and the modules given to a mesh. Pure.
//!
//! Written as JSON by hand, as another program would, and not through the host's own types.

use std::fmt::Write as _;

use serde_json::{Value, json};

/// Files of the no-op round.
pub(crate) const FILES: usize = 1_000;
/// Bytes of each.
const SIZE: usize = 1_024;
/// Files of one folder.
const IN_A_FOLDER: usize = 100;
/// Where they are on the node; one folder below it for each program that keeps them.
pub(crate) const BASE: &str = "/srv/bench";

/// A file of the thousand.
pub(crate) struct Sample {
    /// Below the folder of the program that keeps it.
    pub(crate) path: String,
    /// Printable ASCII without quotes, so that every program's language can say it.
    pub(crate) content: String,
}

/// The thousand files; no two hold the same.
pub(crate) fn files() -> impl Iterator<Item = Sample> {
    (0..FILES).map(|number| {
        let mut content = format!("This is file {number} of {FILES}. ");
        while content.len() < SIZE - 1 {
            let letter = char::from(b'a' + u8::try_from((number + content.len()) % 26).unwrap_or(0));
            content.push(letter);
        }
        content.push('\n');
        Sample { path: format!("d{}/f{number}", number / IN_A_FOLDER), content }
    })
}

/// A script that makes the folders of the files. `program` has to be new: making files is many times slower within seconds
/// of deleting as many, since ext4 gives no inode away again so soon and has to look for others.
pub(crate) fn make_folders(program: &str) -> String {
    let folder = format!("{BASE}/{program}");
    let mut script = "mkdir -p".to_owned();
    for number in 0..FILES / IN_A_FOLDER {
        // Writing to a String cannot fail.
        let _ = write!(script, " {folder}/d{number}");
    }
    script
}

/// The thousand files as a list of resources for `mesh-host apply --local`.
pub(crate) fn resources(program: &str) -> Value {
    let resource = |Sample { path, content }| {
        let path = format!("{BASE}/{program}/{path}");
        json!({
            "id": format!("file:{path}"),
            "kind": "file",
            "spec": { "path": path, "content": { "text": content }, "mode": "0644" },
        })
    };
    json!({ "resources": files().map(resource).collect::<Vec<_>>() })
}

/// The same as a policy of CFEngine: one promise a file, its content in the policy as ours is in the declaration. (Its
/// cheaper form, one promise that copies a whole folder, is one resource and not a thousand.)
pub(crate) fn policy(program: &str) -> String {
    let mut text = String::from(
        "body perms m644 { mode => \"0644\"; owners => { \"root\" }; groups => { \"root\" }; rxdirs => \"false\"; }\n\
         bundle agent main\n{\n  files:\n",
    );
    for Sample { path, content } in files() {
        let _ = writeln!(
            text,
            "    \"{BASE}/{program}/{path}\" create => \"true\", content => \"{content}\", perms => m644;"
        );
    }
    text.push_str("}\n");
    text
}

/// A module for one node.
fn module(name: &str, version: usize, node: &str, entries: &Value) -> Value {
    let mut module = json!({
        "name": name,
        "version": version.to_string(),
        "placement": { "nodes": [node] },
    });
    if let (Some(module), Some(entries)) = (module.as_object_mut(), entries.as_object()) {
        module.extend(entries.clone());
    }
    module
}

/// A service that does nothing and reads a file. It may be restarted as often as somebody likes: systemd's own limit is
/// five times in ten seconds, which a measurement exceeds.
pub(crate) fn sleeping_unit(reads: Option<&str>) -> String {
    let reads = reads.map(|path| format!("EnvironmentFile={path}\n")).unwrap_or_default();
    format!("[Unit]\nStartLimitIntervalSec=0\n[Service]\n{reads}ExecStart=/usr/bin/sleep infinity\n")
}

/// A file, and a unit that is restarted when it changes.
pub(crate) fn file_and_unit(name: &str, version: usize, node: &str) -> Value {
    let path = format!("/etc/{name}.conf");
    let entries = json!({
        "file": [{ "path": path, "content": format!("VERSION={version}\n") }],
        "unit": [{
            "name": format!("{name}.service"),
            "content": sleeping_unit(Some(&path)),
            "active": true,
            "restart_on": [format!("file:{path}")],
        }],
    });
    module(name, version, node, &entries)
}

/// One new unit.
pub(crate) fn unit(name: &str, node: &str) -> Value {
    let unit = json!({ "name": format!("{name}.service"), "content": sleeping_unit(None), "active": true });
    module(name, 1, node, &json!({ "unit": [unit] }))
}

/// Resources of an idle host.
pub(crate) const IDLE: usize = 100;

/// A hundred resources of the kinds a small server has: directories, files, running units, running containers.
pub(crate) fn hundred(name: &str, node: &str) -> Value {
    const DIRECTORIES: usize = 10;
    const UNITS: usize = 10;
    const CONTAINERS: usize = 2;
    let directories: Vec<_> =
        (0..DIRECTORIES).map(|number| json!({ "path": format!("{BASE}-{name}-{number}") })).collect();
    let files: Vec<_> = (0..IDLE - DIRECTORIES - UNITS - CONTAINERS)
        .map(|number| {
            let path = format!("{BASE}-{name}-{}/f{number}", number % DIRECTORIES);
            json!({ "path": path, "content": format!("This is file {number}.\n") })
        })
        .collect();
    let units: Vec<_> = (0..UNITS)
        .map(|number| {
            json!({ "name": format!("{name}-{number}.service"), "content": sleeping_unit(None), "active": true })
        })
        .collect();
    let containers: Vec<_> = (0..CONTAINERS)
        .map(|number| json!({ "name": format!("web{number}"), "image": "mesh/hello", "stop_grace_s": 1 }))
        .collect();
    let entries = json!({ "directory": directories, "file": files, "unit": units, "container": containers });
    module(name, 1, node, &entries)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_thousand_files_are_a_thousand_of_the_same_size_and_no_two_alike() {
        let contents: BTreeSet<String> = files().map(|file| file.content).collect();
        assert_eq!(contents.len(), FILES);
        assert!(contents.iter().all(|content| content.len() == SIZE));
        let paths: BTreeSet<String> = files().map(|file| file.path).collect();
        assert_eq!(paths.len(), FILES);
    }

    #[test]
    fn the_host_and_its_peer_are_told_the_same() {
        let resources = resources("one");
        let resources = resources["resources"].as_array().unwrap();
        assert_eq!(resources.len(), FILES);
        let policy = policy("one");
        assert_eq!(policy.matches("create =>").count(), FILES);
        for resource in resources {
            let path = resource["spec"]["path"].as_str().unwrap();
            let content = resource["spec"]["content"]["text"].as_str().unwrap();
            assert!(policy.contains(&format!("\"{path}\" create => \"true\", content => \"{content}\"")));
        }
        let folders = make_folders("one");
        assert!(
            folders.contains("/srv/bench/one/d0 ") && folders.ends_with("/srv/bench/one/d9"),
            "{folders}"
        );
    }

    #[test]
    fn the_idle_host_has_a_hundred_resources() {
        let module = hundred("idle", "node-2");
        let count = |kind: &str| module[kind].as_array().unwrap().len();
        assert_eq!(["directory", "file", "unit", "container"].map(count).iter().sum::<usize>(), IDLE);
        assert_eq!(module["placement"]["nodes"], json!(["node-2"]));
    }

    #[test]
    fn another_version_changes_the_file_and_nothing_else() {
        let (mut one, mut two) = (file_and_unit("change", 1, "node-2"), file_and_unit("change", 2, "node-2"));
        assert_ne!(one["file"], two["file"]);
        for module in [&mut one, &mut two] {
            let module = module.as_object_mut().unwrap();
            module.remove("file");
            module.remove("version");
        }
        assert_eq!(one, two);
    }
}
