//! The parameters of the running kernel. Knows nothing of the files that set them when the machine starts, and never
//! makes one.

use std::{
    fmt, fs, io,
    io::Write as _,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use rustix::fs::OFlags;

use super::Machine;
use crate::failure::{During as _, Failure};

/// The parameters of the kernel. Every name was checked when it was read (`mesh_wire::kinds::SysctlSpec`).
pub trait Sysctls {
    /// The value of a parameter, with single spaces between its parts; `None` where the kernel has no such parameter.
    fn look(&self, key: &str) -> Result<Option<String>, Failure>;
    /// Sets a parameter at once.
    fn set(&self, key: &str, value: &str) -> Result<(), Failure>;
}

/// A value as it is compared: the kernel writes tabs between the parts of one, people write spaces.
pub fn plain(value: &str) -> String {
    value.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// One act on the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SysctlStep {
    /// Which parameter.
    pub key: String,
    /// What it becomes.
    pub value: String,
}

impl fmt::Display for SysctlStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "set {} to {}", self.key, self.value)
    }
}

impl SysctlStep {
    /// Does it, and looks whether the kernel took the value as it is.
    pub fn apply(&self, machine: &Machine) -> Result<(), Failure> {
        machine.sysctls.set(&self.key, &self.value)?;
        match machine.sysctls.look(&self.key)? {
            Some(now) if now == plain(&self.value) => Ok(()),
            Some(now) => {
                Err(Failure::new(format!("the kernel made {now} of it: declare a value that it keeps")))
            }
            None => Err(Failure::new("the kernel no longer has this parameter")),
        }
    }
}

/// The kernel's own, in `/proc/sys`.
#[derive(Debug)]
pub struct RealSysctls {
    folder: PathBuf,
}

impl RealSysctls {
    /// Those of the machine under `root`.
    pub fn new(root: &Path) -> Self {
        Self { folder: root.join("proc/sys") }
    }

    /// A dot parts folders, a `/` is a dot inside of a name (sysctl.d(5)).
    fn at(&self, key: &str) -> PathBuf {
        let swap = |c| match c {
            '.' => '/',
            '/' => '.',
            c => c,
        };
        self.folder.join(key.chars().map(swap).collect::<String>())
    }
}

fn open(options: &mut fs::OpenOptions, path: &Path) -> io::Result<fs::File> {
    options.custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed()).open(path)
}

impl Sysctls for RealSysctls {
    fn look(&self, key: &str) -> Result<Option<String>, Failure> {
        let at = self.at(key);
        let read = || {
            let file = open(fs::OpenOptions::new().read(true), &at)?;
            if file.metadata()?.is_dir() {
                return Err(io::Error::other("it is not one parameter, but holds several"));
            }
            io::read_to_string(file)
        };
        match read() {
            Ok(value) => Ok(Some(plain(&value))),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                Ok(None)
            }
            Err(error) => Err(error).during(format!("read {key}")),
        }
    }

    fn set(&self, key: &str, value: &str) -> Result<(), Failure> {
        let at = self.at(key);
        // In one call: the kernel takes each for a value of its own.
        let set = || {
            open(fs::OpenOptions::new().write(true).truncate(true), &at)?
                .write_all(format!("{value}\n").as_bytes())
        };
        set().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
                Failure::new("the kernel has no such parameter")
            }
            io::ErrorKind::InvalidInput | io::ErrorKind::ArgumentListTooLong => {
                Failure::of("the kernel refuses the value", &error)
            }
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Failure::of(
                "it cannot be changed here (a container, or a parameter that is read-only)",
                &error,
            ),
            _ => Failure::of("set it", &error),
        })
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_is_a_file_below_proc_sys_and_a_slash_is_a_dot() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("proc/sys/net/conf/eth0.7");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("mem"), "1\t2\t3\n").unwrap();
        let sysctls = RealSysctls::new(root.path());
        assert_eq!(sysctls.look("net.conf.eth0/7.mem").unwrap().as_deref(), Some("1 2 3"));
        sysctls.set("net.conf.eth0/7.mem", "4 5").unwrap();
        assert_eq!(fs::read_to_string(folder.join("mem")).unwrap(), "4 5\n");
        assert_eq!(sysctls.look("net.conf.eth0/8.mem").unwrap(), None);
        assert_eq!(sysctls.look("net.conf.eth0/7.mem.more").unwrap(), None);
        assert!(sysctls.look("net.conf").unwrap_err().to_string().contains("holds several"));
        let refused = sysctls.set("net.conf.none", "1").unwrap_err().to_string();
        assert_eq!(refused, "the kernel has no such parameter");
        assert!(!root.path().join("proc/sys/net/conf/none").exists(), "none was made");
        std::os::unix::fs::symlink("/etc/hostname", folder.join("link")).unwrap();
        assert!(sysctls.look("net.conf.eth0/7.link").is_err(), "a link is not followed");
    }

    #[test]
    fn this_kernel_is_read_and_says_what_it_does_not_take() {
        let sysctls = RealSysctls::new(Path::new("/"));
        assert!(sysctls.look("kernel.ostype").unwrap().is_some());
        assert_eq!(sysctls.look("kernel.mesh_has_no_such_parameter").unwrap(), None);
        assert!(sysctls.set("kernel.ostype", "mesh").is_err(), "it is read-only");
    }
}
