//! What may be named only in its one place: SQL, files, processes, public events.
//!
//! It looks at the code of a file, not at its comments, and is blind to macros that hide a name: it stops accidents and
//! not malice.

use crate::checkout::{Checkout, expect_none};
use crate::sources::code_lines;

/// A rule about names: in files the folder test accepts, none of the words may stand.
struct Place {
    why: &'static str,
    applies: fn(&str) -> bool,
    words: &'static [&'static str],
}

const CONTEXTS: [&str; 7] =
    ["inventory", "config", "connectivity", "provisioning", "delivery", "observability", "identity"];

/// The path inside a context's `src/`, if it is one.
fn in_context(path: &str) -> Option<&str> {
    let (name, rest) = path.strip_prefix("crates/mesh-")?.split_once("/src/")?;
    CONTEXTS.contains(&name).then_some(rest)
}

/// The path inside the host's `src/`.
fn in_host(path: &str) -> Option<&str> {
    path.strip_prefix("crates/mesh-host/src/")
}

/// Whether a path inside `src/` is the module `name` or lies in its folder.
fn is_module(path: &str, name: &str) -> bool {
    path.strip_prefix(name).is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
}

const PLACES: &[Place] = &[
    Place {
        why: "the domain is pure: no database, no async",
        applies: |path| in_context(path).is_some_and(|inside| is_module(inside, "domain")),
        words: &["sqlx", "tokio", "SystemTime", "Instant"],
    },
    Place {
        why: "SQL stands in the context's store and nowhere else",
        applies: |path| {
            in_context(path).is_some_and(|inside| !is_module(inside, "store"))
                || ["crates/mesh-control/", "crates/mesh-host/", "crates/mesh/"]
                    .iter()
                    .any(|program| path.starts_with(program) && path.contains("/src/"))
        },
        words: &["sqlx::query", "QueryBuilder", "query_as(", "query_scalar("],
    },
    Place {
        why: "only publish.rs and react.rs of a context name public events",
        applies: |path| {
            in_context(path)
                .is_some_and(|inside| !is_module(inside, "publish") && !is_module(inside, "react"))
        },
        words: &["mesh_events"],
    },
    Place {
        why: "in the host only machine/, the ledger and the key store touch files and processes",
        applies: |path| {
            let doors = ["machine", "ledger", "keys"];
            in_host(path).is_some_and(|inside| !doors.iter().any(|door| is_module(inside, door)))
        },
        words: &[
            "std::fs",
            "std::process::Command",
            "tokio::fs",
            "tokio::process",
            "rustix::fs",
            "rustix::process",
        ],
    },
];

/// What stands where it may not in one file.
fn complaints_about(path: &str, text: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    // Unit tests may look at what the code around them may not touch, inside its file or in one of their own.
    if path.ends_with("/tests.rs") {
        return complaints;
    }
    let text = text.split("#[cfg(test)]").next().unwrap_or_default();
    for place in PLACES.iter().filter(|place| (place.applies)(path)) {
        for (number, line) in code_lines(text) {
            let found = place.words.iter().find(|word| names(line, word));
            complaints.extend(found.map(|word| format!("{path}:{number}: names {word}, but {}", place.why)));
        }
    }
    complaints
}

/// Whether a word stands in a line on its own: `sqlx` is not in `mysqlx`.
fn names(line: &str, word: &str) -> bool {
    let letter = |character: char| character.is_alphanumeric() || character == '_';
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        !before.is_some_and(letter) && (word.ends_with('(') || !after.is_some_and(letter))
    })
}

#[test]
fn everything_is_named_in_its_one_place() {
    let checkout = Checkout::read();
    let complaints = checkout.ending(".rs").flat_map(|(path, text)| complaints_about(path, text));
    expect_none(&complaints.collect::<Vec<_>>());
}

#[test]
fn a_name_out_of_place_is_seen() {
    let seen = |path: &str, line: &str| complaints_about(path, line).len();
    assert_eq!(seen("crates/mesh-host/src/host/tests.rs", "use std::fs;"), 0);
    assert_eq!(seen("crates/mesh-host/src/host.rs", "use std::fs;"), 1);
    assert_eq!(seen("crates/mesh-inventory/src/domain/node.rs", "use sqlx::PgPool;"), 1);
    assert_eq!(seen("crates/mesh-inventory/src/domain.rs", "let x = tokio::spawn(y);"), 1);
    assert_eq!(seen("crates/mesh-inventory/src/domain/node.rs", "// unlike sqlx::query"), 0, "a comment");
    assert_eq!(seen("crates/mesh-inventory/src/queries.rs", "sqlx::query(\"SELECT 1\")"), 1);
    assert_eq!(seen("crates/mesh-inventory/src/store/nodes.rs", "sqlx::query(\"SELECT 1\")"), 0);
    assert_eq!(seen("crates/mesh-control/src/serve.rs", "sqlx::query(\"SELECT 1\")"), 1);
    assert_eq!(seen("crates/mesh-identity/src/commands.rs", "use mesh_events::NodeJoined;"), 1);
    assert_eq!(seen("crates/mesh-identity/src/publish.rs", "use mesh_events::NodeJoined;"), 0);
    assert_eq!(seen("crates/mesh-host/src/intake.rs", "std::fs::read(path)"), 1);
    assert_eq!(seen("crates/mesh-host/src/machine/files.rs", "std::fs::read(path)"), 0);
    assert_eq!(seen("crates/mesh-host/src/ledger.rs", "use std::fs::File;"), 0);
    assert_eq!(seen("crates/mesh-host/src/machinery.rs", "use std::fs::File;"), 1, "a neighbour of machine/");
}
