//! Reading a manifest from TOML: every complaint with file, line and column, and with what was expected.

use mesh_wire::kinds::Content;

use crate::{
    manifest::{MAX_CONTENT_BYTES, Manifest},
    place::{Key, Problem, line_and_column, offset_of},
};

/// Why a text is not a manifest, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}:{column}: {reason}")]
pub struct ManifestError {
    /// The file, as the caller named it.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// What is wrong and what was expected.
    pub reason: String,
}

impl Manifest {
    /// Reads the TOML of a manifest and puts the content of every file it names (`source = "…"`) into it.
    ///
    /// `file` is how complaints name it. `load` is handed a path relative to the manifest's folder, which never begins
    /// with `/` and never holds `..`; a link that leads out of the folder is for `load` to refuse.
    pub fn from_toml(
        file: &str,
        text: &str,
        mut load: impl FnMut(&str) -> Result<Vec<u8>, String>,
    ) -> Result<Self, ManifestError> {
        let at = |offset: usize, reason: String| {
            let (line, column) = line_and_column(text, offset);
            ManifestError { file: file.to_owned(), line, column, reason }
        };
        let mut manifest: Self = toml::from_str(text).map_err(|error| {
            at(error.span().map_or(0, |span| span.start), with_suggestion(error.message()))
        })?;
        let placed = |problem: Problem| at(offset_of(text, &problem.at).unwrap_or(0), problem.reason);
        manifest.inline(&mut load).map_err(placed)?;
        manifest.check().and_then(|()| manifest.admit()).map_err(placed)?;
        Ok(manifest)
    }

    fn inline(&mut self, load: &mut dyn FnMut(&str) -> Result<Vec<u8>, String>) -> Result<(), Problem> {
        for (index, file) in self.files.iter_mut().enumerate() {
            let Some(source) = &file.source else { continue };
            let at = [Key::Name("file"), Key::Index(index), Key::Name("source")];
            if file.content.is_some() || file.base64.is_some() {
                return Err(Problem::new(at, "expected one of source, content and base64, not several"));
            }
            match Content::of(&fetch(source, load).map_err(|reason| Problem::new(at, reason))?) {
                Content::Text(text) => file.content = Some(text),
                Content::Base64(text) => file.base64 = Some(text),
            }
            file.source = None;
        }
        for (index, unit) in self.units.iter_mut().enumerate() {
            let Some(source) = &unit.source else { continue };
            let at = [Key::Name("unit"), Key::Index(index), Key::Name("source")];
            if unit.content.is_some() {
                return Err(Problem::new(at, "expected one of source and content, not both"));
            }
            let bytes = fetch(source, load).map_err(|reason| Problem::new(at, reason))?;
            let text = String::from_utf8(bytes)
                .map_err(|_| Problem::new(at, format!("{source} is not UTF-8, as a unit file has to be")))?;
            unit.content = Some(text);
            unit.source = None;
        }
        Ok(())
    }
}

fn fetch(source: &str, load: &mut dyn FnMut(&str) -> Result<Vec<u8>, String>) -> Result<Vec<u8>, String> {
    let ordinary = |part: &str| !part.is_empty() && part != "." && part != "..";
    if source.contains(['\0', '\\']) || !source.split('/').all(ordinary) {
        return Err(format!(
            "{source:?} is not a path below the manifest's folder: expected parts without '.', '..' and '\\', such as \
             files/hello.conf"
        ));
    }
    let bytes = load(source)?;
    if bytes.len() > MAX_CONTENT_BYTES {
        return Err(format!("{source} has {} bytes, more than {MAX_CONTENT_BYTES}", bytes.len()));
    }
    Ok(bytes)
}

/// Adds what was probably meant where serde says what it did not know and what it would have known:
/// "unknown field `imge`, expected one of `image`, `name`".
pub(crate) fn with_suggestion(message: &str) -> String {
    let message = message.trim_end();
    if !message.starts_with("unknown field") && !message.starts_with("unknown variant") {
        return message.to_owned();
    }
    let mut quoted = message.split('`').skip(1).step_by(2);
    let Some(given) = quoted.next() else { return message.to_owned() };
    match closest(given, quoted) {
        Some(meant) => format!("{message}; did you mean `{meant}`?"),
        None => message.to_owned(),
    }
}

/// The longest name that anything is suggested for, or that is suggested, in bytes.
const LONGEST_SUGGESTED: usize = 200;
/// How many names are looked at for a suggestion.
const MOST_SUGGESTED: usize = 300;
/// How many pairs of bytes are compared for a suggestion; the names after that are not looked at.
const MOST_COMPARED: usize = 1_000_000;

/// The candidate nearest to what was given, if one is near enough to be meant. Only names that a person would write are
/// compared, and only so many: whoever sends a manifest decides how long and how many they are.
pub(crate) fn closest<'a>(given: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let mut left = MOST_COMPARED;
    candidates
        .take(MOST_SUGGESTED)
        .filter(|candidate| candidate.len().max(given.len()) <= LONGEST_SUGGESTED)
        .map_while(|candidate| {
            left = left.checked_sub(given.len() * candidate.len())?;
            Some((strsim::damerau_levenshtein(given, candidate), candidate))
        })
        .filter(|(distance, candidate)| *distance <= (candidate.len().max(given.len()) / 3).max(1))
        .min()
        .map(|(_, candidate)| candidate)
}

/// A name as a complaint quotes it: no longer than a person reads.
pub(crate) fn quoted(name: &str) -> String {
    const MOST: usize = 100;
    match name.char_indices().nth(MOST) {
        Some((end, _)) => format!("{:?}… ({} bytes)", &name[..end], name.len()),
        None => format!("{name:?}"),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn only_names_that_a_person_writes_are_compared_and_only_so_many() {
        let near = "file:/etc/hello";
        assert_eq!(closest("file:/etc/helo", [near].into_iter()), Some(near));
        let (long, longer) = ("q".repeat(201), "q".repeat(202));
        assert_eq!(closest(&long, [longer.as_str()].into_iter()), None);
        assert_eq!(closest(&long, [&longer[..200]].into_iter()), None);
        let asked = Cell::new(0);
        let counted = |name: String, times: usize| {
            asked.set(0);
            let names = vec![name.as_str(); times];
            closest(&name, names.into_iter().inspect(|_| asked.set(asked.get() + 1))).map(str::len);
            asked.get()
        };
        assert_eq!(counted("a".repeat(10), 1000), 300);
        assert_eq!(counted("a".repeat(200), 1000), 26, "25 of them are compared");
    }

    #[test]
    fn a_long_name_is_quoted_by_how_it_begins() {
        assert_eq!(quoted("a\n"), "\"a\\n\"");
        assert_eq!(quoted(&"é".repeat(101)), format!("{:?}… (202 bytes)", "é".repeat(100)));
    }
}
