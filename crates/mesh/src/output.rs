//! The one place that prints: tables and sentences for people, JSON for programs.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "printing is what this file is for")]

use comfy_table::{ContentArrangement, Table, presets};
use serde::Serialize;

/// How results are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// For a person.
    Human,
    /// For a program.
    Json,
}

/// Prints a value as indented JSON.
pub(crate) fn json(value: &impl Serialize) -> anyhow::Result<()> {
    line(&serde_json::to_string_pretty(value)?);
    Ok(())
}

/// Prints a value as JSON on one line, for streams.
pub(crate) fn json_line(value: &impl Serialize) -> anyhow::Result<()> {
    line(&serde_json::to_string(value)?);
    Ok(())
}

/// Prints a line of the result.
pub(crate) fn line(text: &str) {
    println!("{text}");
}

/// Prints a remark that is not part of the result.
pub(crate) fn remark(text: &str) {
    eprintln!("{text}");
}

/// Asks a question on the terminal; only `y` or `yes` is a yes.
pub(crate) fn ask(question: &str) -> anyhow::Result<bool> {
    eprint!("{question} [y/N] ");
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}

/// Prints a table: columns parted by space, nothing drawn, so that it can be cut and searched.
pub(crate) fn table(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(header);
    for row in rows {
        table.add_row(row.into_iter().map(|cell| printable(&cell)).collect::<Vec<_>>());
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    for text in table.lines() {
        line(text.trim_end());
    }
}

/// Text that somebody else stated, on one line: what a terminal would obey, what would begin another line and what would
/// turn the order of the characters around is written out, so that nobody can make it look like something else.
pub(crate) fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\r' | '\t' => shown.extend(c.escape_default()),
            c if c.is_control() || REORDERS.contains(&c) => shown.extend(c.escape_unicode()),
            c => shown.push(c),
        }
    }
    shown
}

/// The marks of bidirectional text, and the two characters that part lines besides the control characters.
const REORDERS: &[char] = &[
    '\u{61c}', '\u{200e}', '\u{200f}', '\u{2028}', '\u{2029}', '\u{202a}', '\u{202b}', '\u{202c}',
    '\u{202d}', '\u{202e}', '\u{2066}', '\u{2067}', '\u{2068}', '\u{2069}',
];

/// A number of seconds as a person says it: `8s`, `3m 20s`, `2h 5m`, `9d 4h`.
pub(crate) fn duration(seconds: u64) -> String {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, _) => format!("{minutes}m {}s", seconds % 60),
        (0, _, _) => format!("{hours}h {minutes}m"),
        _ => format!("{days}d {hours}h"),
    }
}

/// So many of these: `1 node`, `3 nodes`. For words that take an s.
pub(crate) fn count(number: usize, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {what}{plural}")
}

/// A number of bytes as a person says it: `512 MiB`.
pub(crate) fn bytes(count: u64) -> String {
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let unit = (count.max(1).ilog2() / 10).min(5);
    let whole = count >> (10 * unit);
    format!("{whole} {}", UNITS[unit as usize])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_said_as_a_person_says_them() {
        assert_eq!([0, 1, 2].map(|number| count(number, "node")), ["0 nodes", "1 node", "2 nodes"]);
        assert_eq!([0, 59, 200, 7500, 792_000].map(duration), ["0s", "59s", "3m 20s", "2h 5m", "9d 4h"]);
        assert_eq!(
            [0, 1023, 1024, 512 << 20, 3 << 40].map(bytes),
            ["0 B", "1023 B", "1 KiB", "512 MiB", "3 TiB"]
        );
    }

    #[test]
    fn what_a_terminal_would_obey_is_not_printed() {
        assert_eq!(printable("a\u{1b}[31mb\r\nc\td\u{9b}"), "a\\u{1b}[31mb\\r\\nc\\td\\u{9b}");
        assert_eq!(printable("\u{202e}a\u{2066}\u{200f}\u{2028}"), "\\u{202e}a\\u{2066}\\u{200f}\\u{2028}");
        assert_eq!(printable("Größe “5 €” 日本 \\n"), "Größe “5 €” 日本 \\n");
    }
}
