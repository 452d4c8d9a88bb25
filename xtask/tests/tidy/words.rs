//! Words that may stand nowhere: hosts of package registries, paths of a developer's machine, notes of unfinished work.
//!
//! The words are put together here from halves, so that this file does not contain them.

use crate::checkout::{Checkout, expect_none};

/// Each word in two halves, and what to do instead.
const WORDS: &[(&str, &str, &str)] = &[
    ("TO", "DO", "finish it, or say in CHANGELOG.md what is not there yet"),
    ("FIX", "ME", "finish it, or say in CHANGELOG.md what is not there yet"),
    ("XX", "X:", "finish it, or say in CHANGELOG.md what is not there yet"),
    ("crates", ".io", REGISTRY),
    ("pypi", ".org", REGISTRY),
    ("npmjs", ".", REGISTRY),
    ("docker", ".io/", REGISTRY),
    ("ghcr", ".io", REGISTRY),
    ("quay", ".io", REGISTRY),
    ("gcr", ".io", REGISTRY),
    ("deb.debian", ".org", REGISTRY),
    ("ftp.debian", ".org", REGISTRY),
    ("snapshot.debian", ".org", REGISTRY),
    ("/work/", "main", MACHINE),
    ("/work/", "shared", MACHINE),
    ("/root/", ".cache", MACHINE),
    ("/root/", ".cargo", MACHINE),
    ("/home/", "runner", MACHINE),
    ("/tmp/", "novox", MACHINE),
];

const REGISTRY: &str = "no host of a package registry stands in the tree: the machine's own sources say where packages come from";
const MACHINE: &str = "a path of one developer's machine";

/// Lock files name where each package came from; that is their job.
fn is_lock_file(path: &str) -> bool {
    ["Cargo.lock", "package-lock.json"]
        .iter()
        .any(|name| path == *name || path.ends_with(&format!("/{name}")))
}

fn complaints_about(path: &str, text: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    for (first, second, instead) in WORDS {
        let word = format!("{first}{second}");
        let found = text.lines().enumerate().filter(|(_, line)| contains(line, &word));
        complaints.extend(found.map(|(index, _)| format!("{path}:{}: `{word}`: {instead}", index + 1)));
    }
    complaints
}

/// A word of letters counts only where it stands alone: inside a longer word it does not.
fn contains(line: &str, word: &str) -> bool {
    let alone = word.chars().all(char::is_alphanumeric);
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        !alone || !(before.is_some_and(char::is_alphanumeric) || after.is_some_and(char::is_alphanumeric))
    })
}

#[test]
fn no_forbidden_word_stands_anywhere() {
    let checkout = Checkout::read();
    let files = checkout.texts.iter().filter(|(path, _)| !is_lock_file(path));
    expect_none(&files.flat_map(|(path, text)| complaints_about(path, text)).collect::<Vec<_>>());
}

#[test]
fn every_forbidden_word_is_seen() {
    for (first, second, _) in WORDS {
        let line = format!("see {first}{second} there");
        assert_eq!(complaints_about("a.md", &line).len(), 1, "{line}");
    }
    assert_eq!(complaints_about("a.md", "a plain line").len(), 0);
}
