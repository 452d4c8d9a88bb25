//! A resource in words, for a plan. Contents of files, units and environments are never shown, only how large they are or
//! that they change: a plan is read by more people than may read them.

use mesh_wire::{
    Resource,
    kinds::{ContainerSpec, Lifecycle, Spec},
};
use serde_json::Value;

/// What a new resource is.
pub(crate) fn describe(spec: &Spec) -> Vec<String> {
    match spec {
        Spec::Directory(directory) => vec![format!("mode {}", directory.mode)],
        Spec::File(file) => {
            let size = file.content.bytes().map_or(0, |bytes| bytes.len());
            vec![format!("mode {}", file.mode), format!("{size} bytes")]
        }
        Spec::Package(package) => vec![package.names.join(", ")],
        Spec::Unit(unit) => {
            let said = |word: Option<bool>, yes: &str, no: &str| {
                word.map(|word| if word { yes } else { no }.to_owned())
            };
            let file = unit.content.as_ref().map(|content| format!("unit file of {} bytes", content.len()));
            let drop_ins: Vec<&str> = unit.drop_ins.keys().map(String::as_str).collect();
            let drop_ins = (!drop_ins.is_empty()).then(|| format!("drop-ins {}", drop_ins.join(", ")));
            [
                file,
                drop_ins,
                said(unit.enabled, "enabled", "disabled"),
                said(unit.active, "active", "inactive"),
            ]
            .into_iter()
            .flatten()
            .collect()
        }
        Spec::Timer(timer) => {
            let event = timer.calendar.as_ref().map(|event| format!("runs {event}"));
            let interval = timer.interval_s.map(|seconds| format!("runs every {seconds} s"));
            let program = timer.command.first().map(|program| short(program));
            let user = timer.user.as_ref().map(|user| format!("as {user}"));
            [event, interval, program, user].into_iter().flatten().collect()
        }
        Spec::User(user) => {
            let uid = user.uid.map(|uid| format!("uid {uid}"));
            let home = user.home.as_ref().map(|home| format!("home {home}"));
            let groups = (!user.groups.is_empty()).then(|| format!("also in {}", user.groups.join(", ")));
            [uid, home, groups].into_iter().flatten().collect()
        }
        Spec::Sysctl(sysctl) => {
            sysctl.settings.iter().map(|(key, value)| short(&format!("{key} = {value}"))).collect()
        }
        Spec::Container(container) => container_words(container),
        Spec::Image(image) => vec![short(&image.image.to_string())],
        Spec::Volume(volume) => {
            let released = volume.released.then(|| "its data goes when it does".to_owned());
            [volume.name.clone()].into_iter().chain(released).collect()
        }
        Spec::Network(network) => {
            let internal = network.internal.then(|| "nothing in it reaches beyond the machine".to_owned());
            [Some(network.name.clone()), network.subnet.clone(), internal].into_iter().flatten().collect()
        }
        Spec::Host(host) => vec![format!("version {}", host.version), short_digest(host.digest.as_str())],
        Spec::Database(_) | Spec::Vhost(_) => Vec::new(),
    }
}

fn container_words(container: &ContainerSpec) -> Vec<String> {
    let mut words = vec![format!("image {}", short(&container.image.to_string()))];
    for port in &container.ports {
        words.push(format!("port {} is its {}", port.host, port.container));
    }
    if container.lifecycle == Lifecycle::Once {
        words.push("runs to its end once".to_owned());
    }
    words
}

/// What becomes other of a resource.
pub(crate) fn differences(before: &Resource, after: &Resource) -> Vec<String> {
    let json = |resource: &Resource| serde_json::to_value(resource).unwrap_or_default();
    let (before, after) = (json(before), json(after));
    let mut words = Vec::new();
    compare("", &before["spec"], &after["spec"], &mut words);
    if before["kind"] != after["kind"] {
        words.push(format!("kind: {} becomes {}", before["kind"], after["kind"]));
    }
    if before.get("after") != after.get("after") {
        words.push("what it waits for changes".to_owned());
    }
    match (before.get("observe_only").is_some(), after.get("observe_only").is_some()) {
        (false, true) => words.push("is only observed from then on".to_owned()),
        (true, false) => words.push("is kept as declared from then on".to_owned()),
        _ => {}
    }
    words
}

