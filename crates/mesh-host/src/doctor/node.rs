//! What makes the machine a node: link file and keys, ledger, declaration, its own unit.

use mesh_ids::Position;
use mesh_wire::Resource;

use super::{Finding, bytes, spoken, within};
use crate::{
    failure::Failure,
    intake::{self, Stored, Trust},
    keys::NodeKeys,
    ledger::Ledger,
    link_file::{self, LinkFile, Missing},
    machine::{
        Machine,
        process::is_there,
        units::{Active, Load, UnitFound},
    },
    paths::Paths,
    service,
    status::Status,
};

/// What the machine knows of its mesh, as it is on its disk.
pub(super) struct Known {
    pub(super) link: Result<Option<LinkFile>, Failure>,
    missing: Option<Missing>,
    trust: Result<Option<Trust>, Failure>,
    ledger: Result<Option<Ledger>, Failure>,
}

impl Known {
    pub(super) fn read(paths: &Paths) -> Self {
        let link = LinkFile::read(paths);
        let trust = match &link {
            Ok(Some(link)) => NodeKeys::read(paths).and_then(|keys| {
                let keys = keys.ok_or_else(|| {
                    Failure::new(format!("there are no keys in {}", paths.identity().display()))
                })?;
                link.trust(&keys).map(Some)
            }),
            _ => Ok(None),
        };
        let missing = link_file::missing(paths).ok().flatten();
        Self { link, missing, trust, ledger: Ledger::glance(&paths.ledger(), &paths.ledger_note()) }
    }

    fn readable(&self) -> Option<&Ledger> {
        self.ledger.as_ref().ok().and_then(Option::as_ref).filter(|ledger| ledger.unreadable().is_none())
    }

    /// The earliest it can be now; none where nothing that was signed says so.
    pub(super) fn floor(&self) -> Option<i64> {
        self.readable().map(|ledger| ledger.memory().floor).filter(|floor| *floor > 0)
    }

    /// Everything that is, or is being, kept on the machine.
    pub(super) fn resources(&self) -> impl Iterator<Item = &Resource> {
        let entries = self.readable().into_iter().flat_map(|ledger| ledger.memory().entries.values());
        entries.map(|entry| &entry.resource)
    }

    /// Whether a host has anything to do here.
    fn is_kept(&self) -> bool {
        matches!(self.link, Ok(Some(_))) || self.resources().next().is_some()
    }
}

pub(super) async fn examine(known: &Known, machine: &Machine, paths: &Paths) -> Vec<Finding> {
    let mut findings = vec![mesh(known), ledger(known, paths)];
    findings.extend(declaration(known, machine.clock.now()));
    let unit = within(10, "systemd", machine.units.look(service::NAME)).await;
    let text = service::installed_text(machine);
    let running = Status::read(machine).ok().flatten().filter(|status| is_there(status.process));
    findings.push(own_unit(&unit, known.is_kept(), text.as_deref()));
    findings.extend(running.map(|status| host(&status)));
    findings
}

fn mesh(known: &Known) -> Finding {
    let leave = "put it back as it was, or run 'mesh-host leave' and then 'mesh-host join' with a new token";
    match (&known.link, &known.trust) {
        (Err(why), _) | (_, Err(why)) => Finding::fail("mesh", why.to_string(), leave),
        (Ok(Some(link)), Ok(_)) => Finding::ok("mesh", format!("node {} of mesh {}", link.node, link.mesh)),
        (Ok(None), Ok(_)) => match &known.missing {
            Some(Missing { why, was_a_node, .. }) => {
                let (found, remedy) = why.rsplit_once("; ").unwrap_or((why, leave));
                if *was_a_node {
                    Finding::fail("mesh", found, remedy)
                } else {
                    Finding::warn("mesh", found, remedy)
                }
            }
            None => Finding::ok("mesh", "this machine has joined none"),
        },
    }
}

fn ledger(known: &Known, paths: &Paths) -> Finding {
    let node = match &known.link {
        Ok(Some(link)) => link.node.to_string(),
        _ => "NAME".to_owned(),
    };
    match &known.ledger {
        Err(why) => Finding::fail("ledger", why.to_string(), "look at the disk it is on: 'dmesg', 'findmnt'"),
        Ok(None) if known.link.as_ref().is_ok_and(Option::is_none) => {
            Finding::ok("ledger", "there is none yet")
        }
        Ok(None) => Finding::warn(
            "ledger",
            "this machine has joined a mesh, and there is no ledger",
            "the host begins one when it starts: 'systemctl restart mesh-host'",
        ),
        Ok(Some(ledger)) => match ledger.unreadable() {
            Some((reason, _)) if ledger.left().is_none() => {
                Finding::fail("ledger", reason, "install the mesh-host that wrote it")
            }
            Some((reason, _)) => Finding::fail(
                "ledger",
                format!("it cannot be read: {reason}; what runs is kept, nothing is applied"),
                format!(
                    "'mesh node recover {node}' where the mesh is administered; keep {} for whoever looks into it",
                    paths.ledger().display()
                ),
            ),
            None => {
                let memory = ledger.memory();
                let unfinished = memory.entries.values().filter(|entry| !entry.complete).count();
                let open =
                    if unfinished > 0 { format!(", {unfinished} of them unfinished") } else { String::new() };
                let count = memory.entries.len();
                Finding::ok("ledger", format!("{}, {count} resources{open}", bytes(ledger.size())))
            }
        },
    }
}

