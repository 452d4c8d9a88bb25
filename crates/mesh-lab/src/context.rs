//! The command line's context for a lab: kept when the mesh is up, gone with the lab.
//!
//! It never touches a context the lab did not make: a mark in the lab's folder says which one it made, and the current
//! context is only changed where there was none or it was a lab's.

use mesh_client::{Context, ContextStore};

use crate::error::LabError;
use crate::place::{LabName, Place, read_if_there, write_private};

/// Keeps what the bootstrap wrote for the first person, under the lab's name.
pub(crate) fn keep(
    store: &ContextStore,
    place: &Place,
    lab: &LabName,
    written: &str,
) -> Result<(), LabError> {
    let fail = |act| {
        let name = lab.to_string();
        move |source| LabError::Context { act, name, source }
    };
    let mut context: Context = serde_json::from_str(written).map_err(|error| LabError::Unreadable {
        command: "mesh-host bootstrap".to_owned(),
        why: error.to_string(),
    })?;
    lab.as_str().clone_into(&mut context.name);
    let names = store.list().map_err(fail("list"))?;
    if names.iter().any(|name| name == lab.as_str()) && !is_a_labs(lab.as_str())? {
        return Err(LabError::ContextTaken { name: lab.to_string() });
    }
    // The mark first: a context without it would be nobody's.
    write_private(&place.context_mark(), b"")?;
    store.save(&context).map_err(fail("keep"))?;
    let free = match store.current().map_err(fail("read"))? {
        None => true,
        Some(current) => is_a_labs(&current)?,
    };
    if free { store.choose(lab.as_str()).map_err(fail("choose")) } else { Ok(()) }
}

/// Removes the lab's context, if it made one.
pub(crate) fn remove(store: &ContextStore, place: &Place, lab: &LabName) -> Result<(), LabError> {
    if read_if_there(&place.context_mark())?.is_none() {
        return Ok(());
    }
    let name = lab.to_string();
    store.remove(lab.as_str()).map_err(|source| LabError::Context { act: "remove", name, source })
}

fn is_a_labs(context: &str) -> Result<bool, LabError> {
    match context.parse::<LabName>() {
        Ok(lab) => Ok(read_if_there(&Place::of(&lab)?.context_mark())?.is_some()),
        Err(_) => Ok(false),
    }
}
