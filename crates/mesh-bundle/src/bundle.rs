//! `bundle.toml`: what the first node raises, in which order, from which images, with which secrets, and why each is
//! there.
//!
//! Reads and writes it and says what is wrong with it, by file and field. It decides nothing and makes no secret
//! (`mesh-mint` does). `xtask` writes bundles, `mesh-host bootstrap` reads them.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use mesh_ids::{Digest, ImageRef, ResourceId};
use mesh_wire::{Resource, Spec, kinds::Content};
use serde::{Deserialize, Serialize};

/// The format this crate writes, and the only one it reads.
pub const FORMAT: u32 = 1;

/// The resource whose content is the list of carried images, for the control plane to resolve names by.
pub const CATALOGUE: &str = "file:images";

/// `bundle.toml`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bundle {
    /// [`FORMAT`].
    pub format: u32,
    /// The images in `oci/`.
    #[serde(default, rename = "image")]
    pub images: Vec<CarriedImage>,
    /// What is generated, where absent, before the first resource is applied.
    #[serde(default, rename = "secret")]
    pub secrets: Vec<Secret>,
    /// What is applied, in order.
    #[serde(default, rename = "resource")]
    pub resources: Vec<CarriedResource>,
}

/// One image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CarriedImage {
    /// Its name, such as `mesh/store`.
    pub name: String,
    /// The digest of its manifest.
    pub digest: Digest,
    /// The digest of its config: the engine's image id.
    pub config: Digest,
    /// Why it is in the bundle.
    pub why: String,
}

/// One generated file, mode 0600 and root's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Secret {
    /// Where it stands on the machine.
    pub path: String,
    /// Why it is there.
    pub why: String,
    /// What is generated.
    #[serde(flatten)]
    pub generate: Generate,
}

/// What a generated file holds. No text ends in a newline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "generate", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Generate {
    /// 32 random bytes in base64url, for a program to log in with.
    Password,
    /// 32 random bytes in base64url, for a person to log in with.
    Token,
    /// The 32-byte seed of an Ed25519 key in base64.
    Ed25519,
    /// A mesh's id.
    MeshId,
    /// The machine's own addresses with this port, separated by commas: where others reach what it runs.
    Advertise {
        /// The port.
        port: u16,
    },
    /// The key of a certificate authority, PEM; its certificate goes to another file.
    Ca {
        /// Where the certificate goes, PEM.
        certificate: String,
    },
    /// The key of a server, PEM; its certificate goes to another file, followed by the authority's. The certificate
    /// holds the machine's addresses too.
    ServerCertificate {
        /// Where the certificates go, PEM.
        certificate: String,
        /// The key of the authority that signs: the `path` of a `ca` that stands before this one.
        ca: String,
        /// Under which names it is reached.
        names: Vec<String>,
    },
}

impl Generate {
    /// The second file, for what has two.
    pub fn certificate(&self) -> Option<&str> {
        match self {
            Self::Ca { certificate } | Self::ServerCertificate { certificate, .. } => Some(certificate),
            _ => None,
        }
    }
}

/// One resource.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CarriedResource {
    /// Why it is there.
    pub why: String,
    /// The resource, as in a declaration.
    #[serde(flatten)]
    pub resource: Resource,
}

/// What is wrong with a bundle.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// The file cannot be read.
    #[error("read the bundle {path}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// It is not the TOML of a bundle.
    #[error("read the bundle {path}: {reason}")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Line, column and what was expected.
        reason: String,
    },
    /// A newer program wrote it.
    #[error(
        "read the bundle {path}: it has format {found} and this program reads format {FORMAT}: use the mesh-host that came with the bundle"
    )]
    UnknownFormat {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: u32,
    },
    /// It can be read and makes no sense.
    #[error("read the bundle {path}: {field}: {reason}")]
    Invalid {
        /// The file.
        path: PathBuf,
        /// The field, such as `resource "container:store".spec.image`.
        field: String,
        /// What is wrong with it.
        reason: String,
    },
    /// There is no such image to replace.
    #[error("the bundle has no image {wanted:?}; it has {present}")]
    NoImage {
        /// What was asked for.
        wanted: String,
        /// What there is.
        present: String,
    },
}

impl Bundle {
    /// Reads `bundle.toml` at `path` and checks it.
    pub fn read(path: &Path) -> Result<Self, BundleError> {
        let text = fs::read_to_string(path)
            .map_err(|source| BundleError::Unreadable { path: path.to_owned(), source })?;
        Self::parse(&text, path)
    }

