//! Documents: decisions have a date and four headings, links lead somewhere, every kind and every crate is described.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use crate::checkout::{Checkout, expect_none};

/// The headings of a decision, in order.
const HEADINGS: [&str; 4] = ["## Context", "## Decision", "## Rejected", "## Consequences"];

/// The headings of a context's README, in order.
const CONTEXT_HEADINGS: [&str; 5] = ["## Decides", "## Owns", "## Publishes", "## Listens to", "## Never"];

/// Documents that must be there.
const DOCUMENTS: [&str; 10] = [
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "CHANGELOG.md",
    "LICENSE",
    "docs/glossary.md",
    "docs/testing.md",
    "docs/wire.md",
    "docs/api-design.md",
];

/// ARCHITECTURE.md is read in one go.
const LONGEST_ARCHITECTURE: usize = 300;

fn complaints_about_decision(path: &str, text: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    let name = path.rsplit('/').next().unwrap_or_default();
    let dated = name.len() > 14
        && name.bytes().take(11).enumerate().all(|(index, byte)| match index {
            4 | 7 | 10 => byte == b'-',
            _ => byte.is_ascii_digit(),
        })
        && name[11..name.len() - 3]
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    if !dated {
        complaints
            .push(format!("{path}: a decision's file is YYYY-MM-DD-title.md, small letters and dashes"));
    }
    complaints.extend(wrong_headings(path, text, &HEADINGS));
    complaints
}

fn wrong_headings(path: &str, text: &str, wanted: &[&str]) -> Option<String> {
    let found: Vec<&str> = text.lines().filter(|line| line.starts_with("## ")).map(str::trim_end).collect();
    (found != wanted).then(|| format!("{path}: the headings are {found:?}, wanted {wanted:?}"))
}

/// The targets of the links in a Markdown text, without code blocks.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut in_code = false;
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        }
        if in_code {
            continue;
        }
        for (at, _) in line.match_indices("](") {
            if let Some(target) = line[at + 2..].split(')').next() {
                found.push((index + 1, target.to_owned()));
            }
        }
    }
    found
}

/// The path a relative link leads to; `None` for a link out of the tree or into the same page.
fn target_of(page: &str, link: &str) -> Option<PathBuf> {
    let link = link.split(['#', ' ']).next().unwrap_or_default();
    if link.is_empty() || link.contains("://") || link.starts_with("mailto:") {
        return None;
    }
    let mut target = Path::new(page).parent().unwrap_or(Path::new("")).to_path_buf();
    for part in Path::new(link).components() {
        match part {
            Component::ParentDir => {
                target.pop();
            }
            Component::Normal(name) => target.push(name),
            _ => {}
        }
    }
    Some(target)
}

/// The kinds as the wire lists them, in the macro call of `kinds.rs`: lines of the form `File "file" FileSpec: …`.
fn kinds_of_the_wire(text: &str) -> BTreeSet<String> {
    let kind = |line: &str| {
        let mut words = line.split_whitespace();
        let (_, name, spec) = (words.next()?, words.next()?, words.next()?);
        let name = name.strip_prefix('"')?.strip_suffix('"')?;
        // A large one stands in a box: `Box<FileSpec>`.
        (spec.ends_with("Spec:") || spec.ends_with("Spec>:")).then(|| name.to_owned())
    };
    text.lines().filter_map(kind).collect()
}

/// One word for the wire file, the host file and the page. A folder that does not exist yet is not compared; one that
/// holds nothing but kinds may hold no other name.
fn complaints_about_kinds(kinds: &BTreeSet<String>, folders: &[(&str, Vec<String>, bool)]) -> Vec<String> {
    let mut complaints = Vec::new();
    for (folder, names, only_kinds) in folders.iter().filter(|(_, names, _)| !names.is_empty()) {
        let missing = kinds.iter().filter(|kind| !names.contains(kind));
        complaints.extend(missing.map(|kind| format!("{folder}: the kind {kind} has no file here")));
        let strange = names.iter().filter(|name| *only_kinds && !kinds.contains(*name));
        complaints.extend(strange.map(|name| format!("{folder}: {name} is no kind of the wire")));
    }
    complaints
}

#[test]
fn decisions_have_a_date_and_four_headings() {
    let checkout = Checkout::read();
    let decisions: Vec<_> =
        checkout.ending(".md").filter(|(path, _)| path.starts_with("docs/adr/")).collect();
    assert!(!decisions.is_empty(), "there are no decisions in docs/adr");
    expect_none(
        &decisions
            .into_iter()
            .flat_map(|(path, text)| complaints_about_decision(path, text))
            .collect::<Vec<_>>(),
    );
}

#[test]
fn relative_links_lead_somewhere() {
    let checkout = Checkout::read();
    let mut complaints = Vec::new();
    for (page, text) in checkout.ending(".md") {
        for (line, link) in links(text) {
            if let Some(target) = target_of(page, &link)
                && !checkout.root.join(&target).exists()
            {
                complaints.push(format!("{page}:{line}: the link {link} leads nowhere"));
            }
        }
    }
    expect_none(&complaints);
}

