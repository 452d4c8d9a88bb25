//! Makes the secrets a bundle asks for, where they are absent: files that only root can read, from their first byte on.
//!
//! What is there is never made anew: everything that trusts it would be cut off. Never prints one.

use std::{
    net::{IpAddr, SocketAddr, UdpSocket},
    path::{Path, PathBuf},
};

use mesh_bundle::bundle::{Generate, Secret};
use mesh_mint::{Authority, Inputs};
use zeroize::Zeroizing;

use super::{Tell, Told};
use crate::{
    failure::{During as _, Failure},
    keys::{make_private_folder, read_private, write_private},
    machine::facts,
    paths::Paths,
};

/// Where the machine is reached.
#[derive(Debug)]
pub(super) struct Place {
    /// What a person said, as `host:port`.
    advertise: Vec<String>,
    addresses: Vec<IpAddr>,
    names: Vec<String>,
}

impl Place {
    /// What a person said comes first, then the address that is used towards the world, then the others.
    pub(super) fn of(advertise: &[String]) -> Self {
        let hosts =
            advertise.iter().map(|place| place.rsplit_once(':').map_or(place.as_str(), |(host, _)| host));
        let hosts: Vec<&str> = hosts.map(|host| host.trim_matches(['[', ']'])).collect();
        let own = facts::facts(Path::new("/"), None).addresses;
        let own =
            own.iter().filter_map(|text| text.parse::<IpAddr>().ok()).filter(|address| usable(*address));
        let said = hosts.iter().filter_map(|host| host.parse().ok());
        let mut addresses: Vec<IpAddr> = Vec::new();
        for address in said.chain(towards_the_world()).chain(own) {
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
        let names = hosts.iter().filter(|host| host.parse::<IpAddr>().is_err()).map(|&host| host.to_owned());
        Self { advertise: advertise.to_vec(), addresses, names: names.collect() }
    }

    /// The addresses, the most useful first.
    pub(super) fn addresses(&self) -> &[IpAddr] {
        &self.addresses
    }
}

/// The address packets to elsewhere would leave from, by the machine's own routes. Nothing is sent.
fn towards_the_world() -> Option<IpAddr> {
    let socket = UdpSocket::bind(SocketAddr::from(([0, 0, 0, 0], 0))).ok()?;
    // An address for documentation (RFC 5737): nobody has it, and the default route leads to it.
    socket.connect(SocketAddr::from(([192, 0, 2, 1], 9))).ok()?;
    socket.local_addr().ok().map(|address| address.ip()).filter(|address| usable(*address))
}

/// Whether others could use it: a link-local address means nothing without its interface.
fn usable(address: IpAddr) -> bool {
    let link_local = match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    !link_local && !address.is_loopback() && !address.is_unspecified()
}

/// Makes what is absent.
pub(super) fn make(
    secrets: &[Secret],
    paths: &Paths,
    place: &Place,
    now: i64,
    tell: Tell<'_>,
) -> Result<(), Failure> {
    make_private_folder(&paths.secrets())?;
    let on_machine = |path: &str| paths.root().join(path.trim_start_matches('/'));
    let there = |path: &str| read_private(&on_machine(path)).map(|found| found.is_some());
    for (number, secret) in secrets.iter().enumerate() {
        let key = there(&secret.path)?;
        let certificate = secret.generate.certificate().map(there).transpose()?;
        if key && certificate != Some(false) {
            if let Generate::Advertise { .. } = secret.generate {
                advertise_anew(&on_machine(&secret.path), place, tell)?;
            }
            continue;
        }
        // The certificate is written first: a key without one was not left behind by a kill.
        if key {
            return Err(Failure::new(format!(
                "{} is there and its certificate {} is gone: put it back from your backup; or remove both, if no node \
                 joined yet",
                secret.path,
                secret.generate.certificate().unwrap_or_default()
            )));
        }
        let is_authority = matches!(secret.generate, Generate::Ca { .. });
        let later = secrets.get(number + 1..).unwrap_or_default();
        if is_authority && certificate == Some(true) && later.iter().any(|it| there(&it.path).unwrap_or(true))
        {
            return Err(Failure::new(format!(
                "the key of the mesh's authority, {}, is gone, and what it signed is there: put it back from your backup",
                secret.path
            )));
        }
        tell(Told::Step(&format!("make {}: {}", secret.path, secret.why)));
        write(secret, secrets, place, now, &on_machine)?;
    }
    Ok(())
}

fn write(
    secret: &Secret,
    secrets: &[Secret],
    place: &Place,
    now: i64,
    on_machine: &dyn Fn(&str) -> PathBuf,
) -> Result<(), Failure> {
    let path = on_machine(&secret.path);
    if let (Generate::Advertise { .. }, false) = (&secret.generate, place.advertise.is_empty()) {
        return write_private(&path, place.advertise.join(",").as_bytes());
    }
    let mut secret = secret.clone();
    let mut authority = None;
    if let Generate::ServerCertificate { ca, names, .. } = &mut secret.generate {
        names.extend(place.names.iter().cloned());
        let by = secrets.iter().find(|known| known.path == *ca);
        let certificate = by.and_then(|known| known.generate.certificate()).unwrap_or_default();
        authority = Some((existing(&on_machine(ca))?, existing(&on_machine(certificate))?));
    }
    let inputs = Inputs {
        addresses: place.addresses(),
        now: u64::try_from(now).unwrap_or(0),
        authority: authority.as_ref().map(|(key, certificate)| Authority { key, certificate }),
    };
    let minted = mesh_mint::generate(&secret, &inputs).during("make a secret")?;
    let content = Zeroizing::new(minted.content);
    if let (Some(name), Some(certificate)) = (secret.generate.certificate(), minted.certificate) {
        write_private(&on_machine(name), &certificate)?;
    }
    write_private(&path, &content)
}

fn existing(path: &Path) -> Result<Zeroizing<String>, Failure> {
    read_private(path)?.ok_or_else(|| Failure::new(format!("{} is not there", path.display())))
}

/// Only where a person says so: the machine's own addresses come and go.
fn advertise_anew(path: &Path, place: &Place, tell: Tell<'_>) -> Result<(), Failure> {
    let said = place.advertise.join(",");
    if said.is_empty() || read_private(path)?.is_some_and(|known| known.trim() == said) {
        return Ok(());
    }
    tell(Told::Step(&format!("write {}; the control plane uses it from its next start on", path.display())));
    write_private(path, said.as_bytes())
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, fs, os::unix::fs::MetadataExt as _};