    /// Reads the text of a bundle; `path` is what errors call it.
    pub fn parse(text: &str, path: &Path) -> Result<Self, BundleError> {
        /// Only what every format has.
        #[derive(Deserialize)]
        struct Any {
            format: u32,
        }
        let malformed = |error: toml::de::Error| BundleError::Malformed {
            path: path.to_owned(),
            reason: error.to_string().trim_end().to_owned(),
        };
        let Any { format } = toml::from_str(text).map_err(malformed)?;
        if format != FORMAT {
            return Err(BundleError::UnknownFormat { path: path.to_owned(), found: format });
        }
        let bundle: Self = toml::from_str(text).map_err(malformed)?;
        match bundle.check() {
            Ok(()) => Ok(bundle),
            Err((field, reason)) => Err(BundleError::Invalid { path: path.to_owned(), field, reason }),
        }
    }

    /// The text of `bundle.toml`.
    pub fn to_toml(&self) -> Result<String, toml::ser::Error> {
        toml::to_string(self)
    }

    /// What a parser cannot see: the field and what is wrong with it.
    pub fn check(&self) -> Result<(), (String, String)> {
        let refuse = |field: String, reason: &str| Err((field, reason.to_owned()));
        let mut names = BTreeSet::new();
        for image in &self.images {
            let field = format!("image {:?}", image.name);
            check_why(&field, &image.why)?;
            if format!("{}@{}", image.name, image.digest).parse::<ImageRef>().is_err() {
                return refuse(field + ".name", "this is no name of an image");
            }
            if !names.insert(&image.name) {
                return refuse(field, "it is there twice");
            }
        }
        self.check_secrets()?;
        let mut ids: BTreeSet<&ResourceId> = BTreeSet::new();
        for CarriedResource { why, resource } in &self.resources {
            let field = format!("resource {:?}", resource.id.to_string());
            check_why(&field, why)?;
            if ids.contains(&resource.id) {
                return refuse(field, "it is there twice");
            }
            if let Some(missing) = needs(resource).find(|id| !ids.contains(id)) {
                return refuse(field, &format!("it needs {missing}, which does not stand before it"));
            }
            if let Spec::Container(container) = &resource.spec
                && !self.images.iter().any(|image| {
                    image.name == container.image.name() && image.digest == *container.image.digest()
                })
            {
                let reason = format!("{} is not among the bundle's images", container.image);
                return refuse(field + ".spec.image", &reason);
            }
            ids.insert(&resource.id);
        }
        Ok(())
    }

