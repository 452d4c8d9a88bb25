//! What every source file owes its reader: an opening `//!`, a size one can read, a name that says something.
//!
//! The exceptions are a list that may only shrink.

use crate::checkout::{Checkout, expect_none};

/// The longest file, in lines.
const LONGEST: usize = 600;

/// Files that are longer, with the length they may not pass. May only shrink; empty is the aim.
const LONGER: &[(&str, usize)] = &[];

/// Names that say nothing about what is inside.
const EMPTY_NAMES: [&str; 7] = ["util", "utils", "common", "helper", "helpers", "misc", "manager"];

/// The lines of a file without comments, with their numbers from 1.
pub(crate) fn code_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().filter_map(|(index, line)| {
        let code = line.split("//").next().unwrap_or_default();
        (!code.trim().is_empty()).then_some((index + 1, code))
    })
}

/// What is wrong with one source file.
fn complaints_about(path: &str, text: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    // The crate doc of a context is its README.
    if !text.starts_with("//!") && !text.starts_with("#![doc = include_str!(") {
        complaints
            .push(format!("{path}: does not open with //! (what it does, what it never does, who calls it)"));
    }
    if path.ends_with("/mod.rs") {
        complaints.push(format!("{path}: a module `x` is x.rs beside its folder, never x/mod.rs"));
    }
    let lines = text.lines().count();
    let longest = LONGER.iter().find(|(longer, _)| *longer == path).map_or(LONGEST, |(_, length)| *length);
    if lines > longest {
        complaints.push(format!(
            "{path}: {lines} lines where {longest} are allowed: one endpoint, kind or task a file"
        ));
    }
    for (number, line) in code_lines(text) {
        if line.contains(&["#[ign", "ore"].concat()) {
            complaints
                .push(format!("{path}:{number}: an ignored test is no test; move it to the long profile"));
        }
        for name in EMPTY_NAMES {
            if line.trim_start().trim_start_matches("pub ").trim_start_matches("pub(crate) ")
                == format!("mod {name};")
            {
                complaints.push(format!("{path}:{number}: `{name}` says nothing about what is inside"));
            }
        }
    }
    let tests = if path.contains("/tests/") { 0 } else { text.find("#[cfg(test)]").unwrap_or(text.len()) };
    let lines_before = text[..tests].lines().count();
    for (number, line) in code_lines(&text[tests..]) {
        if calls_sleep(line) {
            let number = lines_before + number;
            complaints.push(format!(
                "{path}:{number}: tests wait for a condition with a deadline; they never sleep"
            ));
        }
    }
    complaints.extend(empty_name(path));
    complaints
}

/// Whether a line calls a function of that very name (and not, for example, the database's).
fn calls_sleep(line: &str) -> bool {
    let word = ["sle", "ep("].concat();
    line.match_indices(&word).any(|(at, _)| !line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_'))
}

/// A file or folder whose name says nothing.
fn empty_name(path: &str) -> Option<String> {
    let mut parts = path.split('/').map(|part| part.strip_suffix(".rs").unwrap_or(part));
    let name = parts.find(|part| {
        EMPTY_NAMES.contains(part)
            || part.split('-').any(|word| part.starts_with("mesh-") && EMPTY_NAMES.contains(&word))
    })?;
    Some(format!("{path}: `{name}` says nothing about what is inside"))
}

#[test]
fn every_source_file_is_fit_to_read() {
    let checkout = Checkout::read();
    let complaints = checkout.ending(".rs").flat_map(|(path, text)| complaints_about(path, text));
    expect_none(&complaints.collect::<Vec<_>>());
}

#[test]
fn the_list_of_longer_files_only_shrinks() {
    let checkout = Checkout::read();
    for (path, length) in LONGER {
        let lines = checkout.texts.get(*path).map_or(0, |text| text.lines().count());
        assert!(lines > LONGEST, "{path} no longer needs to be on the list");
        assert!(lines == *length, "{path} has {lines} lines now: say so in the list");
    }
}

#[test]
fn an_unfit_file_is_seen() {
    let seen = |path: &str, text: &str| complaints_about(path, text).len();
    assert_eq!(seen("crates/x/src/a.rs", "//! Says.\nfn f() {}\n"), 0);
    assert_eq!(seen("crates/x/src/a.rs", "fn f() {}\n"), 1, "no opening");
    assert_eq!(seen("crates/x/src/a/mod.rs", "//! Says.\n"), 1, "mod.rs");
    assert_eq!(seen("crates/x/src/a.rs", &format!("//! Says.\n{}", "a\n".repeat(LONGEST))), 1, "too long");
    assert_eq!(
        seen("crates/x/src/a.rs", &format!("//! Says.\n#[{}]\n", ["ign", "ore"].concat())),
        1,
        "ignored"
    );
    assert_eq!(seen("crates/x/src/helpers.rs", "//! Says.\n"), 1, "an empty name");
    assert_eq!(seen("crates/mesh-common/src/a.rs", "//! Says.\n"), 1, "an empty crate name");
    assert_eq!(seen("crates/x/src/a.rs", "//! Says.\npub(crate) mod misc;\n"), 1, "an empty module name");
    let sleeping =
        format!("//! Says.\n#[cfg(test)]\nmod tests {{ fn f() {{ {}x); }} }}\n", ["sle", "ep("].concat());
    assert_eq!(seen("crates/x/src/a.rs", &sleeping), 1, "a sleeping test");
    assert_eq!(seen("crates/x/tests/it/a.rs", &sleeping.replace("#[cfg(test)]", "")), 1, "a sleeping test");
    assert_eq!(seen("crates/x/src/a.rs", &sleeping.replace("#[cfg(test)]", "")), 0, "not a test");
    assert_eq!(seen("crates/x/src/a.rs", &sleeping.replace("sle", "pg_sle")), 0, "the database's");
}
