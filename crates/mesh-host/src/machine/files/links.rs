//! Where a path leads when a folder in it is a symbolic link. Pure: it asks for each part of the path.
//!
//! What is owned and claimed is the path without links, so that two ways to one file are seen to be one. A link is
//! followed only where nobody but root can have put it there: otherwise whoever did could lead root anywhere.

use super::split;
use crate::failure::Failure;

/// As many as the kernel follows (path_resolution(7)).
const MOST_LINKS: usize = 40;

/// What is at a part of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// Nothing.
    Nothing,
    /// A folder.
    Folder {
        /// Who else than root can put something else in the place of what is in it; `None`: nobody. In a folder with the
        /// sticky bit nobody can touch what is root's.
        changed_by: Option<String>,
    },
    /// A symbolic link.
    Link {
        /// Where it leads.
        to: String,
        /// Who made it, if not root.
        owner: Option<String>,
    },
    /// Something else.
    Other,
}

/// The path with every link among its folders followed. A link at its end is not, nor is what is not there looked for.
/// `look`: what is at a path in which there are no links.
pub fn follow(path: &str, mut look: impl FnMut(&str) -> Result<Part, Failure>) -> Result<String, Failure> {
    let (folder, name) = split(path);
    let mut rest: Vec<String> = parts(folder);
    // Every folder so far, the root first, and who can change what is in it.
    let mut done: Vec<(String, Option<String>)> = vec![(String::new(), who(look("/")?))];
    let mut links = 0;
    while let Some(part) = rest.pop() {
        if part == ".." {
            if done.len() > 1 {
                done.pop();
            }
            continue;
        }
        let (base, risk) = done.last().cloned().unwrap_or_default();
        let at = format!("{base}/{part}");
        match look(&at)? {
            Part::Folder { changed_by } => done.push((at, risk.or(changed_by))),
            Part::Link { to, owner } => {
                if let Some(who) = risk.or(owner) {
                    return Err(Failure::new(format!(
                        "{path} leads through the symbolic link {at}, which {who} can change, so root does not follow it: \
                         declare the path it leads to, or make the link and the folders above it root's alone"
                    )));
                }
                links += 1;
                if links > MOST_LINKS {
                    return Err(Failure::new(format!(
                        "{path} leads through too many symbolic links, the last of them {at}: declare the path they lead to"
                    )));
                }
                if to.starts_with('/') {
                    done.truncate(1);
                }
                rest.extend(parts(&to));
            }
            Part::Nothing | Part::Other => {
                let beyond = [at].into_iter().chain(rest.into_iter().rev()).chain([name.to_owned()]);
                return Ok(beyond.collect::<Vec<String>>().join("/"));
            }
        }
    }
    let (base, _) = done.pop().unwrap_or_default();
    Ok(format!("{base}/{name}"))
}

/// The parts of a path, the last one first.
fn parts(path: &str) -> Vec<String> {
    path.split('/').rev().filter(|part| !part.is_empty() && *part != ".").map(str::to_owned).collect()
}

fn who(root: Part) -> Option<String> {
    match root {
        Part::Folder { changed_by } => changed_by,
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn led(path: &str) -> Result<String, String> {
        let link =
            |to: &str, owner: Option<&str>| Part::Link { to: to.to_owned(), owner: owner.map(str::to_owned) };
        let folder = |by: Option<&str>| Part::Folder { changed_by: by.map(str::to_owned) };
        let tree: BTreeMap<&str, Part> = BTreeMap::from([
            ("/", folder(None)),
            ("/run", folder(None)),
            ("/var", folder(None)),
            ("/var/run", link("/run", None)),
            ("/var/up", link("../run/./x", None)),
            ("/var/round", link("round", None)),
            ("/run/x", folder(None)),
            ("/run/file", Part::Other),
            ("/home", folder(None)),
            ("/home/bob", folder(Some("bob"))),
            ("/home/bob/way", link("/etc", None)),
            ("/home/bob/sub", folder(None)),
            ("/home/bob/sub/way", link("/etc", None)),
            ("/tmp", folder(None)),
            ("/tmp/way", link("/etc", Some("bob"))),
            ("/tmp/home", link("/home/bob", None)),
        ]);
        let look = |at: &str| Ok(tree.get(at).cloned().unwrap_or(Part::Nothing));
        follow(path, look).map_err(|why| why.to_string())
    }

    #[test]
    fn roots_own_links_are_followed_and_the_last_part_is_not() {
        for (path, leads_to) in [
            ("/run/x/f", "/run/x/f"),
            ("/var/run/x/f", "/run/x/f"),
            ("/var/run/new/deep/f", "/run/new/deep/f"),
            ("/var/up/f", "/run/x/f"),
            ("/var/run", "/var/run"),
            ("/run/file/f", "/run/file/f"),
            ("/run/file/deep/f", "/run/file/deep/f"),
            ("/f", "/f"),
            ("/home/bob/plain/f", "/home/bob/plain/f"),
            ("/tmp/home/f", "/home/bob/f"),
        ] {
            assert_eq!(led(path).as_deref(), Ok(leads_to), "{path}");
        }
    }

    #[test]
    fn a_link_that_somebody_else_can_change_is_refused_by_name() {
        for (path, link) in [
            ("/home/bob/way/f", "/home/bob/way"),
            ("/home/bob/sub/way/f", "/home/bob/sub/way"),
            ("/tmp/way/f", "/tmp/way"),
            ("/tmp/home/way/f", "/home/bob/way"),
        ] {
            let why = led(path).expect_err(path);
            assert!(
                why.contains(&format!("the symbolic link {link}, which bob can change")),
                "{path}: {why}"
            );
        }
        assert!(led("/var/round/f").expect_err("a circle").contains("too many symbolic links"));
    }
}
