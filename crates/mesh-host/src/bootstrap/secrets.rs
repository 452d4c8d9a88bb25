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