    use super::*;

    const NOW: i64 = 1_800_000_000;

    fn asked() -> Vec<Secret> {
        let secret =
            |path: &str, generate| Secret { path: path.to_owned(), why: "a test".to_owned(), generate };
        let names = vec!["broker".to_owned()];
        vec![
            secret("/s/ca.key", Generate::Ca { certificate: "/s/ca.pem".to_owned() }),
            secret(
                "/s/broker.key",
                Generate::ServerCertificate {
                    certificate: "/s/broker.crt".to_owned(),
                    ca: "/s/ca.key".to_owned(),
                    names,
                },
            ),
            secret("/s/store.password", Generate::Password),
            secret("/s/advertise", Generate::Advertise { port: 5671 }),
        ]
    }

    fn machine() -> (tempfile::TempDir, Paths) {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir(folder.path().join("s")).expect("a folder for secrets");
        let paths = Paths::under(folder.path());
        (folder, paths)
    }

    fn made(paths: &Paths, advertise: &[String]) -> Result<Vec<String>, Failure> {
        let mut told = Vec::new();
        let place = Place::of(advertise);
        make(&asked(), paths, &place, NOW, &mut |it| {
            if let Told::Step(step) = it {
                told.push(step.to_owned());
            }
        })?;
        Ok(told)
    }

    fn contents(paths: &Paths) -> BTreeMap<String, Vec<u8>> {
        let entries = fs::read_dir(paths.root().join("s")).expect("the folder");
        let file = |entry: fs::DirEntry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            assert_eq!(entry.metadata().expect("a file").mode() & 0o777, 0o600, "{name} is for root alone");
            (name, fs::read(entry.path()).expect("a file"))
        };
        entries.map(|entry| file(entry.expect("an entry"))).collect()
    }

    fn here() -> Vec<String> {
        vec!["192.0.2.7:5671".to_owned()]
    }

    #[test]
    fn what_is_absent_is_made_and_what_is_there_is_not_made_anew() {
        let (_folder, paths) = machine();
        let told = made(&paths, &here()).expect("made");
        assert_eq!(told.len(), 4, "{told:?}");
        let first = contents(&paths);
        let names: Vec<&str> = first.keys().map(String::as_str).collect();
        let expected = ["advertise", "broker.crt", "broker.key", "ca.key", "ca.pem", "store.password"];
        assert_eq!(names, expected);
        let said = told.join(" ");
        assert!(
            !first.values().any(|content| said.contains(String::from_utf8_lossy(content).trim())),
            "{said}"
        );
        assert!(made(&paths, &here()).expect("nothing to make").is_empty());
        assert_eq!(contents(&paths), first);

        fs::remove_file(paths.root().join("s/store.password")).expect("a password to lose");
        assert_eq!(made(&paths, &[]).expect("made").len(), 1);
        let second = contents(&paths);
        assert_ne!(second.get("store.password"), first.get("store.password"));
        assert_eq!(second.get("broker.key"), first.get("broker.key"));
    }

    #[test]
    fn an_authority_that_signed_something_is_never_made_anew() {
        let (_folder, paths) = machine();
        made(&paths, &here()).expect("made");
        let key = paths.root().join("s/ca.key");
        let kept = fs::read(&key).expect("the key");
        fs::remove_file(&key).expect("a key to lose");
        let why = made(&paths, &here()).expect_err("refused").to_string();
        assert!(why.contains("is gone") && why.contains("backup"), "{why}");
        fs::write(&key, kept).expect("put back");
        fs::remove_file(paths.root().join("s/ca.pem")).expect("a certificate to lose");
        let why = made(&paths, &here()).expect_err("refused").to_string();
        assert!(why.contains("/s/ca.pem is gone"), "{why}");
    }

    #[test]
    fn a_kill_between_certificate_and_key_is_made_good() {
        let (_folder, paths) = machine();
        fs::write(paths.root().join("s/ca.pem"), "of a killed run").expect("a certificate without its key");
        made(&paths, &here()).expect("made");
        assert_ne!(contents(&paths).get("ca.pem"), Some(&b"of a killed run".to_vec()));
    }

    #[test]
    fn a_person_says_where_the_machine_is_reached() {
        let (_folder, paths) = machine();
        made(&paths, &here()).expect("made");
        let advertised =
            || String::from_utf8(contents(&paths).remove("advertise").expect("there")).expect("text");
        assert_eq!(advertised(), "192.0.2.7:5671");
        assert!(made(&paths, &[]).expect("nothing to make").is_empty(), "what was said is kept");
        let moved = ["broker.example:443".to_owned(), "192.0.2.8:5671".to_owned()];
        assert_eq!(made(&paths, &moved).expect("written").len(), 1);
        assert_eq!(advertised(), "broker.example:443,192.0.2.8:5671");
        let place = Place::of(&moved);
        assert_eq!(place.addresses().first(), "192.0.2.8".parse().ok().as_ref());
        assert_eq!(place.names, ["broker.example"]);
    }
}
