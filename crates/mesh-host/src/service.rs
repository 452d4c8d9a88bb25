//! The host as a unit of systemd: installed by `bootstrap` and `join`, removed by `leave`. Where the Debian package brought
//! the unit file, that one counts, and is dpkg's alone.

use mesh_wire::kinds::Mode;

use crate::{
    failure::Failure,
    machine::{
        Machine,
        files::{Content, Found, Meta, Write},
        units::{Active, Load},
    },
};

/// The unit's name.
pub const NAME: &str = "mesh-host.service";
const UNIT_PATH: &str = "/etc/systemd/system/mesh-host.service";
/// The unit file of the Debian package: dpkg's, with the same text, and never written here.
const PACKAGED_PATH: &str = "/usr/lib/systemd/system/mesh-host.service";
/// The unit file.
pub(crate) const TEXT: &str = include_str!("mesh-host.service");

/// Writes the unit file where no package brought it, makes it start with the machine, and starts it; restarts it if it runs
/// already, so that it reads what was written since.
pub async fn install(machine: &Machine) -> Result<(), Failure> {
    if machine.files.look(PACKAGED_PATH)? == Found::Nothing {
        write_unit(machine).await?;
    }
    machine.units.enable(NAME).await.map_err(|e| e.during(format!("enable {NAME}")))?;
    machine.units.restart(NAME).await.map_err(|e| e.during(format!("start {NAME}")))
}

async fn write_unit(machine: &Machine) -> Result<(), Failure> {
    let meta = Meta { mode: Mode::new(0o644), owner: "root".to_owned(), group: "root".to_owned() };
    let content = Content::new(TEXT.as_bytes());
    let written = machine.files.look(UNIT_PATH)?;
    if !matches!(&written, Found::File { content: found, .. } if *found == content.digest()) {
        let write = Write { path: UNIT_PATH.to_owned(), content, meta };
        machine
            .files
            .write(&[write])
            .into_iter()
            .collect::<Result<(), _>>()
            .map_err(|e| e.during(UNIT_PATH))?;
        machine.units.reload().await?;
    }
    Ok(())
}

/// The text of the unit file that the host wrote; none where it wrote none.
pub(crate) fn installed_text(machine: &Machine) -> Option<String> {
    let bytes = machine.files.read(UNIT_PATH).ok()?;
    String::from_utf8(bytes).ok()
}

/// Starts it where it is installed.
pub async fn start(machine: &Machine) -> Result<(), Failure> {
    if machine.units.look(NAME).await?.load == Load::Loaded {
        machine.units.start(NAME).await.map_err(|e| e.during(format!("start {NAME}")))?;
    }
    Ok(())
}

/// Stops it where it runs. What it keeps runs on.
pub async fn stop(machine: &Machine) -> Result<(), Failure> {
    let found = machine.units.look(NAME).await?;
    if found.load == Load::Loaded && !matches!(found.active, Active::No | Active::Failed) {
        machine.units.stop(NAME).await.map_err(|e| e.during(format!("stop {NAME}")))?;
    }
    Ok(())
}

/// Stops it and removes its unit file; one that a package brought stays, and does not start with the machine any more.
pub async fn remove(machine: &Machine) -> Result<(), Failure> {
    stop(machine).await?;
    let found = machine.units.look(NAME).await?;
    if found.enabled == Some(true) {
        machine.units.disable(NAME).await.map_err(|e| e.during(format!("disable {NAME}")))?;
    }
    if machine.files.look(UNIT_PATH)? != Found::Nothing {
        machine.files.remove_file(UNIT_PATH).map_err(|e| e.during(UNIT_PATH))?;
        machine.files.settle()?;
    }
    // Also where the file was removed by an attempt that was killed then.
    if found.load != Load::NotFound && machine.files.look(PACKAGED_PATH)? == Found::Nothing {
        machine.units.reload().await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;
    use crate::machine::{engine::NoEngine, fake::World};

    #[tokio::test]
    async fn a_unit_file_that_a_package_brought_is_used_and_left_alone() {
        let world = World::bare();
        let machine = world.machine(Rc::new(NoEngine));
        world.put(PACKAGED_PATH, TEXT, 0o644);
        machine.units.reload().await.expect("read, as dpkg has systemd do");
        install(&machine).await.expect("installed");
        assert!(world.units.borrow()["mesh-host.service"].active, "it runs");
        assert_eq!(world.text(UNIT_PATH), None, "nothing was written over it");
        remove(&machine).await.expect("removed");
        assert_eq!(world.text(PACKAGED_PATH).as_deref(), Some(TEXT), "it is dpkg's");
    }
}