/// None on a machine that has joined no mesh.
fn declaration(known: &Known, now: i64) -> Option<Finding> {
    let trust = known.trust.as_ref().ok()?.as_ref()?;
    let ledger = known.readable()?;
    let memory = ledger.memory();
    let now = now.max(memory.floor);
    let recover = format!("'mesh node recover {}' where the mesh is administered", trust.node);
    if memory.doubted {
        let found =
            "the ledger was begun anew: what is assigned is kept as it is until a higher generation comes";
        return Some(Finding::fail("declaration", found, recover));
    }
    let Some(frame) = &memory.accepted else {
        let remedy = "it comes once the host is connected and the control plane is up";
        return Some(Finding::warn("declaration", "none has arrived yet", remedy));
    };
    Some(match intake::accept(frame.as_bytes(), trust, Stored::Nothing) {
        Err(why) => Finding::fail("declaration", format!("what is stored does not verify: {why}"), recover),
        Ok(accepted) => {
            let position: Position = accepted.declaration.position();
            let left = accepted.declaration.not_after - now;
            let time = spoken(left.unsigned_abs());
            if left < 0 {
                let found = format!("{position} is stale for {time}: it is kept, and nothing is removed");
                let remedy =
                    "reconnect this machine to its mesh (see the broker below): a fresh one comes by itself";
                Finding::warn("declaration", found, remedy)
            } else {
                Finding::ok("declaration", format!("{position}, good for another {time}"))
            }
        }
    })
}

/// `text`: of the unit file, where it is the host's own to write.
fn own_unit(unit: &Result<UnitFound, Failure>, kept: bool, text: Option<&str>) -> Finding {
    let name = service::NAME;
    let unit = match unit {
        Ok(unit) => unit,
        Err(why) => {
            return Finding::fail("unit", why.to_string(), "look whether systemd runs: 'systemctl status'");
        }
    };
    let put_back = "'mesh-host join' with the token this machine joined with, or 'mesh-host bootstrap' on a first node, \
                    installs it";
    let start = format!("'systemctl enable --now {name}'; what it says: 'journalctl -u {name}'");
    match (&unit.load, unit.active) {
        (Load::NotFound, _) if kept => Finding::fail("unit", format!("{name} is not installed"), put_back),
        (Load::NotFound, _) => Finding::ok("unit", "not installed; joining installs it"),
        (Load::Bad(state), _) => Finding::fail(
            "unit",
            format!("{name} is {state}"),
            format!("'systemctl unmask {name}', or see 'systemd-analyze verify {name}'"),
        ),
        (Load::Loaded, Active::Yes) if unit.enabled == Some(false) => Finding::warn(
            "unit",
            format!("{name} runs, and will not after the next start of the machine"),
            format!("'systemctl enable {name}'"),
        ),
        (Load::Loaded, Active::Yes) if unit.needs_reload => Finding::warn(
            "unit",
            format!("{name} runs as its file was before it changed"),
            format!("'systemctl daemon-reload' and 'systemctl restart {name}'"),
        ),
        (Load::Loaded, Active::Yes) if text.is_some_and(|text| text != service::TEXT) => Finding::warn(
            "unit",
            format!("{name} runs, from a unit file that is not of this version"),
            put_back,
        ),
        (Load::Loaded, Active::Yes) => {
            Finding::ok("unit", format!("{name} runs and starts with the machine"))
        }
        (Load::Loaded, _) if !kept => {
            Finding::ok("unit", format!("{name} is installed; there is nothing to run it for"))
        }
        (Load::Loaded, Active::Starting) => Finding::warn(
            "unit",
            format!("{name} is starting ({})", unit.sub),
            format!("what it says: 'journalctl -u {name}'"),
        ),
        (Load::Loaded, _) => Finding::fail("unit", format!("{name} does not run ({})", unit.sub), start),
    }
}

/// What the running host says of itself.
fn host(status: &Status) -> Finding {
    let see = "see 'mesh-host status'";
    let failed = status.resources.iter().filter(|resource| resource.failed.is_some()).count();
    if !status.trouble.is_empty() {
        Finding::fail("host", format!("nothing is applied: {}", status.trouble), see)
    } else if failed > 0 {
        let of = status.resources.len();
        Finding::warn("host", format!("{failed} of {of} resources failed"), see)
    } else if !status.refused.is_empty() {
        Finding::warn("host", format!("refused what arrived: {}", status.refused), see)
    } else {
        Finding::ok("host", format!("mesh-host {}, process {}", status.version, status.process))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Level;

    #[test]
    fn a_unit_is_needed_where_there_is_something_to_keep() {
        let unit = |load, active| {
            Ok(UnitFound { load, active, sub: "dead".to_owned(), enabled: Some(true), needs_reload: false })
        };
        let level = |unit: &Result<UnitFound, Failure>, kept| own_unit(unit, kept, None).level;
        assert_eq!(level(&unit(Load::NotFound, Active::No), false), Level::Ok);
        assert_eq!(level(&unit(Load::NotFound, Active::No), true), Level::Fail);
        assert_eq!(level(&unit(Load::Loaded, Active::No), false), Level::Ok);
        assert_eq!(level(&unit(Load::Loaded, Active::Failed), true), Level::Fail);
        assert_eq!(level(&unit(Load::Bad("masked".to_owned()), Active::No), true), Level::Fail);
        assert_eq!(level(&unit(Load::Loaded, Active::Yes), true), Level::Ok);
        let runs = unit(Load::Loaded, Active::Yes);
        assert_eq!(own_unit(&runs, true, Some("[Unit]\n")).level, Level::Warn, "another version's");
        assert_eq!(own_unit(&runs, true, Some(service::TEXT)).level, Level::Ok);
        let not_enabled = runs.map(|unit| UnitFound { enabled: Some(false), ..unit });
        assert_eq!(level(&not_enabled, true), Level::Warn);
        assert_eq!(level(&Err(Failure::new("connect to systemd")), false), Level::Fail);
    }
}