#[test]
fn every_kind_has_a_wire_file_a_host_file_and_a_page() {
    let checkout = Checkout::read();
    let kinds = kinds_of_the_wire(&checkout.texts["crates/mesh-wire/src/kinds.rs"]);
    assert!(kinds.contains("file"), "the wire's list of kinds was not found");
    let folder =
        |folder: &'static str, ending, only_kinds| (folder, checkout.names_in(folder, ending), only_kinds);
    expect_none(&complaints_about_kinds(
        &kinds,
        &[
            folder("crates/mesh-wire/src/kinds", ".rs", false),
            folder("crates/mesh-host/src/kinds", ".rs", false),
            folder("docs/kinds", ".md", true),
        ],
    ));
}

/// What a person looks for on the page of a kind.
const OF_A_KIND: [&str; 6] = ["| field |", "**Observed**", "**Step", "**Removed**", "**Never", "\n```"];

fn missing_on_the_page(path: &str, text: &str) -> Vec<String> {
    let missing = OF_A_KIND.into_iter().filter(|part| !text.contains(part));
    missing.map(|part| format!("{path}: the page has no {:?}", part.trim_start())).collect()
}

#[test]
fn every_page_of_a_kind_says_what_it_does_what_it_never_does_and_shows_one() {
    let checkout = Checkout::read();
    let pages = checkout.ending(".md").filter(|(path, _)| path.starts_with("docs/kinds/"));
    expect_none(&pages.flat_map(|(path, text)| missing_on_the_page(path, text)).collect::<Vec<_>>());
    let page = "| field |\n**Observed**: a. **Steps**: b.\n**Removed**: c.\n";
    assert_eq!(missing_on_the_page("a", page).len(), 2, "what it never does, and one of it");
}

#[test]
fn the_documents_are_there() {
    let checkout = Checkout::read();
    let missing = DOCUMENTS.iter().filter(|path| checkout.texts.get(**path).is_none_or(String::is_empty));
    expect_none(&missing.map(|path| format!("{path} is missing")).collect::<Vec<_>>());
    let lines = checkout.texts.get("ARCHITECTURE.md").map_or(0, |text| text.lines().count());
    assert!(lines <= LONGEST_ARCHITECTURE, "ARCHITECTURE.md has {lines} lines: nobody reads that in one go");
}

#[test]
fn every_context_says_what_it_decides_and_never_does() {
    let checkout = Checkout::read();
    let mut complaints = Vec::new();
    for context in
        ["inventory", "config", "connectivity", "provisioning", "delivery", "observability", "identity"]
    {
        if checkout.texts.contains_key(&format!("crates/mesh-{context}/Cargo.toml")) {
            let path = format!("crates/mesh-{context}/README.md");
            let text = checkout.texts.get(&path).map_or("", String::as_str);
            complaints.extend(wrong_headings(&path, text, &CONTEXT_HEADINGS));
        }
    }
    expect_none(&complaints);
}

#[test]
fn every_crate_stands_on_the_code_map() {
    let checkout = Checkout::read();
    let map = checkout.texts.get("ARCHITECTURE.md").map_or("", String::as_str);
    let folders: BTreeSet<&str> = checkout
        .texts
        .keys()
        .filter_map(|path| path.strip_prefix("crates/")?.split_once('/'))
        .map(|(name, _)| name)
        .collect();
    let missing = folders.into_iter().filter(|name| !map.contains(&format!("`{name}`")));
    expect_none(&missing.map(|name| format!("ARCHITECTURE.md does not name `{name}`")).collect::<Vec<_>>());
}

#[test]
fn an_unfit_document_is_seen() {
    let fit = "# T\n## Context\n## Decision\n## Rejected\n## Consequences\n";
    assert_eq!(complaints_about_decision("docs/adr/2026-01-02-a-title.md", fit), Vec::<String>::new());
    assert_eq!(complaints_about_decision("docs/adr/0001-a-title.md", fit).len(), 1, "no date");
    assert_eq!(complaints_about_decision("docs/adr/2026-01-02-A_title.md", fit).len(), 1, "letters");
    assert_eq!(
        complaints_about_decision("docs/adr/2026-01-02-a-title.md", "## Context\n").len(),
        1,
        "headings"
    );

    assert_eq!(
        links("see [a](b.md#c) and [d](e)\n```\n[x](y)\n```\n"),
        [(1, "b.md#c".to_owned()), (1, "e".to_owned())]
    );
    assert_eq!(target_of("docs/adr/x.md", "../wire.md#frame"), Some(PathBuf::from("docs/wire.md")));
    assert_eq!(target_of("README.md", "https://example.org"), None);
    assert_eq!(target_of("README.md", "#here"), None);

    let kinds = kinds_of_the_wire(
        "kinds! {\n    File \"file\" FileSpec: \"x\",\n    Unit \"unit\" Box<UnitSpec>: \"y\",\n}\n",
    );
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let seen = |folder, only_kinds| complaints_about_kinds(&kinds, &[("a", folder, only_kinds)]).len();
    assert_eq!(seen(names(&["file", "unit"]), true), 0);
    assert_eq!(seen(names(&[]), true), 0, "not there yet");
    assert_eq!(seen(names(&["file"]), false), 1, "a kind without a file");
    assert_eq!(seen(names(&["file", "unit", "mode"]), false), 0, "a part of a kind");
    assert_eq!(seen(names(&["file", "unit", "mode"]), true), 1, "a page about nothing");
}
