//! From entries to the wire's resources: ids, names in the engine, references, order.
//!
//! The id of an entry on the wire is `MODULE/KIND:NAME`; within a manifest it is `KIND:NAME`. Containers, volumes and
//! networks are called `MODULE.NAME` in the engine. Paths and names of units are what they are: that no other module
//! claims them on the same node is inventory's to see to.

use std::collections::{BTreeMap, BTreeSet};

use mesh_ids::{ImageRef, ResourceId};
use mesh_wire::{
    Resource,
    kinds::{
        ContainerSpec, Content, DirectorySpec, FileSpec, ImageSpec, Kind, Lifecycle, Mode, NetworkSpec,
        PackageSpec, Spec, SysctlSpec, TimerSpec, UnitSpec, UserSpec, VolumeSpec,
    },
};

use crate::{
    Manifest,
    entries::{ContainerEntry, FileEntry, UnitEntry},
    module::engine_name,
    place::{Key, Problem},
    read::{closest, quoted},
};

/// From the image an entry names to the image by content; the error says what was expected.
type Images<'a> = &'a dyn Fn(&str) -> Result<ImageRef, String>;

/// An entry on its way to a resource.
struct Draft {
    /// `KIND:NAME`.
    id: String,
    at: [Key; 2],
    after: Vec<String>,
    restart_on: Vec<String>,
    spec: Spec,
}

/// An image by content, as it stands in a resolved manifest.
pub(crate) fn by_content(image: &str) -> Result<ImageRef, String> {
    image.parse().map_err(|_| format!("{image:?} is not an image by content: expected NAME@sha256:DIGEST"))
}

/// For a check without a catalogue: any plain name may be one the mesh carries.
pub(crate) fn accept_any_carried(image: &str) -> Result<ImageRef, String> {
    if image.contains('@') {
        return by_content(image);
    }
    if image.contains(':') {
        return Err(format!(
            "{image:?} names a tag, which can come to mean something else: expected an image by content, \
             NAME@sha256:DIGEST, or the plain name of one the mesh carries"
        ));
    }
    by_content(&format!("{image}@sha256:{}", "0".repeat(64)))
        .map_err(|_| format!("{image:?} is not the name of an image: expected one such as mesh/hello"))
}

/// The resources of a manifest, in the order in which they are applied.
pub(crate) fn resources(manifest: &Manifest, images: Images<'_>) -> Result<Vec<Resource>, Problem> {
    let mut drafts = drafts(manifest, images)?;
    let mut known: BTreeMap<String, usize> = BTreeMap::new();
    let full = |local: &str, at: &[Key]| -> Result<ResourceId, Problem> {
        format!("{}/{local}", manifest.name).parse().map_err(|_| {
            let reason = format!(
                "{} with the module's name is no id: expected at most 512 bytes without control characters, neither first \
                 nor last a space",
                quoted(local)
            );
            Problem::new(at.to_vec(), reason)
        })
    };
    for (index, draft) in drafts.iter().enumerate() {
        // Before anything is done with them: whoever sends a manifest decides how long they are.
        full(&draft.id, &draft.at)?;
        for (list, ids) in [("after", &draft.after), ("restart_on", &draft.restart_on)] {
            let at = [draft.at[0], draft.at[1], Key::Name(list)];
            ids.iter().try_for_each(|id| full(id, &at).map(drop))?;
        }
        draft.spec.check().map_err(|reason| Problem::new(draft.at, reason))?;
        if known.insert(draft.id.clone(), index).is_some() {
            return Err(Problem::new(draft.at, format!("{} stands in the module twice", draft.id)));
        }
    }
    check_bindings(&drafts)?;
    for draft in &mut drafts {
        let implied = implied(draft, &known, manifest);
        draft.after.extend(implied);
    }
    let mut resources = Vec::with_capacity(drafts.len());
    for draft in in_order(drafts, &known)? {
        let refer = |ids: &[String]| ids.iter().map(|id| full(id, &draft.at)).collect::<Result<Vec<_>, _>>();
        let after: BTreeSet<String> = draft.after.into_iter().collect();
        let after: Vec<String> = after.into_iter().collect();
        let mut spec = draft.spec;
        match &mut spec {
            Spec::Unit(unit) => unit.restart_on = refer(&draft.restart_on)?,
            Spec::Container(container) => container.restart_on = refer(&draft.restart_on)?,
            _ => {}
        }
        let observe_only = is_observed(manifest, spec.kind(), &draft.at[1]);
        resources.push(Resource {
            id: full(&draft.id, &draft.at)?,
            after: refer(&after)?,
            observe_only,
            spec,
        });
    }
    Ok(resources)
}

