//! systemd in memory. It knows unit files only as it read them last.

use async_trait::async_trait;
use mesh_ids::Digest;

use super::{Doors, Idle, Node, UNITS};
use crate::{
    failure::Failure,
    machine::files::Content,
    machine::units::{Active, Load, UnitFound, Units},
};

impl Doors {
    /// The unit file with its drop-ins in the order of their names.
    fn file(&self, name: &str) -> Option<(Digest, String)> {
        let tree = self.0.tree.borrow();
        let text = |path: &String| match tree.get(path) {
            Some(Node::File(content, _)) => Some(String::from_utf8_lossy(content.bytes()).into_owned()),
            _ => None,
        };
        let mut whole = UNITS.iter().find_map(|folder| text(&format!("{folder}/{name}")))?;
        let folder = format!("{}/{name}.d/", UNITS[0]);
        let drop_ins =
            tree.keys().filter(|path| path.starts_with(&folder) && path.strip_suffix(".conf").is_some());
        whole.extend(drop_ins.filter_map(text));
        Some((Content::new(whole.as_bytes()).digest(), whole))
    }

    fn run(&self, name: &str) -> Result<(), Failure> {
        let mut units = self.0.units.borrow_mut();
        let unit = units.get_mut(name).filter(|unit| unit.read.is_some());
        let unit = unit.ok_or_else(|| Failure::new(format!("Unit {name} not found.")))?;
        if let Some(how) = self.0.broken.borrow().get(name) {
            (unit.active, unit.idle) = (false, if how.is_none() { Idle::Starting } else { Idle::Failed });
            return Err(Failure::new(
                how.clone().unwrap_or("it is still activating (start) after 100 s".to_owned()),
            ));
        }
        (unit.active, unit.idle, unit.with) = (true, Idle::Ended, unit.read.clone());
        *self.0.starts.borrow_mut().entry(name.to_owned()).or_default() += 1;
        if let Some((path, read)) = self.0.reads.borrow_mut().get_mut(name) {
            *read = match self.0.tree.borrow().get(path) {
                Some(Node::File(content, _)) => Some(content.digest()),
                _ => None,
            };
        }
        Ok(())
    }
}

#[async_trait(?Send)]
impl Units for Doors {
    fn new_round(&self) {}

    async fn look(&self, name: &str) -> Result<UnitFound, Failure> {
        self.0.faults.operation("look at a unit", || {
            let file = self.file(name);
            let unit = self.0.units.borrow().get(name).cloned().unwrap_or_default();
            let installable = file.as_ref().is_some_and(|(_, text)| text.contains("[Install]"));
            Ok(UnitFound {
                load: if unit.read.is_some() { Load::Loaded } else { Load::NotFound },
                active: match (unit.active, unit.idle) {
                    (true, _) => Active::Yes,
                    (false, Idle::Starting) => Active::Starting,
                    (false, Idle::Failed) => Active::Failed,
                    (false, Idle::Ended) => Active::No,
                },
                sub: String::new(),
                // A link that starts it counts, whatever its file says now.
                enabled: (unit.enabled || installable).then_some(unit.enabled),
                needs_reload: unit.read.is_some() && unit.read != file.map(|(digest, _)| digest),
            })
        })
    }

    async fn reload(&self) -> Result<(), Failure> {
        self.0.faults.operation("read all unit files", || {
            self.0.reloads.set(self.0.reloads.get() + 1);
            let tree = self.0.tree.borrow();
            let mut units = self.0.units.borrow_mut();
            for path in tree.keys() {
                let name = UNITS.iter().find_map(|folder| path.strip_prefix(folder)?.strip_prefix('/'));
                if let Some(name) =
                    name.filter(|name| !name.contains('/') && name.strip_suffix(".d").is_none())
                {
                    units.entry(name.to_owned()).or_default();
                }
            }
            for (name, unit) in units.iter_mut() {
                unit.read = self.file(name).map(|(digest, _)| digest);
            }
            Ok(())
        })
    }

    async fn start(&self, name: &str) -> Result<(), Failure> {
        self.0.faults.operation("start a unit", || {
            let runs = self.0.units.borrow().get(name).is_some_and(|unit| unit.active);
            if runs { Ok(()) } else { self.run(name) }
        })
    }

    async fn stop(&self, name: &str) -> Result<(), Failure> {
        self.0.faults.operation("stop a unit", || {
            if let Some(unit) = self.0.units.borrow_mut().get_mut(name) {
                (unit.active, unit.with) = (false, None);
                if unit.idle == Idle::Starting {
                    unit.idle = Idle::Ended;
                }
            }
            Ok(())
        })
    }

    async fn restart(&self, name: &str) -> Result<(), Failure> {
        self.0.faults.operation("restart a unit", || self.run(name))
    }

    async fn ready(&self, name: &str) -> Result<(), Failure> {
        self.0.faults.operation("wait for a unit", || {
            let starting = self.0.units.borrow().get(name).is_some_and(|unit| unit.idle == Idle::Starting);
            if starting { self.run(name) } else { Ok(()) }
        })
    }

    async fn forget(&self, name: &str) -> Result<(), Failure> {
        self.0.faults.operation("forget how a unit ended", || {
            if let Some(unit) = self.0.units.borrow_mut().get_mut(name) {
                unit.idle = Idle::Ended;
            }
            Ok(())
        })
    }

    async fn enable(&self, name: &str) -> Result<(), Failure> {
        self.0.faults.operation("enable a unit", || match self.file(name) {
            Some((_, text)) if text.contains("[Install]") => {
                self.0.units.borrow_mut().entry(name.to_owned()).or_default().enabled = true;
                Ok(())
            }
            _ => Err(Failure::new("it has no [Install] section")),
        })
    }

    async fn disable(&self, name: &str) -> Result<(), Failure> {
        self.0.faults.operation("disable a unit", || {
            if let Some(unit) = self.0.units.borrow_mut().get_mut(name) {
                unit.enabled = false;
            }
            Ok(())
        })
    }

    async fn changed(&self) {
        std::future::pending::<()>().await;
    }
}