    fn check_secrets(&self) -> Result<(), (String, String)> {
        let mut paths: BTreeSet<&str> = BTreeSet::new();
        let mut authorities: BTreeSet<&str> = BTreeSet::new();
        for secret in &self.secrets {
            let field = format!("secret {:?}", secret.path);
            check_why(&field, &secret.why)?;
            for path in std::iter::once(secret.path.as_str()).chain(secret.generate.certificate()) {
                if !path.starts_with('/') || path.split('/').any(|part| part == "..") {
                    return Err((field, format!("{path:?} is no absolute path")));
                }
                if !paths.insert(path) {
                    return Err((field, format!("{path:?} is generated twice")));
                }
            }
            match &secret.generate {
                Generate::Ca { .. } => {
                    authorities.insert(&secret.path);
                }
                Generate::ServerCertificate { ca, names, .. } => {
                    if !authorities.contains(ca.as_str()) {
                        return Err((
                            field + ".ca",
                            format!("no secret before it is an authority at {ca:?}"),
                        ));
                    }
                    if names.is_empty() {
                        return Err((field + ".names", "a server has at least one name".to_owned()));
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The image of this name.
    pub fn image(&self, name: &str) -> Result<&CarriedImage, BundleError> {
        let found =
            self.images.iter().find(|image| image.name == name || image.name == format!("mesh/{name}"));
        found.ok_or_else(|| BundleError::NoImage {
            wanted: name.to_owned(),
            present: self.images.iter().map(|image| image.name.as_str()).collect::<Vec<_>>().join(", "),
        })
    }

    /// Puts another image in the place of the one called `name` (`mesh/broker`, or `broker`), in every container that
    /// runs it and in the catalogue. `config` is known where the image is at hand, and otherwise only after the engine
    /// fetched it: the manifest's digest stands in for it then.
    pub fn replace_image(
        &mut self,
        name: &str,
        by: &ImageRef,
        config: Option<&Digest>,
    ) -> Result<(), BundleError> {
        let old = self.image(name)?.clone();
        for image in self.images.iter_mut().filter(|image| image.name == old.name) {
            by.name().clone_into(&mut image.name);
            image.digest = by.digest().clone();
            image.config = config.unwrap_or(by.digest()).clone();
        }
        for carried in &mut self.resources {
            if let Spec::Container(container) = &mut carried.resource.spec
                && container.image.name() == old.name
            {
                container.image = by.clone();
            }
        }
        self.write_catalogue();
        Ok(())
    }

    /// The list of images, as TOML: what the control plane resolves an image's name by.
    pub fn catalogue(&self) -> String {
        let table = |image: &CarriedImage| {
            format!("[[image]]\nname = \"{}\"\ndigest = \"{}\"\n\n", image.name, image.digest)
        };
        self.images.iter().map(table).collect()
    }

    /// Makes the list of images the content of the resource [`CATALOGUE`], where there is one.
    pub fn write_catalogue(&mut self) {
        let text = self.catalogue();
        for carried in &mut self.resources {
            if let Spec::File(file) = &mut carried.resource.spec
                && carried.resource.id.to_string() == CATALOGUE
            {
                file.content = Content::Text(text.clone());
            }
        }
    }
}

fn check_why(field: &str, why: &str) -> Result<(), (String, String)> {
    if why.trim().is_empty() { Err((format!("{field}.why"), "it has no reason".to_owned())) } else { Ok(()) }
}

/// What has to stand before a resource.
fn needs(resource: &Resource) -> impl Iterator<Item = &ResourceId> {
    let restart_on = match &resource.spec {
        Spec::Container(container) => container.restart_on.as_slice(),
        Spec::Unit(unit) => unit.restart_on.as_slice(),
        _ => &[],
    };
    resource.after.iter().chain(restart_on)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]
mod tests {
    use super::*;

    const TEXT: &str = r#"
format = 1
[[image]]
name = "mesh/store"
digest = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
config = "sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
why = "the store"
[[secret]]
path = "/s/ca.key"
generate = "ca"
certificate = "/s/ca.pem"
why = "signs"
[[secret]]
path = "/s/api.key"
generate = "server-certificate"
certificate = "/s/api.crt"
ca = "/s/ca.key"
names = ["control"]
why = "serves"
[[secret]]
path = "/s/password"
generate = "password"
why = "logs in"
[[resource]]
id = "network:n"
kind = "network"
why = "a network"
[resource.spec]
name = "n"
[[resource]]
id = "file:images"
kind = "file"
why = "the catalogue"
[resource.spec]
path = "/etc/images.toml"
content = { text = "" }
[[resource]]
id = "container:store"
kind = "container"
after = ["network:n"]
why = "the store"
[resource.spec]
name = "store"
image = "mesh/store@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
"#;

    fn parse(text: &str) -> Result<Bundle, BundleError> {
        Bundle::parse(text, Path::new("bundle.toml"))
    }

    #[test]
    fn a_bundle_survives_its_own_text() {
        let bundle = parse(TEXT).unwrap();
        assert_eq!(bundle.secrets.len(), 3);
        assert_eq!(parse(&bundle.to_toml().unwrap()).unwrap(), bundle);
    }

    #[test]
    fn what_is_wrong_is_named_by_file_and_field() {
        let replaced = |from: &str, to: &str| {
            assert!(TEXT.contains(from), "{from}");
            parse(&TEXT.replacen(from, to, 1)).unwrap_err().to_string()
        };
        for (from, to, expected) in [
            ("format = 1", "format = 2", "bundle.toml: it has format 2"),
            ("why = \"the catalogue\"", "why = \" \"", "resource \"file:images\".why: it has no reason"),
            ("why = \"the catalogue\"", "", "missing field `why`"),
            ("after = [\"network:n\"]", "after = [\"network:m\"]", "\"container:store\": it needs network:m"),
            ("id = \"file:images\"", "id = \"network:n\"", "resource \"network:n\": it is there twice"),
            ("ca = \"/s/ca.key\"", "ca = \"/s/other\"", "secret \"/s/api.key\".ca: no secret before it"),
            ("path = \"/s/password\"", "path = \"/s/ca.pem\"", "\"/s/ca.pem\" is generated twice"),
            ("path = \"/s/password\"", "path = \"s/password\"", "is no absolute path"),
            ("generate = \"password\"", "generate = \"passwort\"", "unknown variant `passwort`"),
            (
                "name = \"mesh/store\"",
                "name = \"mesh/other\"",
                "resource \"container:store\".spec.image: mesh/store@",
            ),
            ("name = \"n\"", "nam = \"n\"", "unknown field `nam`"),
            ("kind = \"network\"", "kind = \"nettwerk\"", "does not know the kind \"nettwerk\""),
            ("digest = \"sha256:a", "digest = \"sha256:g", "is not a digest"),
        ] {
            let found = replaced(from, to);
            assert!(found.contains(expected) && found.contains("bundle.toml"), "{expected:?} not in {found}");
        }
    }

    #[test]
    fn another_image_takes_the_place_of_one_everywhere() {
        let mut bundle = parse(TEXT).unwrap();
        let by: ImageRef = format!("other/postgres@sha256:{}", "c".repeat(64)).parse().unwrap();
        bundle.replace_image("store", &by, None).unwrap();
        bundle.check().unwrap();
        let text = bundle.to_toml().unwrap();
        assert!(!text.contains("mesh/store"), "{text}");
        assert_eq!(
            text.matches(&"c".repeat(64)).count(),
            4,
            "image, its config, container, catalogue: {text}"
        );
        let refusal = bundle.replace_image("queue", &by, None).unwrap_err().to_string();
        assert_eq!(refusal, "the bundle has no image \"queue\"; it has other/postgres");
    }
}
