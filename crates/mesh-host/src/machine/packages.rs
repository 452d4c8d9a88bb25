//! The package manager (dpkg and apt), by argument vectors. Touches no source list of the machine.

mod real;

use std::{collections::HashMap, fmt, rc::Rc};

use async_trait::async_trait;
pub use real::RealPackages;

use super::Machine;
use crate::failure::Failure;

/// Installed packages by name, with their versions.
pub type Installed = HashMap<String, String>;

/// The package manager.
#[async_trait(?Send)]
pub trait Packages {
    /// Every installed package and its version.
    async fn look(&self) -> Result<Rc<Installed>, Failure>;
    /// Installs all of these in one transaction; `repository` is a folder with packages, and the only source then.
    async fn install(&self, names: &[String], repository: Option<&str>) -> Result<(), Failure>;
    /// Removes all of these in one transaction; their configuration stays.
    async fn remove(&self, names: &[String]) -> Result<(), Failure>;
}

/// One act on the packages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PackageStep {
    /// Install these.
    Install {
        /// Which.
        names: Vec<String>,
        /// A folder with packages, the only source then.
        repository: Option<String>,
    },
    /// Remove these.
    Remove {
        /// Which.
        names: Vec<String>,
    },
}

impl fmt::Display for PackageStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Install { names, repository: None } => write!(f, "install {}", names.join(", ")),
            Self::Install { names, repository: Some(folder) } => {
                write!(f, "install {} from {folder}", names.join(", "))
            }
            Self::Remove { names } => write!(f, "remove the packages {}", names.join(", ")),
        }
    }
}

impl PackageStep {
    /// Does it.
    pub async fn apply(&self, machine: &Machine) -> Result<(), Failure> {
        match self {
            Self::Install { names, repository } => {
                machine.packages.install(names, repository.as_deref()).await
            }
            Self::Remove { names } => machine.packages.remove(names).await,
        }
    }
}
