//! The reader and the writer of OCI layouts against each other, and against damage.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mesh_bundle::tree::{Content, Kind, Node};
use mesh_bundle::{ImageDraft, Layout, LayoutError, LayoutWriter, Tree, hashing, layout, oci};
use proptest::prelude::*;

fn tree_of(files: &BTreeMap<String, Vec<u8>>) -> Tree {
    let mut tree = Tree::default();
    for (path, bytes) in files {
        tree.insert(path, Node::of_root(Kind::File(Arc::new(Content::Bytes(bytes.clone()))), 0o644));
    }
    tree
}

fn write(root: &Path, images: &[(&str, &BTreeMap<String, Vec<u8>>)]) {
    let mut writer = LayoutWriter::create(root).unwrap();
    for (name, files) in images {
        let draft = ImageDraft {
            name,
            architecture: layout::architecture(),
            epoch: 1_000,
            created: "1970-01-01T00:16:40Z",
            run: oci::Run { entrypoint: vec!["/run".to_owned()], ..oci::Run::default() },
            annotations: BTreeMap::from([(
                oci::PACKAGES.to_owned(),
                "libc 2.41-12 amd64\nzlib 1:1.3 amd64".to_owned(),
            )]),
            tree: &tree_of(files),
        };
        writer.add(&draft).unwrap();
    }
    writer.finish().unwrap();
}

fn blobs(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.insert(path.strip_prefix(root).unwrap().to_owned(), fs::read(&path).unwrap());
            }
        }
    }
    found
}

fn files() -> impl Strategy<Value = BTreeMap<String, Vec<u8>>> {
    proptest::collection::btree_map(
        "[a-z]{1,3}(/[a-z]{1,3}x){0,3}y",
        proptest::collection::vec(any::<u8>(), 0..600),
        1..8,
    )
}

fn one_file() -> BTreeMap<String, Vec<u8>> {
    BTreeMap::from([("etc/motd".to_owned(), b"hello".to_vec())])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn equal_content_gives_equal_layouts(one in files(), two in files()) {
        let folder = tempfile::tempdir().unwrap();
        let (first, second) = (folder.path().join("first"), folder.path().join("second"));
        write(&first, &[("mesh/one", &one), ("mesh/two", &two)]);
        write(&second, &[("mesh/two", &two), ("mesh/one", &one)]);
        prop_assert_eq!(blobs(&first), blobs(&second));
        Layout::open(&first).unwrap().verify().unwrap();
    }

    #[test]
    fn any_flipped_bit_of_a_blob_is_found_and_named(files in files(), place in any::<prop::sample::Index>(), bit in 0..8_u8) {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), &[("mesh/one", &files)]);
        let all = blobs(folder.path());
        let in_blobs: Vec<_> = all.iter().filter(|(path, _)| path.starts_with("blobs")).collect();
        let total: usize = in_blobs.iter().map(|(_, bytes)| bytes.len()).sum();
        let mut at = place.index(total);
        let (path, bytes) = in_blobs.into_iter().find(|(_, bytes)| {
            let here = at < bytes.len();
            if !here { at -= bytes.len(); }
            here
        }).unwrap();
        let mut damaged = bytes.clone();
        damaged[at] ^= 1_u8 << bit;
        fs::write(folder.path().join(path), damaged).unwrap();
        let error = Layout::open(folder.path()).unwrap().verify().unwrap_err();
        let name = path.file_name().unwrap().to_str().unwrap();
        prop_assert!(matches!(&error, LayoutError::Damaged { blob, .. } if blob.hex() == name), "{error}");
    }
}

#[test]
fn an_image_is_found_by_name_and_by_either_digest() {
    let folder = tempfile::tempdir().unwrap();
    write(
        folder.path(),
        &[("mesh/one", &one_file()), ("mesh/two", &BTreeMap::from([("a".to_owned(), vec![])]))],
    );
    let layout = Layout::open(folder.path()).unwrap();
    let image = layout.find_name("mesh/two").unwrap();
    assert_eq!(layout.find(image.digest()).unwrap().name.as_deref(), Some("mesh/two"));
    assert_eq!(layout.find(image.config()).unwrap().name.as_deref(), Some("mesh/two"));
    assert_eq!(image.packages().get("zlib"), Some(&"1:1.3 amd64"));
    let refusal = layout.find_name("mesh/three").unwrap_err().to_string();
    assert!(refusal.contains("mesh/three") && refusal.contains("mesh/one@sha256:"), "{refusal}");
    assert!(matches!(layout.only(), Err(LayoutError::Ambiguous { .. })));
}

#[test]
fn a_missing_and_a_truncated_blob_are_named() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), &[("mesh/one", &one_file())]);
    let layout = Layout::open(folder.path()).unwrap();
    let layer = layout.only().unwrap().manifest.layers[0].clone();
    let path = folder.path().join("blobs/sha256").join(layer.digest.hex());
    let whole = fs::read(&path).unwrap();
    fs::write(&path, &whole[..whole.len() - 1]).unwrap();
    assert!(matches!(layout.verify(), Err(LayoutError::Damaged { blob, .. }) if blob == layer.digest));
    fs::remove_file(&path).unwrap();
    assert!(matches!(layout.verify(), Err(LayoutError::Missing(blob)) if blob == layer.digest));
}

