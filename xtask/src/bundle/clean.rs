//! What no image carries: traces of when and where it was built, and files that nothing in it reads.
//!
//! Pure: a tree in, a tree out. Digests are repeatable because of the first list; images are small because of the second.
//! Called by [`super::image`].

use std::path::Path;
use std::sync::Arc;

use mesh_bundle::tree::{Content, Kind, Node, Tree};

/// Traces of the build, in every image. `X/*` empties a folder and keeps it.
const TRACES: &[&str] = &[
    "dev/*",
    "proc/*",
    "run/*",
    "sys/*",
    "tmp/*",
    "var/tmp/*",
    "var/cache/*/*",
    "var/log/*",
    "var/lib/apt/lists/*",
    "var/lib/apt/extended_states",
    "var/lib/dpkg/*-old",
    "var/lib/dpkg/lock*",
    "var/lib/dbus/machine-id",
    "var/lib/systemd/catalog/database",
    "var/lib/systemd/random-seed",
    "etc/*-",
    "etc/.pwd.lock",
    "etc/apt/sources.list",
    "etc/apt/sources.list.d/*",
    "etc/hostname",
    "etc/resolv.conf",
    "etc/ssl/private/ssl-cert-snakeoil.key",
    "etc/ssl/certs/ssl-cert-snakeoil.pem",
    "usr/lib/python3/dist-packages/*/__pycache__",
];

/// Read by people at a terminal, who are elsewhere.
const UNREAD: &[&str] = &[
    "usr/share/doc/*",
    "usr/share/info",
    "usr/share/lintian",
    "usr/share/locale/*",
    "usr/share/man",
    "usr/share/bug",
    "usr/share/doc-base",
];

/// Licences travel with what they license.
const KEPT: &[&str] = &["usr/share/doc/*/copyright"];

/// Removes what no image carries, and what this one does not.
pub(crate) fn clean(tree: &mut Tree, drop: &[String], keep: &[String]) {
    let dropped = |path: &Path| {
        TRACES.iter().chain(UNREAD).copied().chain(drop.iter().map(String::as_str)).any(|p| covers(p, path))
    };
    let kept =
        |path: &Path| KEPT.iter().copied().chain(keep.iter().map(String::as_str)).any(|p| reaches(p, path));
    tree.retain(|path, node| kept(path) || !(dropped(path) || names_the_machine(node)));
    tree.retain(|path, node| {
        let replaced = match (path.to_str(), &node.kind) {
            (Some("etc/machine-id"), _) => Some(Vec::new()),
            (Some("etc/shadow"), Kind::File(content)) => {
                content.read().ok().map(|bytes| without_dates(&bytes))
            }
            _ => None,
        };
        if let Some(bytes) = replaced {
            node.kind = Kind::File(Arc::new(Content::Bytes(bytes)));
        }
        true
    });
    drop_empty_documentation(tree);
}

/// The package ssl-cert makes a certificate for the building machine's host name, and links it by a hash of that name.
fn names_the_machine(node: &Node) -> bool {
    matches!(&node.kind, Kind::Symlink(target) if target.ends_with("ssl-cert-snakeoil.pem"))
}

/// Folders of documentation that are left without a licence.
fn drop_empty_documentation(tree: &mut Tree) {
    let doc = Path::new("usr/share/doc");
    let full: std::collections::BTreeSet<_> = tree
        .iter()
        .filter(|(path, _)| path.starts_with(doc))
        .filter_map(|(path, _)| path.parent())
        .map(Path::to_owned)
        .collect();
    tree.retain(|path, node| {
        !path.starts_with(doc) || !matches!(node.kind, Kind::Directory) || full.contains(path)
    });
}

/// The day of the last change of a password is the day of the build; nobody here has a password.
fn without_dates(shadow: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(shadow);
    let mut lines = String::new();
    for line in text.lines() {
        let mut fields: Vec<&str> = line.split(':').collect();
        if let Some(day) = fields.get_mut(2) {
            *day = "20089";
        }
        lines.push_str(&fields.join(":"));
        lines.push('\n');
    }
    lines.into_bytes()
}

/// Whether `path` is what the pattern names, or lies below it.
fn covers(pattern: &str, path: &Path) -> bool {
    let mut parts = path.components();
    pattern
        .split('/')
        .all(|wanted| parts.next().and_then(|p| p.as_os_str().to_str()).is_some_and(|p| matches(wanted, p)))
}

/// Whether `path` is what the pattern names, lies below it, or leads to it.
fn reaches(pattern: &str, path: &Path) -> bool {
    let mut wanted = pattern.split('/');
    path.components().all(|part| match (wanted.next(), part.as_os_str().to_str()) {
        (Some(wanted), Some(part)) => matches(wanted, part),
        (None, _) => true,
        (Some(_), None) => false,
    })
}

/// One name against one pattern, in which `*` stands for anything.
fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((front, back)) => {
            let Some(rest) = name.strip_prefix(front) else { return false };
            rest.char_indices().map(|(at, _)| at).chain([rest.len()]).any(|at| matches(back, &rest[at..]))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_cover_whole_folders_and_parts_of_names() {
        assert!(covers("var/log/*", Path::new("var/log/apt/term.log")));
        assert!(!covers("var/log/*", Path::new("var/log")));
        assert!(covers("etc/*-", Path::new("etc/passwd-")));
        assert!(!covers("etc/*-", Path::new("etc/passwd")));
        assert!(covers("usr/share/man", Path::new("usr/share/man/man1/ls.1.gz")));
        assert!(!covers("usr/share/man", Path::new("usr/share/mandrake")));
    }

    #[test]
    fn what_is_kept_is_kept_with_the_folders_above_it() {
        for path in ["usr", "usr/share/doc", "usr/share/doc/bash", "usr/share/doc/bash/copyright"] {
            assert!(reaches("usr/share/doc/*/copyright", Path::new(path)), "{path}");
        }
        assert!(!reaches("usr/share/doc/*/copyright", Path::new("usr/share/doc/bash/README")));
    }

    #[test]
    fn the_day_of_the_build_does_not_show_in_the_shadow_file() {
        assert_eq!(without_dates(b"root:*:19876:0:99999:7:::\n"), b"root:*:20089:0:99999:7:::\n");
    }

    #[test]
    fn a_tree_loses_its_traces_and_keeps_its_licences() {
        let mut tree = Tree::default();
        for path in
            ["usr/share/doc/a/copyright", "usr/share/doc/b/NEWS", "var/log/dpkg.log", "etc/machine-id"]
        {
            let content = Kind::File(Arc::new(Content::Bytes(b"x".to_vec())));
            tree.insert(path, Node::of_root(content, 0o644));
        }
        let link = Kind::Symlink("ssl-cert-snakeoil.pem".into());
        tree.insert("etc/62742064.0", Node::of_root(link, 0o777));
        clean(&mut tree, &[], &[]);
        let left: Vec<String> = tree.iter().map(|(path, _)| path.display().to_string()).collect();
        let wanted = [
            "etc",
            "etc/machine-id",
            "usr",
            "usr/share",
            "usr/share/doc",
            "usr/share/doc/a",
            "usr/share/doc/a/copyright",
            "var",
            "var/log",
        ];
        assert_eq!(left, wanted);
    }
}
