//! The rows as JSON, for programs that compare runs. Replaces the file in one step.

use std::fs;
use std::path::Path;

use anyhow::Context as _;
use serde::Serialize;

use crate::machine::Machine;
use crate::row::{Aim, Line, Row, Statistic, Unit};
use crate::samples::Samples;

#[derive(Serialize)]
struct Record<'a> {
    machine: &'a Machine,
    rows: Vec<RowRecord<'a>>,
    missing: Vec<Missing<'a>>,
}

#[derive(Serialize)]
struct RowRecord<'a> {
    name: &'a str,
    what: &'a str,
    figure: f64,
    unit: Unit,
    statistic: Statistic,
    least: f64,
    p95: f64,
    largest: f64,
    samples: &'a Samples,
    aim: Option<&'a Aim>,
    met: Option<bool>,
    peer: Option<PeerRecord<'a>>,
}

#[derive(Serialize)]
struct PeerRecord<'a> {
    name: &'a str,
    what: &'a str,
    figure: f64,
    ratio: Option<f64>,
    samples: &'a Samples,
}

#[derive(Serialize)]
struct Missing<'a> {
    name: String,
    why: &'a str,
}

impl<'a> RowRecord<'a> {
    fn of(row: &'a Row) -> Self {
        let peer = row.peer.as_ref().and_then(|peer| peer.as_ref().ok());
        Self {
            name: row.name,
            what: &row.what,
            figure: row.figure(),
            unit: row.unit,
            statistic: row.statistic,
            least: row.samples.least(),
            p95: row.samples.quantile(0.95),
            largest: row.samples.largest(),
            samples: &row.samples,
            aim: row.aim.as_ref(),
            met: row.is_met(),
            peer: peer.map(|peer| PeerRecord {
                name: &peer.name,
                what: peer.what,
                figure: row.of(&peer.samples),
                ratio: row.ratio(),
                samples: &peer.samples,
            }),
        }
    }
}

/// The JSON text.
pub(crate) fn json(machine: &Machine, lines: &[Line]) -> serde_json::Result<String> {
    let rows = lines.iter().filter_map(|line| match line {
        Line::Measured(row) => Some(RowRecord::of(row)),
        Line::Missing { .. } => None,
    });
    let missing = lines.iter().filter_map(Line::missing).map(|(name, why)| Missing { name, why });
    let record = Record { machine, rows: rows.collect(), missing: missing.collect() };
    serde_json::to_string_pretty(&record)
}

/// Writes it.
pub(crate) fn write(path: &Path, machine: &Machine, lines: &[Line]) -> anyhow::Result<()> {
    let fresh = path.with_extension("json.new");
    let text = json(machine, lines)?;
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
    }
    fs::write(&fresh, text + "\n").with_context(|| format!("write {}", fresh.display()))?;
    fs::rename(&fresh, path).with_context(|| format!("put {} in place", path.display()))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]
mod tests {
    use super::*;
    use crate::row::tests::{peer, row};

    #[test]
    fn the_file_has_every_row_and_says_what_is_missing() {
        let measured =
            Row { aim: Some(Aim::at_most(50.0)), peer: Some(Ok(peer(&[600.0]))), ..row(&[20.0, 40.0, 30.0]) };
        let lines = [
            Line::Measured(measured),
            Line::Measured(Row { peer: Some(Err("no pip".to_owned())), ..row(&[1.0]) }),
            Line::Missing { name: "idle", why: "no bundle".to_owned() },
        ];
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/bench.json");
        write(&path, &Machine::this(), &lines).unwrap();
        let read: serde_json::Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        let first = &read["rows"][0];
        assert_eq!(first["name"], "noop");
        assert_eq!(first["figure"], 30.0);
        assert_eq!(first["unit"], "ms CPU");
        assert_eq!(first["aim"]["at_most"], 50.0);
        assert_eq!(first["met"], true);
        assert_eq!(first["samples"], serde_json::json!([20.0, 40.0, 30.0]));
        assert_eq!((&first["peer"]["name"], &first["peer"]["ratio"]), (&"Other 1.2".into(), &20.0.into()));
        assert_eq!(read["rows"][1]["met"], serde_json::Value::Null);
        assert_eq!(read["missing"][0], serde_json::json!({"name": "noop (its peer)", "why": "no pip"}));
        assert_eq!(read["missing"][1], serde_json::json!({"name": "idle", "why": "no bundle"}));
        assert!(read["machine"]["cores"].as_u64().unwrap() > 0);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "nothing is left beside it");
    }
}
