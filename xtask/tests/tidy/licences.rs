//! Licences, bans and sources of everything we link, judged by `deny.toml` over what cargo itself resolved.
//!
//! It is the part of cargo-deny that fits into seconds; the tool itself runs in `make check-long`. It never fetches.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

use crate::checkout::{Checkout, expect_none};

/// Whether an SPDX expression can be satisfied by the allowed licences. `A/B` is the old way to write `A OR B`.
fn is_allowed(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut at = 0;
    let verdict = any_of(&words, &mut at, allowed);
    verdict && at == words.len()
}

fn any_of(words: &[&str], at: &mut usize, allowed: &BTreeSet<String>) -> bool {
    let mut verdict = all_of(words, at, allowed);
    while words.get(*at) == Some(&"OR") {
        *at += 1;
        verdict |= all_of(words, at, allowed);
    }
    verdict
}

fn all_of(words: &[&str], at: &mut usize, allowed: &BTreeSet<String>) -> bool {
    let mut verdict = one(words, at, allowed);
    while words.get(*at) == Some(&"AND") {
        *at += 1;
        verdict &= one(words, at, allowed);
    }
    verdict
}

fn one(words: &[&str], at: &mut usize, allowed: &BTreeSet<String>) -> bool {
    let Some(word) = words.get(*at) else { return false };
    *at += 1;
    if *word == "(" {
        let verdict = any_of(words, at, allowed);
        let closed = words.get(*at) == Some(&")");
        *at += 1;
        return verdict && closed;
    }
    let mut licence = (*word).to_owned();
    if words.get(*at) == Some(&"WITH") {
        let exception = words.get(*at + 1).copied().unwrap_or_default();
        licence = format!("{licence} WITH {exception}");
        *at += 2;
    }
    allowed.contains(&licence)
}

/// The strings of an array in `deny.toml`.
fn strings(value: Option<&toml::Value>) -> BTreeSet<String> {
    let array = value.and_then(toml::Value::as_array);
    array.into_iter().flatten().filter_map(|value| value.as_str().map(str::to_owned)).collect()
}

/// What `deny.toml` says.
struct Deny {
    targets: BTreeSet<String>,
    allowed: BTreeSet<String>,
    /// Each banned crate, and the crates through which it may come in all the same.
    banned: BTreeMap<String, BTreeSet<String>>,
}

impl Deny {
    fn read(text: &str) -> Self {
        let deny: toml::Table = text.parse().unwrap();
        let value = |section: &str, key: &str| deny.get(section).and_then(|table| table.get(key));
        let bans = value("bans", "deny").and_then(toml::Value::as_array);
        let ban =
            |ban: &toml::Value| Some((ban.get("crate")?.as_str()?.to_owned(), strings(ban.get("wrappers"))));
        Self {
            targets: strings(value("graph", "targets")),
            allowed: strings(value("licenses", "allow")),
            banned: bans.into_iter().flatten().filter_map(ban).collect(),
        }
    }
}

/// A package cargo resolved, and the names of those that depend on it.
struct Linked {
    name: String,
    version: String,
    licence: String,
    source: Option<String>,
    parents: BTreeSet<String>,
}

/// Every package cargo resolved for the systems we deliver to.
fn packages(checkout: &Checkout, targets: &BTreeSet<String>) -> Vec<Linked> {
    let mut metadata = Command::new(env!("CARGO"));
    metadata.args(["metadata", "--format-version", "1", "--locked", "--offline"]).current_dir(&checkout.root);
    for target in targets {
        metadata.args(["--filter-platform", target]);
    }
    let said = metadata.output().unwrap();
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    let said: Value = serde_json::from_slice(&said.stdout).unwrap();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let packages = list(&said["packages"]);
    let names: BTreeMap<String, String> = packages
        .iter()
        .filter_map(|package| Some((text(&package["id"])?, text(&package["name"])?)))
        .collect();
    let mut parents: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for node in list(&said["resolve"]["nodes"]) {
        for dependency in list(&node["dependencies"]).iter().filter_map(text) {
            let parent = text(&node["id"]).and_then(|id| names.get(&id).cloned());
            parents.entry(dependency).or_default().extend(parent);
        }
    }
    let linked = |package: &Value| {
        let id = text(&package["id"])?;
        Some(Linked {
            name: text(&package["name"])?,
            version: text(&package["version"])?,
            licence: text(&package["license"]).unwrap_or_default(),
            source: text(&package["source"]),
            parents: parents.get(&id).cloned().unwrap_or_default(),
        })
    };
    packages.iter().filter_map(linked).collect()
}

