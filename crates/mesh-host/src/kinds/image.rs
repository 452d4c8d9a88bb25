//! The kind `image`: an image that the engine has before anything needs it. On removal it goes only where a host fetched
//! it, nothing else declared wants it, and nothing was made from it.

use std::{borrow::Cow, collections::BTreeSet};

use mesh_ids::ImageRef;
use mesh_wire::kinds::ImageSpec;
use serde::{Deserialize, Serialize};

use super::{Claim, Kind, Memory};
use crate::{
    failure::Failure,
    machine::{Machine, engine::EngineStep},
    step::Step,
};

/// The kind.
#[derive(Debug)]
pub struct Image;

/// What was not there before.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageBefore {
    /// The images that the host fetched for this resource, one for each way in which it was declared.
    pub missing: BTreeSet<ImageRef>,
}

impl Kind for Image {
    type Spec = ImageSpec;
    /// Whether the engine has it.
    type Observed = bool;
    type Before = ImageBefore;

    fn claims(_: &ImageSpec) -> Vec<Claim> {
        // Whoever else wants the same image may have it too.
        Vec::new()
    }

    fn subject(spec: &ImageSpec) -> Cow<'_, str> {
        Cow::Borrowed(spec.image.name())
    }

    async fn observe(machine: &Machine, spec: &ImageSpec) -> Result<bool, Failure> {
        machine.engine.has_image(&spec.image).await
    }

    fn before(spec: &ImageSpec, is_there: &bool, earlier: Option<&ImageBefore>) -> ImageBefore {
        let mut before = earlier.cloned().unwrap_or_default();
        if !is_there {
            before.missing.insert(spec.image.clone());
        }
        before
    }

    fn plan(spec: &ImageSpec, is_there: &bool, _: &Memory<Self>) -> Result<Vec<Step>, Failure> {
        let fetch = (!is_there).then(|| Step::Engine(EngineStep::FetchImage(spec.image.clone())));
        Ok(fetch.into_iter().collect())
    }

    fn remove(_: &ImageSpec, _: &bool, before: &ImageBefore) -> Result<Vec<Step>, Failure> {
        Ok(before.missing.iter().map(|image| Step::Engine(EngineStep::RemoveImage(image.clone()))).collect())
    }
}
