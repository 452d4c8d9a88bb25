//! Frozen files: a migration that landed and a golden file of a released wire version never change.
//!
//! `frozen.lock` at the root holds the SHA-256 of each. `MESH_BLESS=1` adds files that are new; it never replaces a line,
//! so a changed file stays a failure until the change is taken back.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

use crate::checkout::Checkout;

const LOCK: &str = "frozen.lock";

/// Whether a file is frozen once it has landed.
fn is_frozen(path: &str) -> bool {
    path.starts_with("crates/") && path.contains("/migrations/")
        || path.starts_with("crates/mesh-wire/") && path.contains("/golden/released/")
}

fn hash(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

/// What is wrong, and what the lock file would say once the new files are blessed.
fn compare(lock: &str, files: &BTreeMap<String, String>) -> (Vec<String>, String) {
    let mut complaints = Vec::new();
    let mut locked: BTreeMap<&str, &str> = BTreeMap::new();
    for line in lock.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        match line.split_once("  ") {
            Some((hash, path)) => drop(locked.insert(path, hash)),
            None => complaints.push(format!("{LOCK}: `{line}` is not `HASH  PATH`")),
        }
    }
    for (path, hash) in &locked {
        match files.get(*path) {
            None => complaints.push(format!("{path} has landed and is gone; it is frozen, put it back")),
            Some(now) if now != hash => {
                complaints.push(format!(
                    "{path} has landed and has since been edited; put it back, write a new file"
                ));
            }
            Some(_) => {}
        }
    }
    let new: Vec<_> = files.iter().filter(|(path, _)| !locked.contains_key(path.as_str())).collect();
    complaints
        .extend(new.iter().map(|(path, _)| format!("{path} is new: add it to {LOCK} with MESH_BLESS=1")));
    let mut all: BTreeMap<&str, &str> = locked;
    all.extend(new.iter().map(|(path, hash)| (path.as_str(), hash.as_str())));
    let mut blessed = String::from(
        "# SHA-256 of files that never change once they have landed: migrations, released wire versions.\n",
    );
    for (path, hash) in all {
        let _ = writeln!(blessed, "{hash}  {path}");
    }
    (complaints, blessed)
}

#[test]
fn what_has_landed_is_not_edited() {
    let checkout = Checkout::read();
    let frozen = checkout.texts.iter().filter(|(path, _)| is_frozen(path));
    let files: BTreeMap<String, String> = frozen.map(|(path, text)| (path.clone(), hash(text))).collect();
    let lock = checkout.texts.get(LOCK).map_or("", String::as_str);
    let (mut complaints, blessed) = compare(lock, &files);
    if std::env::var_os("MESH_BLESS").is_some() {
        std::fs::write(checkout.root.join(LOCK), &blessed).unwrap();
        complaints = compare(&blessed, &files).0;
    }
    crate::checkout::expect_none(&complaints);
}

#[test]
fn an_edit_a_loss_and_a_newcomer_are_seen() {
    let files = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
        pairs.iter().map(|(path, text)| ((*path).to_owned(), hash(text))).collect()
    };
    let landed = files(&[("a.sql", "one")]);
    let (complaints, lock) = compare("", &landed);
    assert_eq!(complaints.len(), 1, "a new file is announced");
    assert_eq!(compare(&lock, &landed).0.len(), 0, "a blessed file is fine");
    assert_eq!(compare(&lock, &files(&[("a.sql", "two")])).0.len(), 1, "an edited file");
    assert_eq!(compare(&lock, &files(&[])).0.len(), 1, "a lost file");
    let (_, again) = compare(&lock, &files(&[("a.sql", "two")]));
    assert_eq!(again, lock, "blessing never replaces a hash");
    assert!(is_frozen("crates/mesh-inventory/migrations/0001_nodes.sql"));
    assert!(!is_frozen("crates/mesh-inventory/src/store/nodes.sql"));
}
