//! Reads the file of resources that `plan` and `apply` are given.

use std::path::Path;

use mesh_wire::LocalDeclaration;

use super::{Ended, Exit};
use crate::{machine::files::read_input, reconcile::Declared};

/// The resources of a file, or of stdin where it is `-`.
pub(super) fn read(file: &Path) -> Result<Vec<Declared>, Ended> {
    let bytes = read_input(file).map_err(|error| {
        let exit = if error.kind() == std::io::ErrorKind::NotFound { Exit::NotFound } else { Exit::Failed };
        Ended::new(exit, format!("read {}: {error}", file.display()))
    })?;
    let declared = LocalDeclaration::read(&bytes).map_err(|error| {
        Ended::new(Exit::Usage, format!("{error}: {} should be {{\"resources\": […]}}", file.display()))
    })?;
    Ok(declared.resources())
}
