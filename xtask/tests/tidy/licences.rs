//! Licences, bans and sources of everything we link, judged by `deny.toml` over what cargo itself resolved.
//!
//! It is the part of cargo-deny that fits into seconds; the tool itself runs in `make check-long`. It never fetches.

use std::collections::BTreeSet;
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

/// The strings of an array in `deny.toml`, or the `crate` of its tables.
fn strings(deny: &toml::Table, section: &str, key: &str) -> BTreeSet<String> {
    let array = deny.get(section).and_then(|table| table.get(key)?.as_array());
    let string =
        |value: &toml::Value| value.as_str().or_else(|| value.get("crate")?.as_str()).map(str::to_owned);
    array.into_iter().flatten().filter_map(string).collect()
}

/// Every package cargo resolved for the systems we deliver to.
fn packages(checkout: &Checkout, targets: &BTreeSet<String>) -> Vec<Value> {
    let mut metadata = Command::new(env!("CARGO"));
    metadata.args(["metadata", "--format-version", "1", "--locked", "--offline"]).current_dir(&checkout.root);
    for target in targets {
        metadata.args(["--filter-platform", target]);
    }
    let said = metadata.output().unwrap();
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    let said: Value = serde_json::from_slice(&said.stdout).unwrap();
    said["packages"].as_array().cloned().unwrap_or_default()
}

fn complaints_about(package: &Value, allowed: &BTreeSet<String>, banned: &BTreeSet<String>) -> Vec<String> {
    let text = |key: &str| package[key].as_str().unwrap_or_default();
    let name = format!("{} {}", text("name"), text("version"));
    let mut complaints = Vec::new();
    if !is_allowed(text("license"), allowed) {
        complaints.push(format!("{name}: its licence `{}` is not on the list of deny.toml", text("license")));
    }
    if banned.contains(text("name")) {
        complaints.push(format!(
            "{name}: banned by deny.toml, which says why; `cargo tree --invert {}`",
            text("name")
        ));
    }
    if package["source"].as_str().is_some_and(|source| !source.starts_with("registry+")) {
        complaints.push(format!("{name}: comes from {} and not from the registry", text("source")));
    }
    complaints
}

#[test]
fn what_we_link_is_allowed() {
    let checkout = Checkout::read();
    let deny: toml::Table = checkout.texts["deny.toml"].parse().unwrap();
    let (allowed, banned) = (strings(&deny, "licenses", "allow"), strings(&deny, "bans", "deny"));
    assert!(allowed.len() > 5 && banned.len() > 5, "deny.toml has lost its lists");
    let packages = packages(&checkout, &strings(&deny, "graph", "targets"));
    assert!(packages.len() > 20, "cargo named only {} packages", packages.len());
    let complaints = packages.iter().flat_map(|package| complaints_about(package, &allowed, &banned));
    expect_none(&complaints.collect::<Vec<_>>());
    let registries: BTreeSet<&str> =
        packages.iter().filter_map(|package| package["source"].as_str()).collect();
    assert!(registries.len() <= 1, "one registry and no more: {registries:?}");
}

#[test]
fn a_licence_a_ban_and_a_foreign_source_are_seen() {
    let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
    let allowed = set(&["MIT", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "ISC"]);
    for good in [
        "MIT",
        "MIT OR GPL-3.0",
        "MIT/GPL-2.0",
        "(MIT OR GPL-3.0) AND ISC",
        "Apache-2.0 WITH LLVM-exception OR X",
    ] {
        assert!(is_allowed(good, &allowed), "{good}");
    }
    for bad in
        ["", "GPL-3.0", "MIT AND GPL-3.0", "(MIT", "MIT ISC", "MIT WITH X", "GPL-3.0 OR (MIT AND AGPL-3.0)"]
    {
        assert!(!is_allowed(bad, &allowed), "{bad}");
    }
    let package = |name: &str, license: &str, source: &str| serde_json::json!({ "name": name, "version": "1", "license": license, "source": source });
    let seen = |package: &Value| complaints_about(package, &allowed, &set(&["openssl"])).len();
    assert_eq!(seen(&package("a", "MIT", "registry+x")), 0);
    assert_eq!(seen(&package("a", "AGPL-3.0", "registry+x")), 1);
    assert_eq!(seen(&package("openssl", "MIT", "registry+x")), 1);
    assert_eq!(seen(&package("a", "MIT", "git+x")), 1);
}
