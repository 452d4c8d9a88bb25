//! A program that checks files in memory: it refuses what says that it is bad.

use async_trait::async_trait;
use mesh_wire::kinds::Check;

use super::Doors;
use crate::{
    failure::Failure,
    machine::{checks::Checks, files::Content},
};

#[async_trait(?Send)]
impl Checks for Doors {
    async fn check(&self, check: Check, path: &str, content: &Content) -> Result<(), Failure> {
        self.0.faults.operation("check a file", || {
            if !self.0.checkers.borrow().contains(check.as_str()) {
                return Err(Failure::new(format!("this machine has no {check}: install it")));
            }
            let bad = String::from_utf8_lossy(content.bytes()).contains("bad");
            if bad { Err(Failure::new(format!("{check} refuses it: {path} is bad"))) } else { Ok(()) }
        })
    }
}
