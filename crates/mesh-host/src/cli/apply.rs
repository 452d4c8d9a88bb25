//! `mesh-host apply --local FILE`: what the machine carries becomes what is in the file.

use std::path::PathBuf;

use clap::Args;

use super::{Ended, Exit, output::print, resources, trust};
use crate::{
    failure::Failure,
    host::Host,
    machine::{Machine, process},
    paths::Paths,
    status::Status,
};

#[derive(Debug, Args)]
#[command(after_help = "\
The file is the whole: what an earlier one had and this one has not is removed, and what stood there before comes back.

Examples:
  mesh-host apply --local resources.json
  echo '{\"resources\": []}' | mesh-host apply --local -")]
pub(super) struct Apply {
    /// Apply a file that nobody signed. Only on a machine that has joined no mesh.
    #[arg(long, required = true)]
    local: bool,
    /// The file of resources; `-` for stdin.
    file: PathBuf,
}

impl Apply {
    pub(super) async fn run(self, paths: &Paths) -> Result<Exit, Ended> {
        if trust(paths)?.is_some() {
            let why = "this machine has joined a mesh, which declares what it should be: use 'mesh apply', or \
                       'mesh-host leave' first";
            return Err(Ended::new(Exit::Refused, why));
        }
        let declared = resources::read(&self.file)?;
        let unreadable: Vec<String> = declared
            .iter()
            .filter_map(|d| d.as_ref().err())
            .map(|u| format!("{}: {}", u.id, u.reason))
            .collect();
        if !unreadable.is_empty() {
            return Err(Ended::new(
                Exit::Usage,
                format!("nothing was applied: {}", unreadable.join("\nerror: ")),
            ));
        }
        let resources = declared.into_iter().flatten().collect();
        let machine = Machine::real(paths);
        let mut host = Host::open(paths, machine.clone(), None).await?;
        let refused = host.refuse_unreadable("nothing was applied");
        refused.map_err(|why| Ended::new(Exit::Refused, why.to_string()))?;
        let outcome = host.carry(resources, &mut |_, id, step| print(format_args!("{id}: {step}"))).await?;
        if let Ok(Some(daemon)) = Status::read(&machine) {
            // So that its status is of what is declared now.
            process::wake(daemon.process);
        }
        if outcome.failed.is_empty() {
            print(match outcome.steps {
                0 => format!("no change: all {} resources are as declared", outcome.applied.len()),
                steps => format!("{steps} steps taken, {} resources as declared", outcome.applied.len()),
            });
            return Ok(Exit::Done);
        }
        let failed: Vec<String> =
            outcome.failed.iter().map(|((_, id), why)| format!("{id}: {why}")).collect();
        let summary =
            format!("{} of {} resources failed", failed.len(), failed.len() + outcome.applied.len());
        Err(Failure::new(format!("{summary}:\n  {}", failed.join("\n  "))).into())
    }
}