/// Whether the entry of this kind and place is only to be looked at.
fn is_observed(manifest: &Manifest, kind: Kind, at: &Key) -> bool {
    let Key::Index(index) = *at else { return false };
    match kind {
        Kind::Directory => manifest.directories.get(index).is_some_and(|entry| entry.observe_only),
        Kind::File => manifest.files.get(index).is_some_and(|entry| entry.observe_only),
        Kind::Package => manifest.packages.get(index).is_some_and(|entry| entry.observe_only),
        Kind::Unit => manifest.units.get(index).is_some_and(|entry| entry.observe_only),
        Kind::Container => manifest.containers.get(index).is_some_and(|entry| entry.observe_only),
        Kind::Volume => manifest.volumes.get(index).is_some_and(|entry| entry.observe_only),
        Kind::Network => manifest.networks.get(index).is_some_and(|entry| entry.observe_only),
        Kind::Image => manifest.images.get(index).is_some_and(|entry| entry.observe_only),
        Kind::User => manifest.users.get(index).is_some_and(|entry| entry.observe_only),
        Kind::Timer => manifest.timers.get(index).is_some_and(|entry| entry.observe_only),
        Kind::Sysctl => manifest.sysctls.get(index).is_some_and(|entry| entry.observe_only),
        // Never in a module.
        Kind::Database | Kind::Vhost | Kind::Host => false,
    }
}

