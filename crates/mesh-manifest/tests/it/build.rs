//! What a module becomes on a node: ids, names in the engine, order, images.

use std::fmt::Write as _;

use mesh_manifest::{Module, engine_name, owner_of};
use mesh_wire::{Resource, kinds::Spec};
use proptest::prelude::*;

use crate::{catalogue, module, read};

fn ids(resources: &[Resource]) -> Vec<&str> {
    resources.iter().map(|resource| resource.id.as_str()).collect()
}

#[test]
fn ids_and_engine_names_carry_the_module() {
    let module = module(
        "[[container]]\nname='web'\nimage='mesh/hello'\nnetworks=['net']\nmounts=[{source='data',target='/data'},{source='/etc/a',target='/a'}]\n\
         restart_on=['file:/etc/a']\n[[file]]\npath='/etc/a'\ncontent='x'\n[[volume]]\nname='data'\n[[network]]\nname='net'\n",
    );
    assert_eq!(
        ids(module.resources()),
        ["hello/file:/etc/a", "hello/volume:data", "hello/network:net", "hello/container:web"]
    );
    let web = module.resources().last().unwrap();
    let after: Vec<&str> = web.after.iter().map(AsRef::as_ref).collect();
    assert_eq!(after, ["hello/file:/etc/a", "hello/network:net", "hello/volume:data"]);
    let Spec::Container(spec) = &web.spec else { panic!("{web:?}") };
    assert_eq!(spec.name, "hello.web");
    assert_eq!(spec.networks, ["hello.net"]);
    assert_eq!(spec.mounts[0].source, "hello.data");
    assert_eq!(spec.restart_on, ["hello/file:/etc/a".parse().unwrap()]);
    assert_eq!(spec.image.to_string(), format!("mesh/hello@sha256:{}", "a".repeat(64)));
    assert_eq!(owner_of(&web.id).unwrap().as_str(), "hello");
    assert_eq!(engine_name(module.name(), "web"), "hello.web");
}

#[test]
fn every_kind_of_entry_may_be_only_observed() {
    let entries = "[[directory]]\npath='/srv/a'\nO\n[[file]]\npath='/etc/a'\ncontent='x'\nmode='0600'\nO\n[[package]]\nnames=['jq']\nO\n\
         [[unit]]\nname='a.service'\nactive=true\nO\n[[volume]]\nname='v'\nO\n[[network]]\nname='n'\nO\n\
         [[container]]\nname='web'\nimage='mesh/hello'\nO\n";
    for (said, observed) in [("observe_only = true", true), ("observe_only = false", false), ("", false)] {
        let module = module(&entries.replace('O', said));
        assert_eq!(module.resources().len(), 7);
        assert!(module.resources().iter().all(|resource| resource.observe_only == observed), "{said}");
    }
}

#[test]
fn what_is_waited_for_stands_before() {
    let module = module(
        "[[directory]]\npath='/srv/a'\nafter=['file:/etc/x']\n[[file]]\npath='/srv/a/b/c'\ncontent=''\n\
         [[file]]\npath='/etc/x'\ncontent=''\nafter=['unit:x.service']\n[[unit]]\nname='x.service'\nactive=true\n",
    );
    assert_eq!(
        ids(module.resources()),
        ["hello/unit:x.service", "hello/file:/etc/x", "hello/directory:/srv/a", "hello/file:/srv/a/b/c"]
    );
    assert_eq!(module.resources()[3].after, ["hello/directory:/srv/a".parse().unwrap()]);
}