#[test]
fn what_is_streamed_to_an_engine_is_a_layout_and_a_docker_archive_of_the_same_image() {
    let folder = tempfile::tempdir().unwrap();
    write(
        folder.path(),
        &[("mesh/one", &one_file()), ("mesh/two", &BTreeMap::from([("a".to_owned(), vec![])]))],
    );
    let layout = Layout::open(folder.path()).unwrap();
    let image = layout.find_name("mesh/one").unwrap();
    let mut stream = Vec::new();
    layout.write_archive(&image, "mesh/one", &mut stream).unwrap();
    let tar = folder.path().join("one.tar");
    fs::write(&tar, &stream).unwrap();

    let archive = Layout::open(&tar).unwrap();
    archive.verify().unwrap();
    let again = archive.only().unwrap();
    assert_eq!((again.digest(), again.config()), (image.digest(), image.config()));
    assert_eq!(again.name.as_deref(), Some("mesh/one:bundle"));

    let mut entries = BTreeMap::new();
    for entry in tar::Archive::new(stream.as_slice()).entries().unwrap() {
        let mut entry = entry.unwrap();
        let mut bytes = Vec::new();
        std::io::copy(&mut entry, &mut bytes).unwrap();
        entries.insert(entry.path().unwrap().display().to_string(), bytes);
    }
    let docker: serde_json::Value = serde_json::from_slice(&entries["manifest.json"]).unwrap();
    assert_eq!(docker[0]["RepoTags"][0], "mesh/one:bundle");
    let config = &entries[docker[0]["Config"].as_str().unwrap()];
    assert_eq!(&hashing::digest_of(config), image.config(), "Docker's image id is the config's digest");
    // Docker checks each layer against the config's diff_ids.
    let config: serde_json::Value = serde_json::from_slice(config).unwrap();
    let layer = &entries[docker[0]["Layers"][0].as_str().unwrap()];
    assert_eq!(hashing::digest_of(layer).as_str(), config["rootfs"]["diff_ids"][0]);
}

#[test]
fn a_damaged_layer_ends_the_stream_early() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), &[("mesh/one", &one_file())]);
    let layout = Layout::open(folder.path()).unwrap();
    let image = layout.only().unwrap();
    let mut whole = Vec::new();
    layout.write_archive(&image, "mesh/one", &mut whole).unwrap();
    let layer = folder.path().join("blobs/sha256").join(image.manifest.layers[0].digest.hex());
    let mut bytes = fs::read(&layer).unwrap();
    bytes[600] ^= 1;
    fs::write(&layer, bytes).unwrap();
    let mut stream = Vec::new();
    assert!(matches!(
        layout.write_archive(&image, "mesh/one", &mut stream),
        Err(LayoutError::Damaged { .. })
    ));
    assert!(stream.len() + 1_024 <= whole.len(), "the mark of the archive's end was written all the same");
}

#[test]
fn an_image_taken_over_keeps_its_digests_under_its_new_name() {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("from"), folder.path().join("to"));
    write(&from, &[("mesh/one", &one_file())]);
    let layout = Layout::open(&from).unwrap();
    let image = layout.only().unwrap();
    let mut writer = LayoutWriter::create(&to).unwrap();
    writer.copy("mesh/uno", &layout, &image).unwrap();
    writer.finish().unwrap();
    let copied = Layout::open(&to).unwrap();
    copied.verify().unwrap();
    let linked = folder.path().join("linked");
    let mut writer = LayoutWriter::create(&linked).unwrap();
    writer.link("mesh/uno", &layout, &image).unwrap();
    writer.finish().unwrap();
    assert_eq!(blobs(&linked), blobs(&to));
    assert_eq!(copied.find_name("mesh/uno").unwrap().digest(), image.digest());
}

#[test]
fn an_image_for_another_architecture_is_not_offered() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), &[("mesh/one", &one_file())]);
    let path = folder.path().join("index.json");
    let mut index: oci::Index = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    index.manifests[0].platform =
        Some(oci::Platform { architecture: "s390x".to_owned(), os: "linux".to_owned() });
    fs::write(&path, serde_json::to_vec(&index).unwrap()).unwrap();
    assert_eq!(Layout::open(folder.path()).unwrap().images().unwrap().len(), 0);
}

#[test]
fn what_is_no_layout_is_refused_with_a_way_on() {
    let folder = tempfile::tempdir().unwrap();
    let refusal = Layout::open(folder.path()).err().unwrap().to_string();
    assert!(refusal.contains("no oci-layout") && refusal.contains("skopeo"), "{refusal}");
    let file = folder.path().join("no.tar");
    fs::File::create(&file).unwrap().write_all(&[7; 4096]).unwrap();
    assert!(matches!(Layout::open(&file), Err(LayoutError::NotALayout { .. })));
}
