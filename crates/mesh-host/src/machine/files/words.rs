//! Why the operating system refused something about a file, in words a person can act on: what is so, and what to do.
//!
//! Pure. The real machine finds out which trouble it is ([`super::real`]); the machine in memory is given it.

use std::fmt;

use super::split;

/// What stands in the way of a change of a file or a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trouble {
    /// `chattr +i`.
    Immutable,
    /// `chattr +a`.
    AppendOnly,
    /// The file system is mounted so.
    ReadOnly,
    /// No space on the file system.
    Full,
    /// Space, but no inodes.
    NoInodes,
    /// The owner's share is used up.
    OverQuota,
    /// This process has as many descriptors as it may have.
    TooManyOpen,
    /// A name of more than 255 bytes, or a path of more than 4,095.
    NameTooLong,
    /// The folder it would be in is not there.
    NoFolder,
    /// What should be its folder is none.
    NotADirectory,
    /// A mount point.
    Mounted,
    /// The device reported an error.
    Broken,
    /// Not allowed, for a reason that is not known.
    NotAllowed,
}

impl Trouble {
    /// The trouble with this path. It never changes while the trouble lasts, so that it is logged once.
    pub fn with(self, path: &str) -> impl fmt::Display {
        let (folder, _) = split(path);
        let (path, folder) = (Quoted(path), Quoted(folder));
        match self {
            Self::Immutable => format!(
                "{path} is immutable, so not even root may change it: `chattr -i {path}` allows it again, or declare \
                 another path"
            ),
            Self::AppendOnly => format!(
                "{path} is append-only, so it may be neither replaced nor removed: `chattr -a {path}` allows it, or \
                 declare another path"
            ),
            Self::ReadOnly => format!(
                "the file system of {folder} is read-only: `findmnt -T {folder}` names it; mount it writable, or declare \
                 another path"
            ),
            Self::Full => format!("the file system of {folder} is full: free some space (`df -h {folder}`)"),
            Self::NoInodes => format!(
                "the file system of {folder} has no room for another file, though it has space: remove files \
                 (`df -i {folder}`)"
            ),
            Self::OverQuota => {
                format!("the quota on the file system of {folder} is used up: free some space, or raise it (`repquota -a`)")
            }
            Self::TooManyOpen => {
                "mesh-host has as many files open as it may: it is tried again; should it last, raise LimitNOFILE= of \
                 mesh-host.service"
                    .to_owned()
            }
            Self::NameTooLong => {
                format!("{path} is too long for the machine: a name has at most 255 bytes, a path 4,095")
            }
            Self::NoFolder => {
                format!("there is no folder {folder}: declare it as a directory, and let this wait for it with `after`")
            }
            Self::NotADirectory => {
                format!("{folder} is not a directory: remove what is there, or declare another path")
            }
            Self::Mounted => {
                format!("something is mounted at {path}: `umount {path}`, or declare another path")
            }
            Self::Broken => format!(
                "the device under {folder} reported an error: look at `journalctl -k`, and replace it if it fails"
            ),
            Self::NotAllowed => format!("the machine does not allow it: `ls -ld {path} {folder}` and `lsattr -d {path}` may say why"),
        }
    }
}

/// A path as it can be given to a shell.
struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = |c: char| c.is_alphanumeric() || "/._-+@:,%=".contains(c);
        if self.0.chars().all(plain) {
            f.write_str(self.0)
        } else {
            write!(f, "'{}'", self.0.replace('\'', r"'\''"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_to_do_can_be_given_to_a_shell() {
        let words = |path: &str| Trouble::Immutable.with(path).to_string();
        assert!(words("/etc/motd").contains("`chattr -i /etc/motd`"));
        assert!(words("/etc/a b").contains("`chattr -i '/etc/a b'`"));
        assert!(words("/etc/it's").contains(r"`chattr -i '/etc/it'\''s'`"));
        assert!(Trouble::Full.with("/top").to_string().contains("`df -h /`"));
    }
}