#[test]
fn an_image_is_got_before_the_container_that_runs_it() {
    let module = module("[[container]]\nname='web'\nimage='mesh/hello'\n[[image]]\nimage='mesh/hello'\n");
    assert_eq!(ids(module.resources()), ["hello/image:mesh/hello", "hello/container:web"]);
    assert_eq!(module.resources()[1].after, ["hello/image:mesh/hello".parse().unwrap()]);
    let Spec::Image(spec) = &module.resources()[0].spec else { panic!("{module:?}") };
    assert_eq!(spec.image.to_string(), format!("mesh/hello@sha256:{}", "a".repeat(64)));
    let manifest = read("[[image]]\nimage='mesh/helo'\n").unwrap();
    let problem = Module::resolve(manifest, &catalogue()).unwrap_err().to_string();
    assert!(problem.starts_with("image[0].image: the mesh carries no image \"mesh/helo\""), "{problem}");
}

#[test]
fn what_a_container_is_given_reaches_the_machine() {
    let module = module(
        "[[container]]\nname='web'\nimage='mesh/hello'\nread_only_root=true\ncap_drop=['ALL']\nstop_signal='SIGINT'\n\
         cpu_millicores=500\npids=9\nshm_bytes=4096\nprivate_log=true\nreplace='start-first'\n\
         tmpfs=[{target='/tmp',size_bytes=4096}]\nextra_hosts={printer='192.0.2.7'}\nlabels={team='web'}\n\
         entrypoint=['/bin/x']\nworking_directory='/srv'\nhealth={failures=2}\n\
         ready={http={port=80,path='/ready'},within_s=9,timeout_s=1}\n",
    );
    let json = serde_json::to_value(&module.resources()[0].spec).unwrap();
    let spec = &json["spec"];
    let expected = serde_json::json!({
        "read_only_root": true, "cap_drop": ["ALL"], "stop_signal": "SIGINT", "cpu_millicores": 500, "pids": 9,
        "shm_bytes": 4096, "private_log": true, "replace": "start-first",
        "tmpfs": [{"target": "/tmp", "size_bytes": 4096}], "extra_hosts": {"printer": "192.0.2.7"},
        "labels": {"team": "web"}, "entrypoint": ["/bin/x"], "working_directory": "/srv",
        "health": {"interval_s": 30, "failures": 2},
        "ready": {"http": {"port": 80, "path": "/ready"}, "within_s": 9, "timeout_s": 1},
    });
    for (member, value) in expected.as_object().unwrap() {
        assert_eq!(&spec[member], value, "{member}");
    }
}

#[test]
fn an_image_the_mesh_does_not_carry_is_refused_by_name() {
    let manifest = read("[[container]]\nname='web'\nimage='mesh/helo'\n").unwrap();
    let problem = Module::resolve(manifest, &catalogue()).unwrap_err().to_string();
    assert!(problem.starts_with("container[0].image: the mesh carries no image \"mesh/helo\""), "{problem}");
    assert!(problem.ends_with("did you mean mesh/hello?"), "{problem}");
}

#[test]
fn a_module_is_what_its_manifest_and_its_images_are() {
    let body = "[[container]]\nname='web'\nimage='mesh/hello'\n";
    let first = module(body);
    assert_eq!(first.digest(), module(body).digest());
    let other = format!("[[image]]\nname='mesh/hello'\ndigest='sha256:{}'\n", "b".repeat(64));
    let other = mesh_manifest::Catalogue::from_toml(&other).unwrap();
    let moved = Module::resolve(read(body).unwrap(), &other).unwrap();
    assert_ne!(first.digest(), moved.digest());
    let kept = mesh_manifest::Manifest::from_json(&first.manifest().to_json()).unwrap();
    assert_eq!(Module::of_resolved(kept).unwrap(), first);
}

proptest! {
    #[test]
    fn however_entries_wait_for_each_other_the_order_holds_or_the_circle_is_named(
        waits in prop::collection::vec((0usize..8, 0usize..8), 0..12)
    ) {
        let mut body = String::new();
        for entry in 0..8 {
            let after: Vec<String> =
                waits.iter().filter(|(who, _)| *who == entry).map(|(_, on)| format!("'directory:/{on}'")).collect();
            let _ = writeln!(body, "[[directory]]\npath='/{entry}'\nafter=[{}]", after.join(","));
        }
        match read(&body) {
            Err(error) => prop_assert!(error.reason.contains("wait for each other"), "{}", error),
            Ok(manifest) => {
                let module = Module::resolve(manifest, &catalogue()).unwrap();
                let ids = ids(module.resources());
                for (who, on) in waits {
                    let at = |entry| ids.iter().position(|id| *id == format!("hello/directory:/{entry}"));
                    prop_assert!(at(who) > at(on));
                }
            }
        }
    }
}

