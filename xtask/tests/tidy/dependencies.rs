//! Dependency direction: which of our crates may name which, and which libraries a layer may not name at all.
//!
//! ids <- vocabularies <- mechanisms <- contexts <- control. Every crate stands in the table; a crate that is not there
//! has not been thought about. The table judges manifests and never sources: what is not in a manifest cannot be named.

use std::collections::BTreeSet;

use crate::checkout::{Checkout, expect_none};

/// A crate, and those of ours that it may depend on.
type Row = (&'static str, &'static [&'static str]);

const VOCABULARY: &[Row] = &[
    ("mesh-ids", &[]),
    ("mesh-seal", &["mesh-ids"]),
    ("mesh-authz", &["mesh-ids"]),
    ("mesh-wire", &["mesh-ids", "mesh-seal"]),
    ("mesh-events", &["mesh-ids"]),
    ("mesh-manifest", &["mesh-ids", "mesh-wire"]),
    ("mesh-api", &["mesh-ids"]),
];

const MECHANISMS: &[Row] = &[
    ("mesh-bundle", &["mesh-ids", "mesh-wire"]),
    ("mesh-mint", &["mesh-bundle", "mesh-seal"]),
    ("mesh-store", &["mesh-ids"]),
    ("mesh-record", &["mesh-ids", "mesh-events", "mesh-store"]),
    ("mesh-link", &["mesh-ids", "mesh-seal"]),
];

/// What a context may name: never another context, never HTTP, never the broker.
const OF_A_CONTEXT: &[&str] = &[
    "mesh-ids",
    "mesh-seal",
    "mesh-authz",
    "mesh-wire",
    "mesh-events",
    "mesh-manifest",
    "mesh-record",
    "mesh-store",
];

const CONTEXTS: &[Row] = &[
    ("mesh-inventory", OF_A_CONTEXT),
    ("mesh-config", OF_A_CONTEXT),
    ("mesh-connectivity", OF_A_CONTEXT),
    ("mesh-provisioning", OF_A_CONTEXT),
    ("mesh-delivery", OF_A_CONTEXT),
    ("mesh-observability", OF_A_CONTEXT),
    ("mesh-identity", OF_A_CONTEXT),
];

const PROGRAMS: &[Row] = &[
    (
        "mesh-control",
        &[
            "mesh-ids",
            "mesh-seal",
            "mesh-authz",
            "mesh-wire",
            "mesh-events",
            "mesh-manifest",
            "mesh-api",
            "mesh-bundle",
            "mesh-store",
            "mesh-record",
            "mesh-link",
            "mesh-inventory",
            "mesh-config",
            "mesh-connectivity",
            "mesh-provisioning",
            "mesh-delivery",
            "mesh-observability",
            "mesh-identity",
        ],
    ),
    ("mesh-host", &["mesh-ids", "mesh-seal", "mesh-wire", "mesh-link", "mesh-bundle", "mesh-mint"]),
    ("mesh-client", &["mesh-ids", "mesh-api"]),
    ("mesh", &["mesh-ids", "mesh-manifest", "mesh-api", "mesh-client"]),
];

/// Programs and libraries that only tests, benches and the lab use.
const AROUND: &[Row] = &[
    (
        "mesh-testkit",
        &["mesh-ids", "mesh-seal", "mesh-wire", "mesh-events", "mesh-api", "mesh-store", "mesh-link"],
    ),
    ("mesh-fuzz", &["mesh-ids", "mesh-seal", "mesh-wire", "mesh-manifest", "mesh-host"]),
    ("mesh-lab", &["mesh-ids", "mesh-api", "mesh-client", "mesh-bundle", "mesh-testkit"]),
    ("mesh-bench", &["mesh-ids", "mesh-wire", "mesh-api", "mesh-client", "mesh-lab", "mesh-testkit"]),
    (
        "mesh-sim",
        &[
            "mesh-ids",
            "mesh-seal",
            "mesh-wire",
            "mesh-api",
            "mesh-link",
            "mesh-control",
            "mesh-host",
            "mesh-testkit",
        ],
    ),
    ("xtask", &["mesh-ids", "mesh-wire", "mesh-bundle"]),
];

/// Libraries a group of crates may not name.
struct Unwanted {
    why: &'static str,
    groups: &'static [&'static [Row]],
    libraries: &'static [&'static str],
}

const UNWANTED: &[Unwanted] = &[
    Unwanted {
        why: "vocabulary has no I/O and no async",
        groups: &[VOCABULARY],
        libraries: &["tokio", "sqlx", "lapin", "axum", "hyper", "reqwest", "bollard", "zbus", "tracing"],
    },
    Unwanted {
        why: "a context knows no HTTP and no broker",
        groups: &[CONTEXTS],
        libraries: &["lapin", "axum", "hyper", "reqwest", "bollard", "zbus", "utoipa"],
    },
    Unwanted {
        why: "only programs use it",
        groups: &[VOCABULARY, MECHANISMS, CONTEXTS],
        libraries: &["anyhow"],
    },
];

/// The same for single crates.
const UNWANTED_IN: &[(&str, &[&str])] = &[
    ("mesh-host", &["sqlx", "axum", "utoipa", "reqwest"]),
    ("mesh", &["sqlx", "lapin", "axum", "bollard", "zbus"]),
    ("mesh-client", &["sqlx", "lapin", "axum", "bollard", "zbus", "anyhow"]),
    ("mesh-control", &["bollard", "zbus"]),
    ("xtask", &["tokio", "sqlx", "lapin", "axum", "reqwest"]),
];