fn drafts(manifest: &Manifest, images: Images<'_>) -> Result<Vec<Draft>, Problem> {
    let mut drafts = Vec::new();
    let mut push =
        |kind: Kind, index: usize, name: &str, after: &[String], restart_on: &[String], spec: Spec| {
            drafts.push(Draft {
                id: format!("{kind}:{name}"),
                at: [Key::Name(kind.as_str()), Key::Index(index)],
                after: after.to_vec(),
                restart_on: restart_on.to_vec(),
                spec,
            });
        };
    let or_root = |name: &Option<String>| name.clone().unwrap_or_else(|| "root".to_owned());
    for (index, entry) in manifest.directories.iter().enumerate() {
        let spec = DirectorySpec {
            path: entry.path.clone(),
            mode: entry.mode.unwrap_or(Mode::new(0o755)),
            owner: or_root(&entry.owner),
            group: or_root(&entry.group),
        };
        push(Kind::Directory, index, &entry.path, &entry.after, &[], spec.into());
    }
    for (index, entry) in manifest.packages.iter().enumerate() {
        let spec = PackageSpec { names: entry.names.clone(), repository: entry.repository.clone() };
        push(Kind::Package, index, &entry.names.join(","), &entry.after, &[], spec.into());
    }
    for (index, entry) in manifest.users.iter().enumerate() {
        let spec = UserSpec {
            name: entry.name.clone(),
            uid: entry.uid,
            gid: entry.gid,
            home: entry.home.clone(),
            shell: entry.shell.clone(),
            groups: entry.groups.clone(),
        };
        push(Kind::User, index, &entry.name, &entry.after, &[], spec.into());
    }
    for (index, entry) in manifest.sysctls.iter().enumerate() {
        let spec = SysctlSpec { name: entry.name.clone(), settings: entry.settings.clone() };
        push(Kind::Sysctl, index, &entry.name, &entry.after, &[], spec.into());
    }
    for (index, entry) in manifest.files.iter().enumerate() {
        let spec = FileSpec {
            path: entry.path.clone(),
            content: content(index, entry)?,
            mode: entry.mode.unwrap_or(Mode::new(0o644)),
            owner: or_root(&entry.owner),
            group: or_root(&entry.group),
            check: entry.check,
        };
        push(Kind::File, index, &entry.path, &entry.after, &[], spec.into());
    }
    for (index, entry) in manifest.images.iter().enumerate() {
        let image = images(&entry.image).map_err(|reason| {
            Problem::new([Key::Name("image"), Key::Index(index), Key::Name("image")], reason)
        })?;
        let spec = ImageSpec { image: image.clone() };
        push(Kind::Image, index, image.name(), &entry.after, &[], spec.into());
    }
    for (index, entry) in manifest.volumes.iter().enumerate() {
        let spec = VolumeSpec { name: engine_name(&manifest.name, &entry.name), released: entry.released };
        push(Kind::Volume, index, &entry.name, &entry.after, &[], spec.into());
    }
    for (index, entry) in manifest.networks.iter().enumerate() {
        let spec = NetworkSpec {
            name: engine_name(&manifest.name, &entry.name),
            subnet: entry.subnet.clone(),
            internal: entry.internal,
        };
        push(Kind::Network, index, &entry.name, &entry.after, &[], spec.into());
    }
    for (index, entry) in manifest.units.iter().enumerate() {
        let spec = unit(index, entry)?;
        push(Kind::Unit, index, &entry.name, &entry.after, &entry.restart_on, spec.into());
    }
    for (index, entry) in manifest.timers.iter().enumerate() {
        let spec = TimerSpec {
            name: entry.name.clone(),
            calendar: entry.calendar.clone(),
            interval_s: entry.interval_s,
            persistent: entry.persistent,
            randomized_delay_s: entry.randomized_delay_s,
            command: entry.command.clone(),
            user: entry.user.clone(),
            environment: entry.environment.clone(),
            working_directory: entry.working_directory.clone(),
        };
        push(Kind::Timer, index, &entry.name, &entry.after, &[], spec.into());
    }
    for (index, entry) in manifest.containers.iter().enumerate() {
        let spec = container(manifest, index, entry, images)?;
        push(Kind::Container, index, &entry.name, &entry.after, &entry.restart_on, spec.into());
    }
    Ok(drafts)
}

fn content(index: usize, entry: &FileEntry) -> Result<Content, Problem> {
    match (&entry.content, &entry.base64, &entry.source) {
        (Some(text), None, None) => Ok(Content::Text(text.clone())),
        (None, Some(text), None) => Ok(Content::Base64(text.clone())),
        (None, None, Some(_)) => Err(Problem::new(
            [Key::Name("file"), Key::Index(index), Key::Name("source")],
            "the file was not put into the manifest by whoever read it",
        )),
        _ => Err(Problem::new(
            [Key::Name("file"), Key::Index(index)],
            "expected exactly one of content = \"…\", source = \"PATH\" and base64 = \"…\"",
        )),
    }
}

fn unit(index: usize, entry: &UnitEntry) -> Result<UnitSpec, Problem> {
    let at = [Key::Name("unit"), Key::Index(index)];
    if entry.source.is_some() {
        return Err(Problem::new(at, "the unit file was not put into the manifest by whoever read it"));
    }
    if entry.content.is_none()
        && entry.drop_ins.is_empty()
        && entry.enabled.is_none()
        && entry.active.is_none()
    {
        return Err(Problem::new(
            at,
            "nothing is said of the unit: expected content, source, drop_ins, enabled or active",
        ));
    }
    Ok(UnitSpec {
        name: entry.name.clone(),
        content: entry.content.clone(),
        drop_ins: entry.drop_ins.clone(),
        enabled: entry.enabled,
        active: entry.active,
        restart_on: Vec::new(),
    })
}

