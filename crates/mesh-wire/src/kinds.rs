//! The kinds of resource: the whole vocabulary in which a machine can be told anything. There is no "run this command".
//!
//! One file a kind. A kind or a member that this version does not know is refused by name, never half-read.

mod check;
mod container;
mod database;
mod directory;
mod file;
mod host;
mod image;
mod mode;
mod network;
mod package;
mod sysctl;
mod timer;
mod unit;
mod user;
mod vhost;
mod volume;

use std::fmt;

pub use check::Check;
pub use container::{
    ContainerSpec, Health, HttpProbe, Lifecycle, Mount, Port, Protocol, Ready, Replace, Tmpfs,
};
pub use database::DatabaseSpec;
pub use directory::DirectorySpec;
pub use file::{Content, FileSpec, InvalidContent};
pub use host::{HostSource, HostSpec};
pub use image::ImageSpec;
pub use mode::{InvalidMode, Mode};
pub use network::NetworkSpec;
pub use package::PackageSpec;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
pub use sysctl::SysctlSpec;
pub use timer::TimerSpec;
pub use unit::UnitSpec;
pub use user::UserSpec;
pub use vhost::VhostSpec;
pub use volume::VolumeSpec;

macro_rules! kinds {
    ($($kind:ident $name:literal $spec:ty: $doc:literal),* $(,)?) => {
        /// A kind of resource.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "snake_case")]
        pub enum Kind {
            $(#[doc = $doc] $kind,)*
        }

        impl Kind {
            /// Every kind.
            pub const ALL: &[Self] = &[$(Self::$kind),*];

            /// Its name on the wire.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$kind => $name,)*
                }
            }
        }

        impl fmt::Display for Kind {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        /// What a resource is: its kind and what that kind needs to know.
        #[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
        #[serde(tag = "kind", content = "spec", rename_all = "snake_case")]
        pub enum Spec {
            $(#[doc = $doc] $kind($spec),)*
        }

        impl Spec {
            /// Its kind.
            pub const fn kind(&self) -> Kind {
                match self {
                    $(Self::$kind(_) => Kind::$kind,)*
                }
            }

            /// Reads the spec of a kind. The error is for a person.
            pub fn read(kind: &str, json: &str) -> Result<Self, String> {
                let spec = match kind {
                    $($name => serde_json::from_str(json).map(Self::$kind),)*
                    _ => return Err(format!("this host does not know the kind {kind:?}: upgrade mesh-host")),
                };
                let spec = spec.map_err(|error| format!("read the {kind}: {error}"))?;
                spec.check().map_err(|reason| format!("read the {kind}: {reason}"))?;
                Ok(spec)
            }

            /// What a reader of JSON alone cannot see. The error is for a person.
            pub fn check(&self) -> Result<(), String> {
                match self {
                    $(Self::$kind(spec) => spec.check(),)*
                }
            }
        }

        $(impl From<$spec> for Spec {
            fn from(spec: $spec) -> Self {
                Self::$kind(spec)
            }
        })*
    };
}

kinds! {
    Directory "directory" DirectorySpec: "A directory, its mode and its owner.",
    File "file" FileSpec: "A file, its content, its mode and its owner.",
    Package "package" PackageSpec: "Packages of the machine's package manager.",
    Unit "unit" UnitSpec: "A systemd unit.",
    Timer "timer" TimerSpec: "A program that a systemd timer runs.",
    User "user" UserSpec: "A system user and the group of its name.",
    Sysctl "sysctl" SysctlSpec: "Parameters of the kernel.",
    Container "container" Box<ContainerSpec>: "A container of the machine's engine.",
    Image "image" ImageSpec: "An image of the machine's engine.",
    Volume "volume" VolumeSpec: "A named volume of the machine's engine.",
    Network "network" NetworkSpec: "A network of the machine's engine.",
    Database "database" DatabaseSpec: "A database and its owner in a PostgreSQL container of this machine. Carried only.",
    Vhost "vhost" VhostSpec: "A virtual host and its administrator in a broker container of this machine. Carried only.",
    Host "host" HostSpec: "The version of the host itself. Never a module's.",
}

// By far the largest of all, and rarely the most frequent: the others do not pay for it.
impl From<ContainerSpec> for Spec {
    fn from(spec: ContainerSpec) -> Self {
        Self::Container(Box::new(spec))
    }
}

impl Spec {
    /// The ports of the machine that the resource binds when it is applied.
    pub fn binds(&self) -> Vec<u16> {
        match self {
            Self::Container(container) => container.ports.iter().map(|port| port.host).collect(),
            _ => Vec::new(),
        }
    }
}

/// A path that a machine is told to own: absolute, without `.` and `..`, printable.
fn check_path(path: &str) -> Result<(), String> {
    let parts = || path.split('/').skip(1);
    if !path.starts_with('/') || path == "/" {
        Err(format!("the path {path:?} is not absolute, or is the root"))
    } else if path.len() > 4096 || path.chars().any(char::is_control) {
        Err("the path is longer than 4,096 bytes or holds control characters".to_owned())
    } else if parts().any(|part| part.is_empty() || part == "." || part == "..") {
        Err(format!("the path {path:?} has an empty, '.' or '..' part"))
    } else {
        Ok(())
    }
}

/// A name that an engine, systemd or a server is handed: never empty, never an option, no separators.
fn check_name(what: &str, name: &str) -> Result<(), String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if name.is_empty() || name.len() > 200 || !name.chars().all(allowed) || name.starts_with(['-', '.']) {
        Err(format!("{name:?} is not a {what}: letters, digits, '.', '_' and '-', not first a '-' or '.'"))
    } else {
        Ok(())
    }
}
