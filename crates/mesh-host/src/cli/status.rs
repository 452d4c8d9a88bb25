//! `mesh-host status`: what this machine is told, what it has, and whether it is connected.

use std::time::Duration;

use clap::Args;
use comfy_table::{Table, presets::NOTHING};

use super::{Ended, Exit, output::print};
use crate::{
    machine::{Machine, process::is_there},
    paths::Paths,
    report::LinkState,
    status,
    upgrade::{Failed, Intention, Stage, State, Trial, short},
};

#[derive(Debug, Args)]
pub(super) struct Status {
    /// For programs.
    #[arg(long)]
    json: bool,
}

impl Status {
    pub(super) fn run(self, paths: &Paths) -> Result<Exit, Ended> {
        let machine = Machine::real(paths);
        let status = status::Status::read(&machine)?.filter(|status| is_there(status.process));
        let Some(status) = status else {
            let why = "mesh-host does not run here: 'systemctl status mesh-host', 'journalctl -u mesh-host'";
            return Err(Ended::new(Exit::Unreachable, why));
        };
        if self.json {
            let json = serde_json::to_string_pretty(&status);
            print(json.map_err(|error| Ended::new(Exit::Failed, format!("write JSON: {error}")))?);
        } else {
            show(&status, machine.clock.now());
        }
        let failing =
            !status.trouble.is_empty() || status.resources.iter().any(|resource| !resource.is_settled());
        Ok(if failing { Exit::Failed } else { Exit::Done })
    }
}

fn show_upgrade(upgrade: &State) {
    if let Some(Trial { intention, stage }) = &upgrade.trial {
        let Intention { version, digest, .. } = intention;
        let how = match stage {
            Stage::Waiting { .. } => "is to be tried",
            Stage::Begun { .. } => "is on trial",
        };
        print(format_args!("upgrade      {version} ({}) {how}", short(digest)));
    }
    for Failed { version, digest, why, .. } in &upgrade.failed {
        print(format_args!("failed       {version} ({}): {why}", short(digest)));
    }
}

fn show(status: &status::Status, now: i64) {
    let ago = |since: i64| {
        let seconds = u64::try_from(now - since).unwrap_or(0);
        humantime::format_duration(Duration::from_secs(seconds)).to_string()
    };
    match &status.node {
        Some(node) => print(format_args!("node         {node}")),
        None => print("node         (has joined no mesh)"),
    }
    print(format_args!("host         {}", status.version));
    show_upgrade(&status.upgrade);
    match &status.link {
        LinkState::NotJoined => {}
        LinkState::Connected { since, broker } => {
            print(format_args!("link         connected to {broker} for {}", ago(*since)));
        }
        LinkState::Disconnected { since: Some(since), error } => {
            print(format_args!("link         disconnected for {}: {error}", ago(*since)));
        }
        LinkState::Disconnected { since: None, error } => {
            print(format_args!("link         not connected since it started: {error}"));
        }
    }
    if let Some(position) = status.position {
        let stale = if status.stale { " (stale: past its time; nothing is removed)" } else { "" };
        print(format_args!("declaration  {position}{stale}"));
    }
    for (name, words) in [("refused", &status.refused), ("trouble", &status.trouble)] {
        if !words.is_empty() {
            print(format_args!("{name:<13}{words}"));
        }
    }
    if status.undelivered_drift > 0 && status.node.is_some() {
        print(format_args!("undelivered  {} drifts to be reported", status.undelivered_drift));
    }
    if status.resources.is_empty() {
        return print("\nnothing is declared");
    }
    let mut table = Table::new();
    table.load_style(NOTHING).set_header(["RESOURCE", "KIND", "ORIGIN", "STATE"]);
    for resource in &status.resources {
        let kind = resource.kind.map(|kind| kind.to_string()).unwrap_or_default();
        table.add_row([resource.id.clone(), kind, resource.origin.to_string(), resource.words(ago)]);
    }
    print(format_args!("\n{table}"));
}
