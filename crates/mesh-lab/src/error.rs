//! What can go wrong with a lab, each said as: what happened, and what to do about it.
//!
//! It never prints. Everything in the library returns it; the command line turns it into words and an exit code.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Why the lab could not do what it was asked to.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// The program could not be started at all.
    #[error("cannot run `{command}`: is it installed and in PATH?")]
    NotStarted {
        /// The command line.
        command: String,
        /// What the system said.
        source: io::Error,
    },
    /// The program ran longer than it may, and was ended.
    #[error("`{command}` was ended because it did not finish within {}{}", seconds(*deadline), tail(last))]
    Overran {
        /// The command line.
        command: String,
        /// How long it had.
        deadline: Duration,
        /// The last lines it printed.
        last: String,
    },
    /// The program said no.
    #[error("`{command}` failed with exit code {code}{}", tail(last))]
    Failed {
        /// The command line.
        command: String,
        /// Its exit code.
        code: i32,
        /// The last lines it printed.
        last: String,
    },
    /// A program answered something this one cannot read.
    #[error("`{command}` answered what cannot be understood: {why}")]
    Unreadable {
        /// The command line.
        command: String,
        /// What is wrong with the answer.
        why: String,
    },
    /// A condition did not come true in time.
    #[error("waited {} for {what}: {last}", seconds(*deadline))]
    NeverCame {
        /// What was waited for.
        what: String,
        /// How long.
        deadline: Duration,
        /// Why it did not hold when it was last looked at.
        last: String,
    },
    /// This machine cannot run nodes.
    #[error("this machine cannot run nodes: {why}")]
    Unable {
        /// What is missing, and what to do.
        why: String,
    },
    /// A file could not be read or written.
    #[error("cannot {act} {path}")]
    File {
        /// Read, write, make, remove …
        act: &'static str,
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// An image is not what it should be.
    #[error("cannot use the node image {path}")]
    Image {
        /// The archive or layout.
        path: PathBuf,
        /// What is wrong with it.
        source: mesh_bundle::LayoutError,
    },
    /// Something the lab needs has not been built.
    #[error("there is no {path}: {next}")]
    NotBuilt {
        /// What is missing.
        path: PathBuf,
        /// How to get it.
        next: &'static str,
    },
    /// Something failed on a node; where to look.
    #[error("cannot raise {node}")]
    OnNode {
        /// Which node.
        node: String,
        /// What failed there.
        #[source]
        source: Box<LabError>,
        /// The folder of its journal.
        journal: PathBuf,
        /// The end of it.
        last: String,
    },
    /// The command line's contexts could not be read or changed.
    #[error("cannot {act} the context {name:?} of `mesh`")]
    Context {
        /// Keep, remove …
        act: &'static str,
        /// Which.
        name: String,
        /// What is wrong.
        source: mesh_client::Error,
    },
    /// The command line has a context of this name that is not the lab's.
    #[error(
        "`mesh` has a context {name:?} that is not this lab's and stays as it is: raise the lab under another name (--lab)"
    )]
    ContextTaken {
        /// The name.
        name: String,
    },
    /// The lab is not up.
    #[error("there is no lab {lab:?}: `mesh-lab up` raises it")]
    NotUp {
        /// Its name.
        lab: String,
    },
    /// The lab has no such node.
    #[error("lab {lab:?} has no node {wanted:?}: there are {present}")]
    NoNode {
        /// The lab's name.
        lab: String,
        /// What was asked for.
        wanted: String,
        /// What there is.
        present: String,
    },
    /// The node is not in a state in which that can be done.
    #[error("{node} {state}: {next}")]
    WrongState {
        /// Which node.
        node: String,
        /// What it is.
        state: String,
        /// What to do first.
        next: String,
    },
    /// Not a lab's name.
    #[error("{0:?} is no name of a lab: 1 to 30 of a-z, 0-9 and '-', neither first nor last a '-'")]
    BadName(String),
    /// Another process works on this lab.
    #[error("lab {lab:?} is being worked on by another mesh-lab; waited {} for it", seconds(*deadline))]
    Busy {
        /// Its name.
        lab: String,
        /// How long was waited.
        deadline: Duration,
    },
    /// Every address range the lab may use is taken.
    #[error(
        "every network the lab may use overlaps a route of this machine (tried {tried}): take a lab down, or give one with --subnet"
    )]
    NoSubnet {
        /// The ranges.
        tried: String,
    },
}

impl LabError {
    /// What to look at after the message: where the node's journal is, and its last lines.
    pub fn aftermath(&self) -> Option<String> {
        let Self::OnNode { journal, last, .. } = self else { return None };
        Some(format!("the journal is in {}; its last lines:\n{last}", journal.display()))
    }

    pub(crate) fn file(act: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File { act, path, source }
    }
}

fn tail(last: &str) -> String {
    let last = last.trim();
    if last.is_empty() { String::new() } else { format!(": {last}") }
}

/// A duration as a person says it.
pub(crate) fn seconds(duration: Duration) -> String {
    if duration.as_millis().is_multiple_of(1000) {
        format!("{} s", duration.as_secs())
    } else {
        format!("{:.1} s", duration.as_secs_f64())
    }
}