#[test]
fn what_belongs_to_a_user_and_what_is_timed_waits_for_what_it_needs() {
    let module = module(
        "[[timer]]\nname='t'\ncalendar='daily'\ncommand=['/opt/x/run','a b']\nuser='app'\n\
         [[file]]\npath='/opt/x/run'\ncontent=''\nmode='0755'\ngroup='app'\ncheck='json'\n\
         [[directory]]\npath='/opt/x'\nowner='app'\n[[user]]\nname='app'\ngroups=['others']\n[[user]]\nname='others'\n\
         [[sysctl]]\nname='s'\nsettings={'vm.swappiness'='1'}\n\
         [[unit]]\nname='ssh.service'\ndrop_ins={'a.conf'=\"[Service]\\n\"}\n",
    );
    assert_eq!(
        ids(module.resources()),
        [
            "hello/user:others",
            "hello/user:app",
            "hello/directory:/opt/x",
            "hello/sysctl:s",
            "hello/file:/opt/x/run",
            "hello/unit:ssh.service",
            "hello/timer:t",
        ]
    );
    let after = |at: usize| module.resources()[at].after.iter().map(AsRef::as_ref).collect::<Vec<&str>>();
    assert_eq!(after(1), ["hello/user:others"]);
    assert_eq!(after(2), ["hello/user:app"]);
    assert_eq!(after(4), ["hello/directory:/opt/x", "hello/user:app"]);
    assert_eq!(after(6), ["hello/file:/opt/x/run", "hello/user:app"]);
    let Spec::Timer(timer) = &module.resources()[6].spec else { panic!("{module:?}") };
    assert_eq!(timer.command, ["/opt/x/run", "a b"]);
    let Spec::File(file) = &module.resources()[4].spec else { panic!("{module:?}") };
    assert_eq!(file.check, Some(mesh_wire::kinds::Check::Json));
}

#[test]
fn what_two_kinds_would_write_to_one_path_is_refused() {
    let cases = [
        "[[timer]]\nname='a'\ncalendar='daily'\ncommand=['/bin/true']\n[[unit]]\nname='a.service'\ncontent='x'\n",
        "[[unit]]\nname='a.service'\ndrop_ins={'x.conf'=''}\n[[file]]\npath='/etc/systemd/system/a.service.d/x.conf'\ncontent=''\n",
        "[[sysctl]]\nname='a'\nsettings={'vm.swappiness'='1'}\n[[file]]\npath='/etc/sysctl.d/90-mesh-a.conf'\ncontent=''\n",
    ];
    for text in cases {
        let problem = read(text).unwrap_err().to_string();
        assert!(problem.contains("cannot be at"), "{text}: {problem}");
    }
}

#[test]
fn what_no_machine_would_take_is_refused_where_it_stands() {
    let cases = [
        ("[[user]]\nname='root'\n", "root is the machine's own"),
        ("[[timer]]\nname='a'\ncalendar='sometimes'\ncommand=['/bin/true']\n", "is no calendar event"),
        ("[[sysctl]]\nname='a'\nsettings={'../../etc/passwd'='1'}\n", "is no parameter of the kernel"),
        ("[[unit]]\nname='a.service'\ndrop_ins={'../x.conf'=''}\n", "is not a drop-in"),
        ("[[file]]\npath='/a'\ncontent=''\ncheck='sh'\n", "unknown variant `sh`"),
    ];
    for (text, expected) in cases {
        let problem = read(text).unwrap_err().to_string();
        assert!(problem.contains(expected), "{text}: {problem}");
    }
}