fn complaints_about(package: &Linked, deny: &Deny) -> Vec<String> {
    let name = format!("{} {}", package.name, package.version);
    let mut complaints = Vec::new();
    if !is_allowed(&package.licence, &deny.allowed) {
        complaints.push(format!("{name}: its licence `{}` is not on the list of deny.toml", package.licence));
    }
    if let Some(wrappers) = deny.banned.get(&package.name)
        && (wrappers.is_empty() || !package.parents.is_subset(wrappers))
    {
        complaints
            .push(format!("{name}: banned by deny.toml, which says why; used by {:?}", package.parents));
    }
    if let Some(source) = &package.source
        && !source.starts_with("registry+")
    {
        complaints.push(format!("{name}: comes from {source} and not from the registry"));
    }
    complaints
}

#[test]
fn what_we_link_is_allowed() {
    let checkout = Checkout::read();
    let deny = Deny::read(&checkout.texts["deny.toml"]);
    assert!(deny.allowed.len() > 5 && deny.banned.len() > 5, "deny.toml has lost its lists");
    let packages = packages(&checkout, &deny.targets);
    assert!(packages.len() > 20, "cargo named only {} packages", packages.len());
    expect_none(&packages.iter().flat_map(|package| complaints_about(package, &deny)).collect::<Vec<_>>());
    let registries: BTreeSet<_> = packages.iter().filter_map(|package| package.source.as_ref()).collect();
    assert!(registries.len() <= 1, "one registry and no more: {registries:?}");
}

#[test]
fn a_licence_a_ban_and_a_foreign_source_are_seen() {
    let deny = Deny::read(
        r#"
        licenses.allow = ["MIT", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "ISC"]
        bans.deny = [{ crate = "openssl" }, { crate = "system-trust", wrappers = ["verifier"] }]
        "#,
    );
    for good in [
        "MIT",
        "MIT OR GPL-3.0",
        "MIT/GPL-2.0",
        "(MIT OR GPL-3.0) AND ISC",
        "Apache-2.0 WITH LLVM-exception OR X",
    ] {
        assert!(is_allowed(good, &deny.allowed), "{good}");
    }
    for bad in
        ["", "GPL-3.0", "MIT AND GPL-3.0", "(MIT", "MIT ISC", "MIT WITH X", "GPL-3.0 OR (MIT AND AGPL-3.0)"]
    {
        assert!(!is_allowed(bad, &deny.allowed), "{bad}");
    }
    let seen = |name: &str, licence: &str, source: &str, parents: &[&str]| {
        let parents = parents.iter().map(|parent| (*parent).to_owned()).collect();
        let [name, version, licence, source] = [name, "1", licence, source].map(str::to_owned);
        complaints_about(&Linked { name, version, licence, source: Some(source), parents }, &deny).len()
    };
    assert_eq!(seen("a", "MIT", "registry+x", &["b"]), 0);
    assert_eq!(seen("a", "AGPL-3.0", "registry+x", &["b"]), 1);
    assert_eq!(seen("openssl", "MIT", "registry+x", &["b"]), 1);
    assert_eq!(seen("system-trust", "MIT", "registry+x", &["verifier"]), 0);
    assert_eq!(seen("system-trust", "MIT", "registry+x", &["verifier", "lapin"]), 1);
    assert_eq!(seen("a", "MIT", "git+x", &["b"]), 1);
}
