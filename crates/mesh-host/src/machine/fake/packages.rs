//! The packages of the machine in memory.

use std::rc::Rc;

use async_trait::async_trait;

use super::Doors;
use crate::{
    failure::Failure,
    machine::packages::{Installed, Packages},
};

#[async_trait(?Send)]
impl Packages for Doors {
    async fn look(&self) -> Result<Rc<Installed>, Failure> {
        self.0.faults.operation("look at packages", || {
            let installed = self.0.installed.borrow();
            Ok(Rc::new(installed.iter().map(|name| (name.clone(), "1".to_owned())).collect()))
        })
    }

    async fn install(&self, names: &[String], _: Option<&str>) -> Result<(), Failure> {
        self.0.faults.operation("install", || {
            let available = self.0.available.borrow();
            if let Some(name) = names.iter().find(|name| !available.contains(*name)) {
                return Err(Failure::new(format!("Unable to locate package {name}")));
            }
            self.0.installed.borrow_mut().extend(names.iter().cloned());
            Ok(())
        })
    }

    async fn remove(&self, names: &[String]) -> Result<(), Failure> {
        self.0.faults.operation("remove packages", || {
            self.0.installed.borrow_mut().retain(|name| !names.contains(name));
            Ok(())
        })
    }
}
