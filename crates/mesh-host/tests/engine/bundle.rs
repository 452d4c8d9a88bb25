//! Images come from the bundle, by digest.

use std::fs;

use mesh_host::{
    kinds::{Kind as _, Memory, image::Image},
    machine::engine::{Draft, Engine as _},
};
use mesh_ids::Digest;
use mesh_wire::kinds::ImageSpec;

use crate::podman::{Podman, image_ref};

#[tokio::test]
async fn an_image_of_the_bundle_is_loaded_once_and_found_by_its_digest() {
    let podman = Podman::start().await;
    let (engine, image) = (podman.engine(), podman.image());
    assert!(!engine.has_image(&image).await.unwrap());
    engine.fetch_image(&image).await.unwrap();
    assert!(engine.has_image(&image).await.unwrap());
    // Not there any more, and not needed any more.
    fs::remove_dir_all(podman.path().join("bundle")).unwrap();
    engine.fetch_image(&image).await.unwrap();
}

#[tokio::test]
async fn an_image_that_is_nowhere_is_refused_in_words() {
    let podman = Podman::start().await;
    let image = image_ref("mesh/other", &Digest::of_sha256([7; 32]));
    let failure = podman.engine().fetch_image(&image).await.unwrap_err().to_string();
    assert!(failure.contains("names no registry"), "{failure}");
}

#[tokio::test]
async fn a_damaged_image_is_not_loaded() {
    let podman = Podman::start().await;
    let blobs = podman.path().join("bundle/oci/blobs/sha256");
    let largest = fs::read_dir(blobs).unwrap().map(|entry| entry.unwrap().path());
    let layer = largest.max_by_key(|path| path.metadata().unwrap().len()).unwrap();
    let mut bytes = fs::read(&layer).unwrap();
    bytes[100] ^= 1;
    fs::write(&layer, bytes).unwrap();
    let engine = podman.engine();
    assert!(engine.fetch_image(&podman.image()).await.is_err());
    assert!(!engine.has_image(&podman.image()).await.unwrap());
}

#[tokio::test]
async fn the_engine_is_named_with_its_version() {
    let podman = Podman::start().await;
    let version = podman.engine().version().await.unwrap();
    assert!(version.starts_with("podman 4") || version.starts_with("podman 5"), "{version}");
}

#[tokio::test]
async fn an_image_that_was_fetched_goes_once_nothing_is_made_from_it() {
    let podman = Podman::start().await;
    let machine = podman.machine();
    let spec = ImageSpec { image: podman.image() };
    let is_there = Image::observe(&machine, &spec).await.unwrap();
    let before = Image::before(&spec, &is_there, None);
    let memory = Memory { before: before.clone(), applied: None, changed: Vec::new(), reads: String::new() };
    for step in Image::plan(&spec, &is_there, &memory).unwrap() {
        step.apply(&machine).await.unwrap();
    }
    assert!(Image::observe(&machine, &spec).await.unwrap());

    machine.engine.create_container(&Draft::of(&podman.spec("web", "true"))).await.unwrap();
    let remove = async || {
        for step in Image::remove(&spec, &true, &before).unwrap() {
            step.apply(&machine).await.unwrap();
        }
    };
    remove().await;
    assert!(Image::observe(&machine, &spec).await.unwrap(), "a container was made from it");
    machine.engine.remove_container("web").await.unwrap();
    remove().await;
    assert!(!Image::observe(&machine, &spec).await.unwrap());
    remove().await;
}
