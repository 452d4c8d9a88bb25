//! Programs with nothing to do: what they hold of the machine all the same.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use mesh_lab::wait_for;

use super::change::Watcher;
use crate::ground::{Ground, WORKER};
use crate::process::{Meter, Process};
use crate::row::{Aim, Row, Statistic, Unit};
use crate::samples::Samples;
use crate::workload;

/// How long the host is looked at.
const WINDOW: Duration = Duration::from_mins(1);
/// After a change, until it is idle.
const SETTLE: Duration = Duration::from_secs(10);

/// A host with a hundred resources, connected to its broker.
pub(crate) fn host(ground: &mut Ground) -> anyhow::Result<Vec<Row>> {
    ground.step("idle host with 100 resources");
    let raised = ground.mesh()?;
    let mut watcher = Watcher::of(raised.context()?)?;
    watcher.apply(&workload::hundred("bench-idle", WORKER)).context("apply 100 resources")?;
    let process = Process::on(raised.node(WORKER)?, "mesh-host")?;
    look(&process, SETTLE)?;
    let (memory, cpu) = look(&process, WINDOW)?;
    ensure!(watcher.is_connected(WORKER)?, "{WORKER} is not connected at the end");
    let what = |what: &str| format!("a connected host with 100 resources and nothing to do: {what}");
    let memory = Row {
        statistic: Statistic::Largest,
        aim: Some(Aim::at_most(12.0)),
        ..Row::new("idle-memory", what("the most memory (RSS) in a minute"), Unit::Megabytes, memory)
    };
    let cpu = Row::new("idle-cpu", what("processor time of a minute"), Unit::PercentOfCore, cpu);
    Ok(vec![memory, Row { aim: Some(Aim::at_most(0.1)), ..cpu }])
}

/// A control plane.
pub(crate) fn control(ground: &mut Ground) -> anyhow::Result<Vec<Row>> {
    ground.step("idle control plane");
    let process = Process::on(ground.mesh()?.node("node-1")?, "mesh-control")?;
    let (memory, _) = look(&process, SETTLE)?;
    let what = "a control plane with 2 nodes and nothing to do: the most memory (RSS) in ten seconds";
    let row = Row::new("control-memory", what, Unit::Megabytes, memory);
    Ok(vec![Row { statistic: Statistic::Largest, aim: Some(Aim::at_most(60.0)), ..row }])
}

/// Looks at a process for so long: its memory in megabytes, and its processor time in hundredths of a core.
#[expect(clippy::cast_precision_loss, reason = "bytes of one process")]
fn look(process: &Process, window: Duration) -> anyhow::Result<(Samples, Samples)> {
    let mut memory = Vec::new();
    let mut meter = Meter::on(process)?;
    let begun = Instant::now();
    let cpu = wait_for("the time of measuring to pass", window * 2, || {
        let looked = (|| {
            memory.push(process.resident_bytes()? as f64 / 1e6);
            meter.used()
        })();
        let used = looked.map_err(|error: anyhow::Error| format!("{error:#}"))?;
        let passed = begun.elapsed();
        if passed >= window {
            Ok(used.as_secs_f64() / passed.as_secs_f64() * 100.0)
        } else {
            Err(format!("{passed:?} have passed"))
        }
    })?;
    let memory = Samples::new(memory).context("its memory was not seen")?;
    Ok((memory, Samples::new(vec![cpu]).context("its processor time was not seen")?))
}