fn container(
    manifest: &Manifest,
    index: usize,
    entry: &ContainerEntry,
    images: Images<'_>,
) -> Result<ContainerSpec, Problem> {
    let at = |name: &'static str, item: usize| {
        [Key::Name("container"), Key::Index(index), Key::Name(name), Key::Index(item)]
    };
    let image = images(&entry.image).map_err(|reason| {
        Problem::new([Key::Name("container"), Key::Index(index), Key::Name("image")], reason)
    })?;
    let mut mounts = entry.mounts.clone();
    for (item, mount) in mounts.iter_mut().enumerate() {
        if mount.source.starts_with('/') {
            continue;
        }
        let volumes = manifest.volumes.iter().map(|volume| volume.name.as_str());
        known_name("volume", &mount.source, volumes)
            .map_err(|reason| Problem::new(at("mounts", item), reason))?;
        mount.source = engine_name(&manifest.name, &mount.source);
    }
    let mut networks = entry.networks.clone();
    for (item, network) in networks.iter_mut().enumerate() {
        let known = manifest.networks.iter().map(|network| network.name.as_str());
        known_name("network", network, known).map_err(|reason| Problem::new(at("networks", item), reason))?;
        *network = engine_name(&manifest.name, network);
    }
    Ok(ContainerSpec {
        name: engine_name(&manifest.name, &entry.name),
        image,
        lifecycle: entry.lifecycle.unwrap_or(Lifecycle::Service),
        command: entry.command.clone(),
        entrypoint: entry.entrypoint.clone(),
        working_directory: entry.working_directory.clone(),
        environment: entry.environment.clone(),
        mounts,
        ports: entry.ports.clone(),
        networks,
        user: entry.user.clone(),
        read_only_root: entry.read_only_root,
        tmpfs: entry.tmpfs.clone(),
        cap_add: entry.cap_add.clone(),
        cap_drop: entry.cap_drop.clone(),
        extra_hosts: entry.extra_hosts.clone(),
        labels: entry.labels.clone(),
        stop_grace_s: entry.stop_grace_s.unwrap_or(10),
        stop_signal: entry.stop_signal.clone(),
        memory_bytes: entry.memory_bytes,
        cpu_millicores: entry.cpu_millicores,
        pids: entry.pids,
        shm_bytes: entry.shm_bytes,
        ready: entry.ready.clone(),
        health: entry.health.clone(),
        private_log: entry.private_log,
        replace: entry.replace.unwrap_or_default(),
        restart_on: Vec::new(),
    })
}

fn known_name<'a>(
    kind: &str,
    name: &str,
    known: impl Iterator<Item = &'a str> + Clone,
) -> Result<(), String> {
    if known.clone().any(|candidate| candidate == name) {
        return Ok(());
    }
    let hint =
        closest(name, known).map_or_else(String::new, |candidate| format!("; did you mean {candidate:?}?"));
    Err(format!("the module has no [[{kind}]] called {}{hint}", quoted(name)))
}

/// Two containers of one module cannot bind the same port of the same node.
fn check_bindings(drafts: &[Draft]) -> Result<(), Problem> {
    let mut bound: BTreeMap<u16, &str> = BTreeMap::new();
    for draft in drafts {
        for port in draft.spec.binds() {
            match bound.insert(port, &draft.id) {
                Some(holder) if holder != draft.id => {
                    return Err(Problem::new(
                        draft.at,
                        format!("the port {port} is bound by {holder} already"),
                    ));
                }
                _ => {}
            }
        }
    }
    Ok(())
}

