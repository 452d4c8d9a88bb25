//! The kernel's parameters in memory. It takes only numbers, as many as it has, and makes no parameter of its own.

use super::Doors;
use crate::{
    failure::Failure,
    machine::sysctls::{Sysctls, plain},
};

impl Sysctls for Doors {
    fn look(&self, key: &str) -> Result<Option<String>, Failure> {
        self.0.faults.operation("read a parameter", || Ok(self.0.sysctls.borrow().get(key).cloned()))
    }

    fn set(&self, key: &str, value: &str) -> Result<(), Failure> {
        self.0.faults.operation("set a parameter", || {
            let mut sysctls = self.0.sysctls.borrow_mut();
            let known =
                sysctls.get_mut(key).ok_or_else(|| Failure::new("the kernel has no such parameter"))?;
            let numbers: Option<Vec<i64>> = value.split_whitespace().map(|part| part.parse().ok()).collect();
            match numbers {
                Some(numbers) if numbers.len() == known.split(' ').count() => {
                    // As the kernel's own: what is larger than it can be becomes as large as it can.
                    let numbers = numbers.into_iter().map(|number| number.min(10_000_000).to_string());
                    *known = plain(&numbers.collect::<Vec<_>>().join("\t"));
                    Ok(())
                }
                _ => Err(Failure::new("the kernel refuses the value: Invalid argument")),
            }
        })
    }
}
