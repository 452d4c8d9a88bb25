//! Ansible, from PyPI: copies a file and restarts a service, from within the node itself, so that no SSH is in its
//! figure.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, bail};
use mesh_lab::Node;

use super::debian;
use crate::cost::{self, Cost};
use crate::ground::{put_folder, put_text};
use crate::{program, workload};

const LIBRARY: &str = "/opt/bench-ansible";
const PLAYBOOK: &str = "/opt/bench-playbook/change.yml";
const SOURCE: &str = "/opt/bench-playbook/peer.conf";
const FILE: &str = "/etc/bench-peer.conf";
const UNIT: &str = "bench-peer.service";

/// Without gathering facts, which the host does not do for a change either.
const PLAY: &str = r#"- hosts: all
  gather_facts: false
  tasks:
    - ansible.builtin.copy: { src: /opt/bench-playbook/peer.conf, dest: /etc/bench-peer.conf, mode: "0644" }
      notify: restart
  handlers:
    - name: restart
      ansible.builtin.systemd_service: { name: bench-peer.service, state: restarted }
"#;

/// Fetching some ten packages.
const FETCH: Duration = Duration::from_mins(10);

/// Installed on a node, with a unit to restart.
pub(crate) struct Ansible<'a> {
    node: &'a Node,
    /// With its version.
    pub(crate) name: String,
}

impl<'a> Ansible<'a> {
    /// Installs it, and Python if there is none.
    pub(crate) fn install(node: &'a Node, cache: &Path) -> anyhow::Result<Self> {
        if node.exec(["python3", "--version"])?.code != 0 {
            debian::install(node, cache, &["python3"])?;
        }
        let said = node.run(["python3", "--version"])?;
        let python = said.trim_start_matches("Python ").rsplit_once('.').map(|(minor, _)| minor.to_owned());
        let python = python.with_context(|| format!("python3 says {said:?}, which is no version"))?;
        put_folder(node, &fetch(cache, &python)?, LIBRARY)?;
        put_text(node, PLAY, PLAYBOOK)?;
        put_text(node, workload::sleeping_unit(Some(FILE)), &format!("/etc/systemd/system/{UNIT}"))?;
        put_text(node, "VERSION=0\n", FILE)?;
        node.run(["systemctl", "daemon-reload"])?;
        node.run(["systemctl", "start", UNIT])?;
        let said = node.run(play(&["--version"]))?;
        let version = said.split(['[', ']']).nth(1).and_then(|core| core.strip_prefix("core "));
        let version = version.with_context(|| format!("ansible says {said:?}, which is no version"))?;
        Ok(Self { node, name: format!("ansible-core {version}") })
    }

    /// Changes the file, and has the service restarted for it.
    pub(crate) fn change(&self, count: usize) -> anyhow::Result<Vec<Cost>> {
        let run = play(&["--inventory", "localhost,", "--connection", "local", PLAYBOOK]);
        let once = |number| {
            put_text(self.node, format!("VERSION={number}\n"), SOURCE)?;
            let before = invocation(self.node, UNIT)?;
            let cost = cost::of(self.node, &run, "changed=2")?;
            if invocation(self.node, UNIT)? == before {
                bail!("{} did not restart {UNIT}", self.name);
            }
            Ok(cost)
        };
        // The first compiles its modules.
        once(0)?;
        (1..=count).map(once).collect()
    }
}

/// Which start of a unit this is: another after every restart.
pub(crate) fn invocation(node: &Node, unit: &str) -> anyhow::Result<String> {
    Ok(node.run(["systemctl", "show", "--property=InvocationID", "--value", unit])?)
}

fn play<'a>(args: &[&'a str]) -> Vec<&'a str> {
    let settings = [
        "env",
        "LC_ALL=C.UTF-8",
        "PYTHONPATH=/opt/bench-ansible",
        "ANSIBLE_PYTHON_INTERPRETER=/usr/bin/python3",
        "ANSIBLE_LOCALHOST_WARNING=False",
    ];
    let program = ["python3", "-m", "ansible", "playbook"];
    settings.iter().chain(&program).chain(args).copied().collect()
}

/// The folder of the package and what it needs, for the node's Python.
fn fetch(cache: &Path, python: &str) -> anyhow::Result<PathBuf> {
    let place = cache.join(format!("ansible-python{python}"));
    if place.join("ansible").is_dir() {
        return Ok(place);
    }
    let mut asked = Command::new("python3");
    if program::run(asked.args(["-m", "pip", "--version"]), FETCH).is_err() {
        bail!("this machine has no pip to fetch it with (Debian: apt-get install python3-pip)");
    }
    fs::create_dir_all(cache).with_context(|| format!("make {}", cache.display()))?;
    let fresh = tempfile::tempdir_in(cache)?;
    let mut install = Command::new("python3");
    install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary=:all:"]);
    install.args(["--python-version", python, "--implementation", "cp"]);
    // Debian 12's C library runs programs built for these.
    for platform in ["manylinux2014", "manylinux_2_28", "manylinux_2_34"] {
        install.arg("--platform").arg(format!("{platform}_{}", std::env::consts::ARCH));
    }
    install.arg("--target").arg(fresh.path().join("ansible")).arg("ansible-core");
    program::run(&mut install, FETCH).context("fetch ansible-core with pip")?;
    fs::rename(fresh.path().join("ansible"), &place)
        .with_context(|| format!("put {} in place", place.display()))?;
    Ok(place)
}