/// What an entry has to wait for though nobody wrote it: the directories around its path, its owner, its volumes and
/// networks, and what it mounts.
fn implied(draft: &Draft, known: &BTreeMap<String, usize>, manifest: &Manifest) -> Vec<String> {
    let mut ids = Vec::new();
    let mut around = |path: &str| {
        for (end, _) in path.match_indices('/').skip(1) {
            ids.push(format!("directory:{}", &path[..end]));
        }
    };
    match &draft.spec {
        Spec::Directory(directory) => {
            around(&directory.path);
            ids.extend([&directory.owner, &directory.group].map(|name| format!("user:{name}")));
        }
        Spec::File(file) => {
            around(&file.path);
            ids.extend([&file.owner, &file.group].map(|name| format!("user:{name}")));
        }
        Spec::Timer(timer) => {
            timer.user.iter().for_each(|user| ids.push(format!("user:{user}")));
            // The program may be a file of the module.
            let folder = timer.working_directory.iter();
            ids.extend(timer.command.first().into_iter().map(|program| format!("file:{program}")));
            ids.extend(folder.map(|folder| format!("directory:{folder}")));
        }
        Spec::User(user) => {
            // The folders around its home, and groups that are other users' own.
            user.home.iter().for_each(|home| around(home));
            ids.extend(user.groups.iter().map(|name| format!("user:{name}")));
        }
        Spec::Container(container) => {
            for mount in &container.mounts {
                if mount.source.starts_with('/') {
                    around(&mount.source);
                }
            }
            ids.push(format!("image:{}", container.image.name()));
            for mount in &container.mounts {
                ids.push(format!("file:{}", mount.source));
                ids.push(format!("directory:{}", mount.source));
                if let Some(local) = mount.source.strip_prefix(&engine_name(&manifest.name, "")) {
                    ids.push(format!("volume:{local}"));
                }
            }
            for network in &container.networks {
                if let Some(local) = network.strip_prefix(&engine_name(&manifest.name, "")) {
                    ids.push(format!("network:{local}"));
                }
            }
        }
        _ => {}
    }
    ids.retain(|id| known.contains_key(id) && *id != draft.id);
    ids
}

/// Sorts entries so that each stands after what it waits for, and otherwise as they were.
fn in_order(drafts: Vec<Draft>, known: &BTreeMap<String, usize>) -> Result<Vec<Draft>, Problem> {
    let mut waits: Vec<BTreeSet<usize>> = Vec::with_capacity(drafts.len());
    for draft in &drafts {
        let mut wait = BTreeSet::new();
        for (list, ids) in [("after", &draft.after), ("restart_on", &draft.restart_on)] {
            for id in ids {
                let Some(index) = known.get(id) else {
                    let hint = closest(id, known.keys().map(String::as_str))
                        .map_or_else(String::new, |meant| format!("; did you mean {meant:?}?"));
                    return Err(Problem::new(
                        [draft.at[0], draft.at[1], Key::Name(list)],
                        format!("{id:?} is not KIND:NAME of an entry of this module{hint}"),
                    ));
                };
                wait.insert(*index);
            }
        }
        waits.push(wait);
    }
    let mut waited_for_by: Vec<Vec<usize>> = vec![Vec::new(); waits.len()];
    for (index, wait) in waits.iter().enumerate() {
        for on in wait {
            waited_for_by[*on].push(index);
        }
    }
    let mut left: Vec<usize> = waits.iter().map(BTreeSet::len).collect();
    let mut ready: BTreeSet<usize> = (0..left.len()).filter(|index| left[*index] == 0).collect();
    let mut slots: Vec<Option<Draft>> = drafts.into_iter().map(Some).collect();
    let mut ordered = Vec::with_capacity(slots.len());
    while let Some(next) = ready.pop_first() {
        ordered.extend(slots[next].take());
        for index in &waited_for_by[next] {
            left[*index] -= 1;
            if left[*index] == 0 {
                ready.insert(*index);
            }
        }
    }
    let waiting: Vec<&Draft> = slots.iter().flatten().collect();
    if let Some(first) = waiting.first() {
        let names: Vec<&str> = waiting.iter().map(|draft| draft.id.as_str()).take(10).collect();
        return Err(Problem::new(first.at, format!("these wait for each other: {}", names.join(", "))));
    }
    Ok(ordered)
}
