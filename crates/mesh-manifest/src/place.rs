//! Where in a manifest something is wrong: first as a path of keys, then, for TOML, as line and column.

use std::fmt;

use toml::{Spanned, de::DeTable, de::DeValue};

/// A step into a manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// A member of a table.
    Name(&'static str),
    /// An element of a list, from 0.
    Index(usize),
}

/// Something is wrong at one place of a manifest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{reason}", Path(at))]
pub struct Problem {
    /// Where; empty where it is the manifest as a whole.
    pub at: Vec<Key>,
    /// What is wrong and what was expected, for a person.
    pub reason: String,
}

struct Path<'a>(&'a [Key]);

impl Problem {
    pub(crate) fn new(at: impl Into<Vec<Key>>, reason: impl Into<String>) -> Self {
        Self { at: at.into(), reason: reason.into() }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, key) in self.0.iter().enumerate() {
            match key {
                Key::Name(name) if index == 0 => f.write_str(name)?,
                Key::Name(name) => write!(f, ".{name}")?,
                Key::Index(index) => write!(f, "[{index}]")?,
            }
        }
        if self.0.is_empty() { Ok(()) } else { f.write_str(": ") }
    }
}

/// The byte at which the value at a path begins; that of the nearest table around it where the path goes further than
/// the text does. `None` where the text is not TOML.
pub(crate) fn offset_of(text: &str, at: &[Key]) -> Option<usize> {
    let table = DeTable::parse(text).ok()?;
    let mut keys = at.iter();
    let Some(Key::Name(first)) = keys.next() else { return Some(table.span().start) };
    let Some((key, mut value)) = entry(table.get_ref(), first) else { return Some(table.span().start) };
    let mut offset = key;
    for key in keys {
        let next = match (key, value.get_ref()) {
            (Key::Name(name), DeValue::Table(table)) => entry(table, name),
            (Key::Index(index), DeValue::Array(items)) => {
                items.get(*index).map(|item| (item.span().start, item))
            }
            _ => None,
        };
        let Some((at, inner)) = next else { break };
        (offset, value) = (at, inner);
    }
    Some(offset)
}

fn entry<'t, 'i>(table: &'t DeTable<'i>, name: &str) -> Option<(usize, &'t Spanned<DeValue<'i>>)> {
    table.iter().find(|(key, _)| key.get_ref() == name).map(|(key, value)| (key.span().start, value))
}

/// Line and column of a byte, both from 1; the column counts characters.
pub(crate) fn line_and_column(text: &str, offset: usize) -> (usize, usize) {
    let before = &text.as_bytes()[..offset.min(text.len())];
    let start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let line = before.split(|byte| *byte == b'\n').count();
    let column = String::from_utf8_lossy(&before[start..]).chars().count() + 1;
    (line, column)
}
