//! `mesh-host leave`: the machine is nobody's again.

use clap::Args;

use super::{Ended, Exit, output::print, trust};
use crate::{
    failure::Failure,
    host::Host,
    keys::NodeKeys,
    ledger::Origin,
    link_file::{self, LinkFile},
    machine::Machine,
    paths::Paths,
    service,
};

#[derive(Debug, Args)]
#[command(after_help = "\
Everything the mesh assigned is removed, and what stood there before is put back. Volumes and databases keep their data.
The mesh still lists the node: 'mesh node remove NAME' there.

Examples:
  mesh-host leave
  mesh-host leave --carried   also what the machine carries: the substrate of a first node")]
pub(super) struct Leave {
    /// Also remove what the machine carries.
    #[arg(long)]
    carried: bool,
}

impl Leave {
    pub(super) async fn run(self, paths: &Paths) -> Result<Exit, Ended> {
        let joined = LinkFile::read(paths)?.is_some();
        let machine = Machine::real(paths);
        // A machine whose keys are gone can leave, too.
        let trust = trust(paths).ok().flatten().map(|(_, _, trust)| trust);
        let mut host = Host::open(paths, machine.clone(), trust).await?;
        let refused = host.refuse_unreadable("nothing was removed and nothing forgotten");
        refused.map_err(|why| Ended::new(Exit::Refused, why.to_string()))?;
        // The daemon before anything else: it would bring back what is removed.
        service::stop(&machine).await?;
        let outcome =
            host.remove_all(self.carried, &mut |_, id, step| print(format_args!("{id}: {step}"))).await?;
        let left: Vec<String> = outcome.failed.iter().map(|((_, id), why)| format!("{id}: {why}")).collect();
        let left_of = |origin: Origin| host.memory().entries.keys().any(|(of, _)| *of == origin);
        let carries = left_of(Origin::Carried);
        if left_of(Origin::Assigned) || (self.carried && carries) {
            let why =
                format!("something could not be removed, so nothing was forgotten:\n  {}", left.join("\n  "));
            return Err(Failure::new(why).into());
        }
        host.forget_assigned()?;
        link_file::forget(paths)?;
        NodeKeys::remove(paths)?;
        if carries {
            service::start(&machine).await?;
        } else {
            service::remove(&machine).await?;
            machine.program.forget()?;
        }
        print(if joined {
            "left the mesh"
        } else {
            "this machine had joined no mesh; nothing assigned is left"
        });
        Ok(Exit::Done)
    }
}
