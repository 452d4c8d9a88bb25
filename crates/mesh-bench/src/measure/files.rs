//! A thousand files on a node alone: written for the first time, and looked at when nothing is to be done.
//!
//! CFEngine keeps the same thousand files on the same node in the same run.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use mesh_lab::{Node, wait_for};

use crate::cost::{self, Cost};
use crate::ground::{Ground, HOST, put_json};
use crate::peer::cfengine::CfEngine;
use crate::process::{Meter, Process};
use crate::row::{Aim, Peer, Row, Unit, milliseconds};
use crate::samples::Samples;
use crate::workload;

const THOUSAND: &str = "/opt/bench-host/thousand.json";
const STATE: &str = "/var/lib/mesh-host";
/// How often the first apply is measured; each time the files and the ledger are new.
const FIRST: usize = 5;
/// How often a no-op run is.
const AGAIN: usize = 9;
/// How many rounds of the running host are.
const ROUNDS: usize = 11;

/// The first durable apply.
pub(crate) fn first(ground: &mut Ground) -> anyhow::Result<Vec<Row>> {
    ground.step("first apply of 1,000 files");
    let cache = ground.cache().to_owned();
    let node = ground.alone()?;
    let ours = |number| apply_first(node, &format!("host-{number}"));
    let costs: Vec<Cost> = (0..FIRST).map(ours).collect::<anyhow::Result<_>>()?;
    let peer = CfEngine::install(node, &cache).and_then(|peer| {
        let theirs = |number| peer.first(&format!("cfengine-{number}"));
        let costs: Vec<Cost> = (0..FIRST).map(theirs).collect::<anyhow::Result<_>>()?;
        Ok((costs, peer.name))
    });
    let peer = peer.map_err(|error| format!("{error:#}"));
    let row = |name, what: &str, unit, aim, figure: fn(&[Cost]) -> Vec<Duration>| {
        let samples = milliseconds(&figure(&costs)).context("the shell counted no time")?;
        let peer = peer.clone().and_then(|(costs, name)| {
            let samples = milliseconds(&figure(&costs)).ok_or("the shell counted no time")?;
            Ok(Peer { name, what: "the same files, which it does not sync to disk", samples })
        });
        anyhow::Ok(Row {
            aim: Some(Aim::at_most(aim)),
            peer: Some(peer),
            ..Row::new(name, what, unit, samples)
        })
    };
    let what = "first durable apply of 1,000 files of 1 KiB";
    Ok(vec![
        row("first-wall", what, Unit::Milliseconds, 1000.0, cost::wall)?,
        row("first-cpu", what, Unit::CpuMilliseconds, 600.0, cost::cpu)?,
    ])
}

/// A round over them when nothing is to be done.
pub(crate) fn noop(ground: &mut Ground) -> anyhow::Result<Vec<Row>> {
    ground.step("no-op round over 1,000 files");
    let cache = ground.cache().to_owned();
    let node = ground.alone()?;
    let (ours, theirs) = ("host-noop", "cfengine-noop");
    apply_first(node, ours)?;
    let said = format!("no change: all {} resources", workload::FILES);
    let again = cost::of_many(node, AGAIN, &[HOST, "apply", "--local", THOUSAND], &said)?;
    let samples = milliseconds(&cost::cpu(&again)).context("the shell counted no time")?;
    let peer = CfEngine::install(node, &cache).and_then(|peer| {
        peer.first(theirs)?;
        let costs = peer.again(AGAIN)?;
        let kept = [ours, theirs].map(|program| format!("{}/{program}", workload::BASE));
        node.run(["diff", "-r", &kept[0], &kept[1]]).context("compare what the two programs keep")?;
        let samples = milliseconds(&cost::cpu(&costs)).context("the shell counted no time")?;
        Ok(Peer {
            name: peer.name,
            what: "a run over the same files, each a promise with its content",
            samples,
        })
    });
    let what = "a new process reads and hashes 1,000 files and finds nothing to do";
    let process = Row {
        aim: Some(Aim::at_most(50.0)),
        peer: Some(peer.map_err(|error| format!("{error:#}"))),
        ..Row::new("noop", what, Unit::CpuMilliseconds, samples)
    };
    let what = "the same in a running host, which remembers hashes of files that did not change";
    let rounds = rounds(node)?;
    let round = Row::new("noop-round", what, Unit::CpuMilliseconds, rounds);
    Ok(vec![process, Row { aim: Some(Aim::at_most(50.0)), ..round }])
}

/// Applies the thousand files below a new folder: no file is there, and no ledger.
fn apply_first(node: &Node, folder: &str) -> anyhow::Result<Cost> {
    let nothing_runs = node.exec(["systemctl", "is-active", "--quiet", "mesh-host.service"])?.code != 0;
    ensure!(nothing_runs, "a host runs on a node that is to have none");
    put_json(node, &workload::resources(folder), THOUSAND)?;
    node.run(["sh", "-c", &workload::make_folders(folder)])?;
    node.run(["rm", "-rf", STATE])?;
    let said = format!("{} resources as declared", workload::FILES);
    cost::of(node, &[HOST, "apply", "--local", THOUSAND], &said)
}

/// Rounds of a running host, each asked for by a signal.
fn rounds(node: &Node) -> anyhow::Result<Samples> {
    let unit = "bench-host.service";
    let start = ["systemd-run", "--quiet", "--collect", "--service-type=notify", "--unit", unit];
    node.run(start.iter().chain(&[HOST, "run"])).context("start the host")?;
    let measured = Process::on(node, "mesh-host").and_then(|host| {
        // The first one hashes.
        round(&host)?;
        let rounds: Vec<Duration> = (0..ROUNDS).map(|_| round(&host)).collect::<anyhow::Result<_>>()?;
        milliseconds(&rounds).context("no round was measured")
    });
    node.run(["systemctl", "stop", unit]).context("stop the host")?;
    measured
}

/// Less than a round over a thousand files costs, and more than what the host does between rounds.
const BEGUN: Duration = Duration::from_millis(1);
/// So often in a row, a tenth of a second apart, it has to have done nothing for the round to be over.
const QUIET: u32 = 4;

/// The processor time of one round.
fn round(host: &Process) -> anyhow::Result<Duration> {
    let mut meter = Meter::on(host)?;
    host.hang_up()?;
    let (mut before, mut quiet) = (Duration::ZERO, 0);
    let used = wait_for("the host to finish a round it was told to make", Duration::from_secs(20), || {
        let used = meter.used().map_err(|error| error.to_string())?;
        quiet = if used == before { quiet + 1 } else { 0 };
        before = used;
        if used >= BEGUN && quiet >= QUIET { Ok(used) } else { Err(format!("it has used {used:?}")) }
    })?;
    Ok(used)
}
