//! `mesh-host run`: the daemon.

use super::{Ended, Exit, trust};
use crate::{
    failure::Failure,
    host::Host,
    intake::Trust,
    link_file,
    machine::Machine,
    paths::Paths,
    report::{self, LinkState, UplinkEnd},
    run,
    uplink::Uplink,
};

pub(super) async fn run(paths: &Paths) -> Result<Exit, Ended> {
    run::end_on_panic();
    let missing = link_file::missing(paths)?;
    if let Some(missing) = missing.as_ref().filter(|missing| !missing.carries) {
        // There is nothing to keep that this machine could still be sure of.
        return Err(Ended::new(Exit::Refused, missing.why.clone()));
    }
    let (host_end, uplink_end) = report::channel();
    let linked = match missing {
        Some(missing) => Err(Failure::new(missing.why)),
        None => link(paths, uplink_end),
    };
    let (uplink, trust, state) = match linked {
        Ok(Some((uplink, trust))) => {
            let state = LinkState::Disconnected { since: None, error: "not tried yet".to_owned() };
            (Some(uplink), Some(trust), state)
        }
        Ok(None) => (None, None, LinkState::NotJoined),
        // What the machine carries is kept all the same, and what was assigned is left as it is.
        Err(why) => {
            tracing::error!(%why, "runs without its mesh");
            (None, None, LinkState::Disconnected { since: None, error: why.to_string() })
        }
    };
    let machine = Machine::real(paths);
    let host = Host::open(paths, machine.clone(), trust).await?;
    run::run(paths, machine, host, host_end, uplink, state).await?;
    Ok(Exit::Done)
}

fn link(paths: &Paths, end: UplinkEnd) -> Result<Option<(Uplink, Trust)>, Failure> {
    let Some((link, keys, trust)) = trust(paths)? else { return Ok(None) };
    Ok(Some((Uplink::new(&link, &keys, end)?, trust)))
}
