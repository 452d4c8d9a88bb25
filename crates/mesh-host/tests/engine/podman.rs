//! A Podman service of one test's own, and a machine whose engine it is.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    rc::Rc,
    time::Duration,
};

use async_trait::async_trait;
use mesh_bundle::{ImageDraft, LayoutWriter, Tree, oci, tree};
use mesh_host::{
    failure::Failure,
    kinds::{Kind, Memory},
    machine::{
        Machine, SystemClock,
        checks::RealChecks,
        engine::{images::ImageStore, socket::EngineSocket},
        files::RealFiles,
        packages::Packages,
        program::RealProgram,
        sysctls::RealSysctls,
        units::{UnitFound, Units},
        users::RealUsers,
    },
    paths::Paths,
};
use mesh_ids::{Digest, ImageRef};
use mesh_testkit::wait_for;
use mesh_wire::kinds::{ContainerSpec, Mount};
use tempfile::TempDir;

/// The service, its storage and a bundle with one image.
pub(crate) struct Podman {
    folder: TempDir,
    service: Child,
    image: ImageRef,
}

impl Podman {
    pub(crate) async fn start() -> Self {
        let folder = tempfile::Builder::new().prefix("mesh-engine-").tempdir().unwrap();
        fs::create_dir_all(folder.path().join("var/lib/mesh-host")).unwrap();
        let image = write_bundle(folder.path());
        write_configuration(folder.path());
        let service = serve(folder.path());
        let podman = Self { folder, service, image };
        // The first one on a machine looks at what its kernel can, and that took 30 s where others started beside it.
        wait_for("podman to listen", Duration::from_secs(90), async || {
            std::os::unix::net::UnixStream::connect(podman.socket())
        })
        .await;
        podman
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("podman.sock")
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// An engine that has never been connected.
    pub(crate) fn engine(&self) -> EngineSocket {
        let bundle = self.path().join("bundle");
        let images = ImageStore::new(&bundle, &self.path().join("images"));
        EngineSocket::new(vec![self.socket()], None, images)
    }

    pub(crate) fn machine(&self) -> Machine {
        Machine {
            checks: Rc::new(RealChecks::new(Path::new("/"), self.path())),
            files: Rc::new(RealFiles::new(Path::new("/"), &self.path().join("saved"))),
            units: Rc::new(Nothing),
            packages: Rc::new(Nothing),
            program: Rc::new(RealProgram::new(&Paths::under(self.path()))),
            users: Rc::new(RealUsers::new(self.path())),
            sysctls: Rc::new(RealSysctls::new(self.path())),
            engine: Rc::new(self.engine()),
            clock: Rc::new(SystemClock),
        }
    }

    pub(crate) fn image(&self) -> ImageRef {
        self.image.clone()
    }

    /// A container that runs this script with the machine's own shell.
    pub(crate) fn spec(&self, name: &str, script: &str) -> ContainerSpec {
        let json = serde_json::json!({
            "name": name, "image": self.image(), "command": ["sh", "-c", script], "stop_grace_s": 1,
        });
        let mut spec: ContainerSpec = serde_json::from_value(json).unwrap();
        spec.mounts.push(Mount {
            source: "/usr".to_owned(),
            target: "/usr".to_owned(),
            read_only: true,
            shared: false,
        });
        spec
    }

    /// What a person would type.
    pub(crate) fn podman(&self, words: &[&str]) -> String {
        let output = command(self.path()).args(words).output().unwrap();
        assert!(output.status.success(), "podman {words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// Everything a container wrote.
    pub(crate) fn log(&self, name: &str) -> String {
        let output = command(self.path()).args(["logs", name]).output().unwrap();
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    }

    /// Ends the service, not the containers.
    pub(crate) fn stop_service(&mut self) {
        self.service.kill().unwrap();
        self.service.wait().unwrap();
    }

    pub(crate) fn start_service(&mut self) {
        self.service = serve(self.folder.path());
    }
}

impl Drop for Podman {
    fn drop(&mut self) {
        // What fails here fails because the test stopped halfway.
        let _ = command(self.path()).args(["rm", "-f", "-a", "-t", "0"]).output();
        let _ = command(self.path()).args(["network", "prune", "-f"]).output();
        let _ = self.service.kill();
        let _ = self.service.wait();
    }
}

fn command(folder: &Path) -> Command {
    let mut command = Command::new("podman");
    command
        .env("CONTAINERS_CONF", folder.join("containers.conf"))
        .env("CONTAINERS_STORAGE_CONF", folder.join("storage.conf"));
    command
}

fn serve(folder: &Path) -> Child {
    let socket = folder.join("podman.sock");
    let _ = fs::remove_file(&socket);
    let log = fs::File::create(folder.join("podman.log")).unwrap();
    command(folder)
        .args(["system", "service", "--time=0", &format!("unix://{}", socket.display())])
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .expect("run podman, which `cargo xtask setup` installs")
}

fn write_configuration(folder: &Path) {
    // The default network is the test's own too, down to its interface: netavark's rules are named after networks, and an
    // interface that two engines share goes with whoever is done first.
    let (pid, name) = (std::process::id(), format!("mesh-test-{}", std::process::id()));
    let subnet = format!("10.{}.{}", 64 + (pid >> 8) % 128, pid % 256);
    let network = serde_json::json!({
        "name": name, "id": format!("{pid:064x}"), "driver": "bridge", "network_interface": format!("mt{pid}"),
        "created": "2023-11-14T22:13:20Z", "subnets": [{ "subnet": format!("{subnet}.0/24"), "gateway": format!("{subnet}.1") }],
        "ipv6_enabled": false, "internal": false, "dns_enabled": false, "ipam_options": { "driver": "host-local" },
    });
    fs::create_dir_all(folder.join("networks")).unwrap();
    fs::write(folder.join(format!("networks/{name}.json")), network.to_string()).unwrap();
    let place = folder.display();
    // crun refuses machines that still have cgroups of version 1; runc runs on both.
    let runtime = if Path::new("/usr/sbin/runc").exists() { "runtime = \"runc\"" } else { "" };
    let configuration = format!(
        "[containers]\ndefault_ulimits = [\"nofile=1024:1024\", \"nproc=2048:2048\"]\n\
         [engine]\n{runtime}\ncgroup_manager = \"cgroupfs\"\nevents_logger = \"file\"\ntmp_dir = \"{place}/tmp\"\n\
         volume_path = \"{place}/volumes\"\n\
         [network]\nnetwork_backend = \"netavark\"\nnetwork_config_dir = \"{place}/networks\"\n\
         default_network = \"{name}\"\ndefault_subnet = \"{subnet}.0/24\"\n"
    );
    fs::write(folder.join("containers.conf"), configuration).unwrap();
    // vfs works wherever the test's folder lies, and the image is empty.
    let storage =
        format!("[storage]\ndriver = \"vfs\"\ngraphroot = \"{place}/storage\"\nrunroot = \"{place}/run\"\n");
    fs::write(folder.join("storage.conf"), storage).unwrap();
}

fn write_bundle(folder: &Path) -> ImageRef {
    let mut files = Tree::default();
    for name in ["bin", "sbin", "lib", "lib64"] {
        let link = tree::Kind::Symlink(format!("usr/{name}").into());
        files.insert(name, tree::Node::of_root(link, 0o777));
    }
    files.insert("var/run", tree::Node::of_root(tree::Kind::Symlink("/run".into()), 0o777));
    for name in ["usr", "tmp", "run", "etc", "data", "proc", "sys", "dev"] {
        files.insert(name, tree::Node::of_root(tree::Kind::Directory, 0o1777));
    }
    let passwd = tree::Content::Bytes(fs::read("/etc/passwd").unwrap());
    files.insert("etc/passwd", tree::Node::of_root(tree::Kind::File(passwd.into()), 0o644));
    let mut writer = LayoutWriter::create(&folder.join("bundle/oci")).unwrap();
    let draft = ImageDraft {
        name: "mesh/test",
        architecture: if cfg!(target_arch = "x86_64") { "amd64" } else { "arm64" },
        epoch: 1_700_000_000,
        created: "2023-11-14T22:13:20Z",
        run: oci::Run { env: vec!["PATH=/usr/bin:/usr/sbin".to_owned()], ..oci::Run::default() },
        annotations: std::collections::BTreeMap::new(),
        tree: &files,
    };
    let (manifest, _) = writer.add(&draft).unwrap();
    writer.finish().unwrap();
    image_ref("mesh/test", &manifest)
}

pub(crate) fn image_ref(name: &str, digest: &Digest) -> ImageRef {
    format!("{name}@{digest}").parse().unwrap()
}

/// What the ledger would say of a resource.
pub(crate) fn memory<K: Kind<Before = ()>>(applied: Option<&K::Spec>) -> Memory<K> {
    Memory { before: (), applied: applied.cloned(), changed: Vec::new(), reads: String::new() }
}

/// What is planned now, as a person reads it.
pub(crate) async fn planned<K: Kind<Before = ()>>(
    machine: &Machine,
    spec: &K::Spec,
    memory: &Memory<K>,
) -> Result<Vec<String>, Failure> {
    machine.engine.new_round();
    let observed = K::observe(machine, spec).await?;
    Ok(K::plan(spec, &observed, memory)?.iter().map(ToString::to_string).collect())
}

/// Looks, plans and applies once; says what was done.
pub(crate) async fn round<K: Kind<Before = ()>>(
    machine: &Machine,
    spec: &K::Spec,
    memory: &Memory<K>,
) -> Result<Vec<String>, Failure> {
    machine.engine.new_round();
    let observed = K::observe(machine, spec).await?;
    let steps = K::plan(spec, &observed, memory)?;
    for step in &steps {
        step.apply(machine).await?;
    }
    Ok(steps.iter().map(ToString::to_string).collect())
}

/// Takes the resource away; says what was done.
pub(crate) async fn remove<K: Kind<Before = ()>>(machine: &Machine, spec: &K::Spec) -> Vec<String> {
    machine.engine.new_round();
    let observed = K::observe(machine, spec).await.unwrap();
    let steps = K::remove(spec, &observed, &()).unwrap();
    for step in &steps {
        step.apply(machine).await.unwrap();
    }
    steps.iter().map(ToString::to_string).collect()
}

/// A machine without systemd and without packages.
struct Nothing;

fn nothing<T>() -> Result<T, Failure> {
    Err(Failure::new("there is none in this test"))
}

#[async_trait(?Send)]
impl Units for Nothing {
    fn new_round(&self) {}
    async fn look(&self, _: &str) -> Result<UnitFound, Failure> {
        nothing()
    }
    async fn reload(&self) -> Result<(), Failure> {
        nothing()
    }
    async fn start(&self, _: &str) -> Result<(), Failure> {
        nothing()
    }
    async fn stop(&self, _: &str) -> Result<(), Failure> {
        nothing()
    }
    async fn restart(&self, _: &str) -> Result<(), Failure> {
        nothing()
    }
    async fn ready(&self, _: &str) -> Result<(), Failure> {
        nothing()
    }
    async fn forget(&self, _: &str) -> Result<(), Failure> {
        nothing()
    }
    async fn enable(&self, _: &str) -> Result<(), Failure> {
        nothing()
    }
    async fn disable(&self, _: &str) -> Result<(), Failure> {
        nothing()
    }
    async fn changed(&self) {
        std::future::pending::<()>().await;
    }
}

#[async_trait(?Send)]
impl Packages for Nothing {
    async fn look(&self) -> Result<std::rc::Rc<mesh_host::machine::packages::Installed>, Failure> {
        nothing()
    }
    async fn install(&self, _: &[String], _: Option<&str>) -> Result<(), Failure> {
        nothing()
    }
    async fn remove(&self, _: &[String]) -> Result<(), Failure> {
        nothing()
    }
}
