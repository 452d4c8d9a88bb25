//! Cases of the kind `sysctl`, and what of it is no case.

use super::{Bench, Case, carry, converge, folder, holds};

const BOTH: &str = r#"[{"id": "s", "kind": "sysctl", "spec": {"name": "forwarding",
    "settings": {"net.ipv4.ip_forward": "1", "net.ipv4.tcp_rmem": "4096 131072 600000"}}}]"#;
const ONE: &str = r#"[{"id": "s", "kind": "sysctl", "spec": {"name": "forwarding",
    "settings": {"vm.swappiness": "10", "net.ipv4.ip_forward": "1"}}}]"#;
const CONF: &str = "/etc/sysctl.d/90-mesh-forwarding.conf";

fn value(bench: &Bench, key: &str) -> String {
    bench.world.sysctls.borrow().get(key).cloned().unwrap_or_default()
}

fn set(bench: &Bench, key: &str, value: &str) {
    bench.world.sysctls.borrow_mut().insert(key.to_owned(), value.to_owned());
}

#[tokio::test]
async fn parameters_of_which_one_goes_and_one_comes() {
    let case = Case {
        name: "sysctl",
        machine: Bench::without_engine,
        first: BOTH,
        second: ONE,
        drift: |bench| set(bench, "net.ipv4.ip_forward", "0"),
    };
    holds(&case).await;
    let over_a_file = Case {
        name: "sysctl over a file",
        machine: || {
            let bench = Bench::without_engine();
            bench.world.put(CONF, "vm.swappiness = 1\n", 0o600);
            bench
        },
        drift: |bench| bench.world.put(CONF, "by hand", 0o644),
        ..case
    };
    holds(&over_a_file).await;
}

#[tokio::test]
async fn the_file_is_the_same_for_the_same_settings() {
    let (bench, folder) = (Bench::without_engine(), folder());
    converge(&bench, folder.path(), BOTH, "both").await;
    let text = "# Kept by mesh-host, which undoes what is changed here.\nnet.ipv4.ip_forward = 1\nnet.ipv4.tcp_rmem = 4096 131072 600000\n";
    assert_eq!(bench.world.text(CONF).as_deref(), Some(text));
}

#[tokio::test]
async fn what_the_kernel_does_not_take_is_said_and_not_kept() {
    let said = |settings: &str| {
        let json = format!(
            r#"[{{"id": "s", "kind": "sysctl", "spec": {{"name": "x", "settings": {{{settings}}}}}}}]"#
        );
        async move {
            let (bench, folder) = (Bench::without_engine(), folder());
            let outcome = carry(&bench, folder.path(), &json).await;
            assert_eq!(bench.world.text("/etc/sysctl.d/90-mesh-x.conf"), None, "{json}: nothing is kept");
            outcome.failed.values().map(ToString::to_string).collect::<Vec<_>>().join("; ")
        }
    };
    let unknown = said(r#""net.ipv4.no_such_thing": "1""#).await;
    assert_eq!(unknown, "the kernel has no parameter net.ipv4.no_such_thing: is a module of it not loaded?");
    let refused = said(r#""vm.swappiness": "much""#).await;
    assert_eq!(refused, "set vm.swappiness to much: the kernel refuses the value: Invalid argument");
    let changed = said(r#""vm.swappiness": "20000000""#).await;
    let why = "the kernel made 10000000 of it: declare a value that it keeps";
    assert_eq!(changed, format!("set vm.swappiness to 20000000: {why}"));
}

#[tokio::test]
async fn a_parameter_that_was_given_up_is_not_touched_again() {
    let (bench, folder) = (Bench::without_engine(), folder());
    converge(&bench, folder.path(), BOTH, "both").await;
    converge(&bench, folder.path(), ONE, "one given up").await;
    assert_eq!(value(&bench, "net.ipv4.tcp_rmem"), "4096 131072 6291456", "it was put back");
    set(&bench, "net.ipv4.tcp_rmem", "1 2 3");
    converge(&bench, folder.path(), ONE, "somebody else's by now").await;
    converge(&bench, folder.path(), "[]", "removed").await;
    assert_eq!(value(&bench, "net.ipv4.tcp_rmem"), "1 2 3");
    assert_eq!(value(&bench, "net.ipv4.ip_forward"), "0");
}
