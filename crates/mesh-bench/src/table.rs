//! The rows as a table for people: the machine above it, what is missing below it. Pure.

use comfy_table::{CellAlignment, Table, presets};

use crate::machine::Machine;
use crate::row::{Line, Row};

/// The whole text.
pub(crate) fn text(machine: &Machine, lines: &[Line]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["ROW", "FIGURE", "", "AIM", "MET", "PEER", "RATIO", "WHAT"]);
    for line in lines {
        if let Line::Measured(row) = line {
            table.add_row(cells(row));
        }
    }
    if let Some(column) = table.column_mut(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    if let Some(column) = table.column_mut(6) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let mut text = format!("{machine}\n\n");
    for line in table.lines() {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    let missing: Vec<_> = lines.iter().filter_map(Line::missing).collect();
    if !missing.is_empty() {
        text.push_str("\nnot measured:\n");
        for (name, why) in missing {
            text.extend(["  ", &name, ": ", why, "\n"]);
        }
    }
    text
}

fn cells(row: &Row) -> [String; 8] {
    let aim = row.aim.as_ref().map_or_else(|| "-".to_owned(), |aim| format!("<= {}", number(aim.at_most)));
    let met = match row.is_met() {
        Some(true) => "yes",
        Some(false) => "NO",
        None => "-",
    };
    let peer = match &row.peer {
        None => "-".to_owned(),
        Some(Ok(peer)) => format!("{}: {}", peer.name, number(row.of(&peer.samples))),
        Some(Err(_)) => "not measured".to_owned(),
    };
    let ratio = row.ratio().map_or_else(|| "-".to_owned(), |ratio| format!("{}x", number(ratio)));
    [
        row.name.to_owned(),
        number(row.figure()),
        row.unit.name().to_owned(),
        aim,
        met.to_owned(),
        peer,
        ratio,
        row.what.clone(),
    ]
}

/// To three digits that count.
pub(crate) fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 || value == 0.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::Aim;
    use crate::row::tests::{peer, row};

    #[test]
    fn a_row_shows_its_figure_its_aim_and_its_peer() {
        let aim = Some(Aim::at_most(50.0));
        let met = Row { aim: aim.clone(), peer: Some(Ok(peer(&[690.0]))), ..row(&[30.0]) };
        let shown =
            text(&Machine::this(), &[Line::Measured(met), Line::Measured(Row { aim, ..row(&[51.0]) })]);
        let rows: Vec<Vec<&str>> = shown
            .lines()
            .filter(|line| line.contains("noop"))
            .map(|l| l.split_whitespace().collect())
            .collect();
        assert_eq!(rows[0][..8], ["noop", "30.0", "ms", "CPU", "<=", "50.0", "yes", "Other"]);
        assert!(rows[0].contains(&"690") && rows[0].contains(&"23.0x"), "{shown}");
        assert!(rows[1].contains(&"NO"), "{shown}");
        assert!(!shown.contains("not measured"), "{shown}");
    }

    #[test]
    fn what_is_missing_is_said_with_its_reason() {
        let lines = [
            Line::Measured(Row { peer: Some(Err("no pip".to_owned())), ..row(&[1.0]) }),
            Line::Missing { name: "idle", why: "no bundle".to_owned() },
        ];
        let shown = text(&Machine::this(), &lines);
        assert!(shown.ends_with("not measured:\n  noop (its peer): no pip\n  idle: no bundle\n"), "{shown}");
    }

    #[test]
    fn numbers_have_three_digits_that_count() {
        let shown = [0.0, 0.0123, 1.234, 12.34, 123.4, 12345.6].map(number);
        assert_eq!(shown, ["0", "0.012", "1.23", "12.3", "123", "12346"]);
    }
}
