//! Images that a person gives in place of the bundle's: `--image broker=…`. Remembered, so that a second run without
//! them changes nothing.

use std::{collections::BTreeMap, path::PathBuf, str::FromStr};

use mesh_bundle::Bundle;
use mesh_ids::{Digest, ImageRef};
use serde::{Deserialize, Serialize};

use super::{BootstrapError, Tell, Told};
use crate::{
    failure::{During as _, Failure},
    keys::{read_private, write_private},
    machine::engine::images::keep_archive,
    paths::Paths,
};

/// One `--image NAME=…`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GivenImage {
    /// The image of the bundle whose place it takes: `broker`, or `mesh/broker`.
    name: String,
    from: From,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum From {
    /// An OCI archive, or a folder with an OCI layout, with one image in it.
    Archive(PathBuf),
    /// A registry's image by its digest.
    Registry(ImageRef),
}

impl FromStr for GivenImage {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form = "give an image as NAME=oci-archive:PATH or NAME=REGISTRY/NAME@sha256:DIGEST";
        let (name, from) = text.split_once('=').ok_or(form)?;
        if name.is_empty() || from.is_empty() {
            return Err(form.to_owned());
        }
        let from = match from.strip_prefix("oci-archive:") {
            Some(path) => From::Archive(path.into()),
            None if from.contains("@sha256:") => {
                From::Registry(from.parse().map_err(|error| format!("{error}; {form}"))?)
            }
            None if from.starts_with(['/', '.']) => From::Archive(from.into()),
            None => {
                return Err(format!("{from} has no digest, so it could be another image tomorrow; {form}"));
            }
        };
        Ok(Self { name: name.to_owned(), from })
    }
}

/// What was given, by the name of the image whose place it takes.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
struct Remembered(BTreeMap<String, Replacement>);

#[derive(Debug, Serialize, Deserialize)]
struct Replacement {
    by: ImageRef,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    config: Option<Digest>,
}

/// Puts what is given now, and what was given before, in the place of the bundle's images.
pub(super) fn replace(
    bundle: &mut Bundle,
    paths: &Paths,
    given: &[GivenImage],
    tell: Tell<'_>,
) -> Result<(), BootstrapError> {
    let file = paths.state().join("given-images.json");
    let mut all: Remembered = match read_private(&file)? {
        Some(text) => serde_json::from_str(&text).during(format!("read {}", file.display()))?,
        None => Remembered::default(),
    };
    for image in given {
        let usage = |error: &mesh_bundle::BundleError| BootstrapError::Usage(format!("--image: {error}"));
        let name = bundle.image(&image.name).map_err(|error| usage(&error))?.name.clone();
        let replacement = match &image.from {
            From::Registry(by) => Replacement { by: by.clone(), config: None },
            From::Archive(path) => {
                tell(Told::Step(&format!("keep a copy of {} in place of {name}", path.display())));
                let (manifest, config) = keep_archive(path, &paths.images(), &name)?;
                let by = format!("{name}@{manifest}").parse().during("name the given image")?;
                Replacement { by, config: Some(config) }
            }
        };
        all.0.insert(name, replacement);
    }
    if !given.is_empty() {
        let json = serde_json::to_vec_pretty(&all).during("remember what was given")?;
        crate::keys::make_private_folder(&paths.state())?;
        write_private(&file, &json)?;
    }
    for (name, Replacement { by, config }) in &all.0 {
        let replaced = bundle.replace_image(name, by, config.as_ref());
        replaced.map_err(|error| Failure::of("use the images that were given", &error))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_given_by_archive_or_by_digest_and_never_by_tag() {
        let digest = format!("sha256:{}", "a".repeat(64));
        for good in [
            "broker=oci-archive:x.tar".to_owned(),
            "broker=./x.tar".to_owned(),
            format!("mesh/broker=registry.example/lavinmq@{digest}"),
        ] {
            assert!(good.parse::<GivenImage>().is_ok(), "{good}");
        }
        for bad in ["broker", "broker=", "=x", "broker=registry.example/lavinmq:2", "broker=X@sha256:1"] {
            assert!(bad.parse::<GivenImage>().is_err(), "{bad}");
        }
    }
}
