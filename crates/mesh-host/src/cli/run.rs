//! `mesh-host run`: the daemon.

use super::{Ended, Exit, trust};
use crate::{host::Host, machine::Machine, paths::Paths, report, run, uplink::Uplink};

pub(super) async fn run(paths: &Paths) -> Result<Exit, Ended> {
    let (host_end, uplink_end) = report::channel();
    let (uplink, trust) = match trust(paths)? {
        Some((link, keys, trust)) => (Some(Uplink::new(&link, &keys, uplink_end)?), Some(trust)),
        None => (None, None),
    };
    let machine = Machine::real(paths);
    let host = Host::open(paths, machine.clone(), trust).await?;
    run::run(paths, machine, host, host_end, uplink).await?;
    Ok(Exit::Done)
}
