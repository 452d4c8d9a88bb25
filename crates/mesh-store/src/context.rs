//! The name of a context, and the two variables it decides.
//!
//! Never enumerates the contexts: this crate serves any of them and knows none.
//! Called by: [`crate::Store::open`] and the contexts, each naming itself once.

use std::collections::BTreeMap;
use std::fmt;

/// A context's name, which is also the name of its database and of its role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Context(&'static str);

impl Context {
    /// Names a context: lower-case letters only, so that name, variable, database and role are one word.
    ///
    /// # Panics
    /// On any other name; as `const INVENTORY: Context = Context::new("inventory")` that is a compile error.
    pub const fn new(name: &'static str) -> Self {
        let bytes = name.as_bytes();
        assert!(!bytes.is_empty(), "a context's name is not empty");
        let mut at = 0;
        while at < bytes.len() {
            assert!(bytes[at].is_ascii_lowercase(), "a context's name is lower-case letters only");
            at += 1;
        }
        Self(name)
    }

    /// The name itself.
    pub const fn name(self) -> &'static str {
        self.0
    }

    /// The variable that holds the address of this context's store.
    pub fn variable(self) -> String {
        format!("MESH_STORE_{}", self.0.to_ascii_uppercase())
    }

    /// The variable that names the file with the password of this context's role.
    pub fn password_file_variable(self) -> String {
        format!("{}_PASSWORD_FILE", self.variable())
    }
}

impl fmt::Display for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// Where variables come from. A store asks it for its own two and for nothing else.
pub trait Environment {
    /// The value of the variable `name`, if it is set.
    fn variable(&self, name: &str) -> Option<String>;
}

impl Environment for BTreeMap<String, String> {
    fn variable(&self, name: &str) -> Option<String> {
        self.get(name).cloned()
    }
}

/// The environment of this process.
#[derive(Clone, Copy, Debug)]
pub struct ProcessEnvironment;

impl Environment for ProcessEnvironment {
    fn variable(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variables_are_the_contexts_own() {
        let inventory = Context::new("inventory");
        assert_eq!(inventory.variable(), "MESH_STORE_INVENTORY");
        assert_eq!(inventory.password_file_variable(), "MESH_STORE_INVENTORY_PASSWORD_FILE");
    }

    #[test]
    #[should_panic(expected = "lower-case letters only")]
    fn a_name_that_would_need_quoting_is_refused() {
        let _ = Context::new("inventory-2");
    }
}
