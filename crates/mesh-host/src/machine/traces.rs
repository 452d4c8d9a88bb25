//! The host's own folders on the machine, removed once the machine is nobody's. Touches nothing outside them.
//!
//! Called by: leaving.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use crate::{
    failure::{During as _, Failure},
    ledger::Held,
    paths::Paths,
};

/// Removes what the host keeps for itself; the ledger after the rest, and the lock last, so that a kill in between leaves
/// what the next attempt needs. What stays is returned, with the reason.
pub fn remove(paths: &Paths, held: Held) -> Result<Vec<String>, Failure> {
    let state = paths.state();
    let last = [paths.secrets(), paths.ledger(), paths.lock()];
    for place in inside(&state)?.iter().filter(|place| !last.contains(*place)) {
        remove_any(place)?;
    }
    if let Some(folder) = paths.status().parent() {
        remove_any(folder)?;
    }
    remove_any(&paths.ledger())?;
    remove_any(&paths.lock())?;
    let mut stays = Vec::new();
    if inside(&paths.secrets())?.is_empty() {
        remove_any(&paths.secrets())?;
        remove_any(&state)?;
    } else {
        stays.push(format!(
            "{0}: the keys of the mesh that this machine raised, without which the data in its volumes is of no use; \
             'rm -r {0}' once nobody needs them",
            paths.secrets().display()
        ));
    }
    if paths.bundle().exists() {
        let bundle = paths.bundle();
        stays.push(format!("{0}: the images of a first node; 'rm -r {0}' removes them", bundle.display()));
    }
    drop(held);
    Ok(stays)
}

/// What is in this folder; nothing where it is not there.
fn inside(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let what = || format!("list {}", folder.display());
    match fs::read_dir(folder) {
        Ok(entries) => entries.map(|entry| Ok(entry.during(what())?.path())).collect(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error).during(what()),
    }
}

/// Removes a file, a link, or a folder with what is in it; what is not there is removed.
fn remove_any(place: &Path) -> Result<(), Failure> {
    let outcome = match fs::symlink_metadata(place) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(place),
        Ok(_) => fs::remove_file(place),
        Err(error) => Err(error),
    };
    match outcome {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).during(format!("remove {}", place.display()))
        }
        _ => Ok(()),
    }
}
