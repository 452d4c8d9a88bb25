//! Which packages differ between two builds whose digests differ, so that "it is not the same" always has a name.
//!
//! Pure over two opened layouts. [`super::run`] calls it for `bundle diff`.

use std::collections::BTreeSet;

use mesh_bundle::{Image, Layout};

/// What differs, a line each; none when every image has the same digest on both sides.
pub(crate) fn compare(left: &Layout, right: &Layout) -> anyhow::Result<Vec<String>> {
    let (left, right) = (left.images()?, right.images()?);
    let names: BTreeSet<&str> = left.iter().chain(&right).map(name_of).collect();
    let mut lines = Vec::new();
    for name in names {
        let find = |images: &'_ [Image]| images.iter().find(|image| name_of(image) == name).cloned();
        match (find(&left), find(&right)) {
            (Some(one), Some(other)) if one.digest() == other.digest() => {}
            (Some(one), Some(other)) => {
                lines.push(format!("{name}: {} became {}", one.digest(), other.digest()));
                lines.extend(packages(&one, &other));
            }
            (Some(_), None) => lines.push(format!("{name}: only on the left")),
            (None, _) => lines.push(format!("{name}: only on the right")),
        }
    }
    Ok(lines)
}

fn name_of(image: &Image) -> &str {
    image.name.as_deref().unwrap_or("(no name)").trim_end_matches(":bundle")
}

fn packages(one: &Image, other: &Image) -> Vec<String> {
    let (left, right) = (one.packages(), other.packages());
    let names: BTreeSet<&str> = left.keys().chain(right.keys()).copied().collect();
    let differing = names.into_iter().filter(|name| left.get(name) != right.get(name));
    let shown = |version: Option<&&str>| version.map_or("absent", |version| *version).to_owned();
    let lines: Vec<String> = differing
        .map(|name| format!("  package {name}: {} became {}", shown(left.get(name)), shown(right.get(name))))
        .collect();
    if !lines.is_empty() {
        return lines;
    }
    let why = if one.config() == other.config() {
        "only annotations differ"
    } else {
        "no package differs: the recipe, one of its files, or what cooks it does"
    };
    vec![format!("  {why}")]
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]
mod tests {
    use std::collections::BTreeMap;

    use mesh_bundle::{ImageDraft, LayoutWriter, Tree, oci};

    use super::*;

    fn layout_with(packages: &str, env: &str) -> (tempfile::TempDir, Layout) {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = LayoutWriter::create(folder.path()).unwrap();
        writer
            .add(&ImageDraft {
                name: "mesh/store",
                architecture: "amd64",
                epoch: 0,
                created: "1970-01-01T00:00:00Z",
                run: oci::Run { env: vec![env.to_owned()], ..oci::Run::default() },
                annotations: BTreeMap::from([(oci::PACKAGES.to_owned(), packages.to_owned())]),
                tree: &Tree::default(),
            })
            .unwrap();
        writer.finish().unwrap();
        let layout = Layout::open(folder.path()).unwrap();
        (folder, layout)
    }

    #[test]
    fn the_packages_that_differ_are_named() {
        let (_one, one) = layout_with("libc6 2.41-12 amd64\nzlib1g 1:1.3 amd64\nold 1 all", "A=1");
        let (_two, two) = layout_with("libc6 2.41-13 amd64\nzlib1g 1:1.3 amd64\nnew 2 all", "A=1");
        let lines = compare(&one, &two).unwrap();
        assert_eq!(
            lines[1..],
            [
                "  package libc6: 2.41-12 amd64 became 2.41-13 amd64",
                "  package new: absent became 2 all",
                "  package old: 1 all became absent",
            ]
        );
        assert_eq!(compare(&one, &one).unwrap(), Vec::<String>::new());
    }

    #[test]
    fn a_difference_that_no_package_explains_is_said_to_be_one() {
        let (_one, one) = layout_with("libc6 2.41-12 amd64", "A=1");
        let (_two, two) = layout_with("libc6 2.41-12 amd64", "A=2");
        assert!(compare(&one, &two).unwrap()[1].contains("no package differs"));
    }
}