fn compare(name: &str, before: &Value, after: &Value, words: &mut Vec<String>) {
    if before == after {
        return;
    }
    if let (Value::Object(old), Value::Object(new)) = (before, after) {
        let mut members: Vec<&String> = old.keys().chain(new.keys()).collect();
        members.sort();
        members.dedup();
        for member in members {
            let inner = if name.is_empty() { member.clone() } else { format!("{name}.{member}") };
            compare(&inner, &before[member.as_str()], &after[member.as_str()], words);
        }
        return;
    }
    let hidden =
        name.starts_with("content") || name.starts_with("drop_ins") || name.starts_with("environment");
    words.push(match (hidden, before, after) {
        (true, Value::String(old), Value::String(new)) => {
            format!("{name}: {} bytes become {} others", old.len(), new.len())
        }
        (true, ..) => format!("{name} changes"),
        (false, Value::Null, new) => format!("{name}: {}", short(&plain(new))),
        (false, old, Value::Null) => format!("{name}: no longer {}", short(&plain(old))),
        (false, old, new) => format!("{name}: {} becomes {}", short(&plain(old)), short(&plain(new))),
    });
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn short_digest(digest: &str) -> String {
    digest.get(.."sha256:".len() + 12).unwrap_or(digest).to_owned()
}

/// A text on one line; digests by their first twelve digits.
fn short(text: &str) -> String {
    if text.starts_with("sha256:") {
        return short_digest(text);
    }
    if let Some((name, digest)) = text.split_once("@sha256:") {
        return format!("{name}@sha256:{}", digest.get(..12).unwrap_or(digest));
    }
    let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(80).collect();
    if line.len() < text.len() { format!("{line}…") } else { line }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn resource(json: &str) -> Resource {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn a_change_is_told_without_the_content() {
        let before = resource(
            r#"{"id":"a","kind":"file","spec":{"path":"/a","content":{"text":"geheim"},"mode":"0644"}}"#,
        );
        let after = resource(
            r#"{"id":"a","kind":"file","spec":{"path":"/a","content":{"text":"secrets"},"mode":"0600"}}"#,
        );
        assert_eq!(
            differences(&before, &after),
            ["content.text: 6 bytes become 7 others", "mode: 0644 becomes 0600"]
        );
        assert_eq!(differences(&after, &after), Vec::<String>::new());
        assert_eq!(describe(&after.spec), ["mode 0600", "7 bytes"]);
    }

    #[test]
    fn a_change_of_the_host_is_told_by_version_and_short_digest() {
        let host = |version: &str, digit: &str| {
            let digest = digit.repeat(64);
            resource(&format!(
                r#"{{"id":"h","kind":"host","spec":{{"version":"{version}","digest":"sha256:{digest}","source":"bundle"}}}}"#
            ))
        };
        let (before, after) = (host("0.1.0", "a"), host("0.2.0", "b"));
        assert_eq!(describe(&after.spec), ["version 0.2.0", "sha256:bbbbbbbbbbbb"]);
        let words =
            ["digest: sha256:aaaaaaaaaaaa becomes sha256:bbbbbbbbbbbb", "version: 0.1.0 becomes 0.2.0"];
        assert_eq!(differences(&before, &after), words);
    }

    #[test]
    fn that_a_resource_is_only_observed_is_told() {
        let kept = resource(r#"{"id":"a","kind":"volume","spec":{"name":"a"}}"#);
        let observed = Resource { observe_only: true, ..kept.clone() };
        assert_eq!(differences(&kept, &observed), ["is only observed from then on"]);
        assert_eq!(differences(&observed, &kept), ["is kept as declared from then on"]);
    }

    #[test]
    fn a_change_of_a_container_is_told_by_member() {
        let image = |digit: &str| format!("mesh/hello@sha256:{}", digit.repeat(64));
        let before = resource(&format!(
            r#"{{"id":"a","kind":"container","spec":{{"name":"a","image":"{}","environment":{{"KEY":"geheim"}}}}}}"#,
            image("a")
        ));
        let after = resource(&format!(
            r#"{{"id":"a","kind":"container","after":["b"],"spec":{{"name":"a","image":"{}","user":"nobody","memory_bytes":5}}}}"#,
            image("b")
        ));
        assert_eq!(
            differences(&before, &after),
            [
                "environment changes",
                "image: mesh/hello@sha256:aaaaaaaaaaaa becomes mesh/hello@sha256:bbbbbbbbbbbb",
                "memory_bytes: 5",
                "user: nobody",
                "what it waits for changes"
            ]
        );
    }
}