/// Crates whose tests use a crate that stands beside them: the control plane is tried with the client people use.
const TESTED_WITH: &[(&str, &str)] = &[("mesh-control", "mesh-client")];

fn all() -> impl Iterator<Item = &'static Row> {
    [VOCABULARY, MECHANISMS, CONTEXTS, PROGRAMS, AROUND].into_iter().flatten()
}

/// The names in `[dependencies]`, or in `[dev-dependencies]` and `[build-dependencies]`.
fn named(manifest: &toml::Table, sections: &[&str]) -> BTreeSet<String> {
    let tables = sections.iter().filter_map(|section| manifest.get(*section)?.as_table());
    tables.flat_map(|table| table.keys().cloned()).collect()
}

/// What is wrong with one manifest.
fn complaints_about(path: &str, text: &str) -> Vec<String> {
    let manifest: toml::Table = match text.parse() {
        Ok(manifest) => manifest,
        Err(error) => return vec![format!("{path}: {error}")],
    };
    let Some(name) = manifest.get("package").and_then(|package| package.get("name")?.as_str()) else {
        return Vec::new();
    };
    let mut complaints = Vec::new();
    let Some((_, allowed)) = all().find(|(row, _)| *row == name) else {
        return vec![format!(
            "{path}: {name} is not in the table of xtask/tests/tidy/dependencies.rs: which layer is it?"
        )];
    };
    let used = named(&manifest, &["dependencies"]);
    let used_by_tests = named(&manifest, &["dev-dependencies", "build-dependencies"]);
    for other in used.union(&used_by_tests).filter(|other| all().any(|(row, _)| row == other)) {
        let for_tests_only = !used.contains(other)
            && (other == "mesh-testkit" || TESTED_WITH.contains(&(name, other.as_str())));
        if !allowed.contains(&&**other) && !for_tests_only {
            complaints.push(format!("{path}: {name} may not depend on {other}"));
        }
    }
    for Unwanted { why, groups, libraries } in UNWANTED {
        if groups.iter().any(|group| group.iter().any(|(row, _)| *row == name)) {
            let found = libraries.iter().filter(|library| used.contains(**library));
            complaints.extend(found.map(|library| format!("{path}: {name} names {library}, but {why}")));
        }
    }
    for library in UNWANTED_IN.iter().filter(|(row, _)| *row == name).flat_map(|(_, libraries)| *libraries) {
        if used.contains(*library) {
            complaints.push(format!("{path}: {name} may not name {library}"));
        }
    }
    if let Some(folder) = path.strip_prefix("crates/").and_then(|rest| rest.strip_suffix("/Cargo.toml"))
        && folder != name
    {
        complaints.push(format!("{path}: the folder is {folder} but the crate is {name}"));
    }
    let lints = manifest.get("lints").and_then(|lints| lints.get("workspace")?.as_bool());
    if lints != Some(true) {
        complaints.push(format!("{path}: {name} does not say `[lints] workspace = true`"));
    }
    complaints
}

#[test]
fn every_crate_depends_only_on_what_its_layer_may_see() {
    let checkout = Checkout::read();
    let manifests = checkout.ending("Cargo.toml");
    expect_none(&manifests.flat_map(|(path, text)| complaints_about(path, text)).collect::<Vec<_>>());
}

#[test]
fn the_table_points_downwards() {
    // A row may name only rows above it, so that no circle and no upward arrow can stand in the table itself.
    let mut above: Vec<&str> = Vec::new();
    for (name, allowed) in [VOCABULARY, MECHANISMS, CONTEXTS, PROGRAMS, AROUND].into_iter().flatten() {
        for other in *allowed {
            assert!(above.contains(other), "the row of {name} names {other}, which does not stand above it");
        }
        above.push(name);
    }
}

#[test]
fn a_wrong_manifest_is_seen() {
    let manifest = |name: &str, rest: &str| {
        complaints_about(
            &format!("crates/{name}/Cargo.toml"),
            &format!("[package]\nname = \"{name}\"\n[lints]\nworkspace = true\n{rest}"),
        )
    };
    assert_eq!(manifest("mesh-seal", "[dependencies]\nmesh-ids = {}\n"), Vec::<String>::new());
    assert_eq!(manifest("mesh-seal", "[dev-dependencies]\nmesh-testkit = {}\n"), Vec::<String>::new());
    assert_eq!(
        manifest("mesh-seal", "[dependencies]\nmesh-testkit = {}\n").len(),
        1,
        "a test library in the product"
    );
    assert_eq!(manifest("mesh-seal", "[dependencies]\nmesh-wire = {}\n").len(), 1, "upwards");
    assert_eq!(
        manifest("mesh-inventory", "[dependencies]\nmesh-identity = {}\n").len(),
        1,
        "context to context"
    );
    assert_eq!(manifest("mesh-host", "[dependencies]\nmesh-events = {}\nsqlx = {}\n").len(), 2, "the host");
    assert_eq!(manifest("mesh-wire", "[dependencies]\ntokio = {}\n").len(), 1, "async in vocabulary");
    assert_eq!(manifest("mesh-store", "[dependencies]\nanyhow = {}\n").len(), 1, "anyhow in a library");
    assert_eq!(manifest("mesh-new", "").len(), 1, "an unknown crate");
    assert_eq!(
        complaints_about("crates/x/Cargo.toml", "[package]\nname = \"mesh-ids\"\n").len(),
        2,
        "folder and lints"
    );
}
