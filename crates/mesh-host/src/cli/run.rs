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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::{Folder, Ledger, Record};

    #[tokio::test]
    async fn a_node_that_lost_its_link_file_stops_and_says_what_to_do() {
        let root = tempfile::tempdir().expect("a folder");
        let paths = Paths::under(root.path());
        let mut ledger = Ledger::open(Box::new(Folder::new(paths.ledger()))).expect("a ledger");
        ledger.write([Record::Accepted { frame: "{}".to_owned(), issued: 1 }]).expect("written");
        ledger.commit().expect("durable");
        let ended = run(&paths).await.expect_err("it does not run");
        // The unit names this code, so that systemd does not start it again and again.
        assert_eq!(ended.exit as u8, 3);
        assert!(crate::service::TEXT.contains("RestartPreventExitStatus=3\n"));
        assert!(
            ended.why.contains("link.json is missing") && ended.why.contains("mesh-host leave"),
            "{}",
            ended.why
        );
        // Nor is it taken for a machine that nobody declares anything for.
        assert!(trust(&paths).is_err());
    }
}
