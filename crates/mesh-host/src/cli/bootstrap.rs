//! `mesh-host bootstrap`: this machine raises a mesh and becomes its first node.

use std::{path::PathBuf, time::Duration};

use clap::Args;
use mesh_ids::NodeName;
use tokio::time::Instant;

use super::{Ended, Exit, join::connected, output::print, trust};
use crate::{
    bootstrap::{self, BootstrapError, GivenImage, Raised, Request, Told},
    machine::{Machine, units::Active},
    paths::Paths,
    service,
};

#[derive(Debug, Args)]
#[command(after_help = "\
Everything it raises stands in BUNDLE/bundle.toml, in order and with its reason. It can be killed at any point: the same
command goes on from there, and changes nothing where everything is done.

Examples:
  mesh-host bootstrap --bundle /usr/lib/mesh/bundle --name node-1
  mesh-host bootstrap --bundle . --name node-1 --advertise 192.0.2.1:5671
  mesh-host bootstrap --bundle . --name node-1 --image broker=oci-archive:lavinmq.tar")]
pub(super) struct Bootstrap {
    /// The folder of the bundle: bundle.toml, and the images beside it.
    #[arg(long, value_name = "DIR", default_value = "/usr/lib/mesh/bundle")]
    bundle: PathBuf,
    /// The name of this node.
    #[arg(long, value_name = "NAME")]
    name: NodeName,
    /// Where other machines reach the broker on this one; its own addresses where not given. Can be repeated.
    #[arg(long, value_name = "HOST:PORT", value_parser = place)]
    advertise: Vec<String>,
    /// Another image in the place of one of the bundle's: NAME=oci-archive:PATH or NAME=REGISTRY/NAME@sha256:DIGEST.
    /// Can be repeated; remembered.
    #[arg(long = "image", value_name = "NAME=IMAGE")]
    images: Vec<GivenImage>,
    /// Say what happens as JSON, one object a line.
    #[arg(long)]
    json: bool,
}

/// `host:port`, which goes into join tokens as it is.
fn place(text: &str) -> Result<String, String> {
    let wrong = || format!("{text:?} is not HOST:PORT");
    let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
    let is_host = !host.is_empty() && !host.contains([',', '/', '@']) && !host.contains(char::is_whitespace);
    match port.parse::<u16>() {
        Ok(1..) if is_host => Ok(text.to_owned()),
        _ => Err(wrong()),
    }
}

impl Bootstrap {
    pub(super) async fn run(self, paths: &Paths) -> Result<Exit, Ended> {
        let machine = Machine::real(paths);
        let request =
            Request { bundle: self.bundle, node: self.name, advertise: self.advertise, images: self.images };
        let trust = trust(paths)?.map(|(_, _, trust)| trust);
        let (json, began) = (self.json, Instant::now());
        let show = |told: Told<'_>| if json { show_json(told) } else { show(told, began.elapsed()) };
        let raised = bootstrap::bootstrap(paths, &machine, trust, &request, &mut |told| show(told)).await?;
        let running = machine.units.look(service::NAME).await?.active == Active::Yes;
        if raised.linked_now || !running {
            show(Told::Stage("starting the host"));
            service::install(&machine).await?;
            let broker = connected(&machine).await?;
            show(Told::Step(&format!("connected to {broker}")));
        }
        finish(&request.node, &raised, json);
        Ok(Exit::Done)
    }
}

fn show(told: Told<'_>, after: Duration) {
    let after = after.as_secs();
    match told {
        Told::Stage(what) => print(format_args!("{after:>4} s  == {what}")),
        Told::Resource { id, number, of, why } => {
            print(format_args!("{after:>4} s  [{number}/{of}] {id}: {why}"));
        }
        Told::Step(step) => print(format_args!("{after:>4} s    {step}")),
    }
}

fn show_json(told: Told<'_>) {
    print(match told {
        Told::Stage(stage) => serde_json::json!({ "stage": stage }),
        Told::Resource { id, number, of, why } => {
            serde_json::json!({ "resource": id, "number": number, "of": of, "why": why })
        }
        Told::Step(step) => serde_json::json!({ "step": step }),
    });
}

fn finish(node: &NodeName, raised: &Raised, json: bool) {
    let Raised { steps, resources, linked_now, api, context } = raised;
    let context = context.display();
    if json {
        print(serde_json::json!({
            "done": { "node": node, "api": api, "context": context.to_string(), "steps": steps, "resources": resources },
        }));
        return;
    }
    let changed = match (steps, linked_now) {
        (0, false) => "nothing had to change".to_owned(),
        _ => format!("{steps} steps taken"),
    };
    print(format_args!("\n{node} runs the mesh: {resources} resources as the bundle says, {changed}."));
    print(format_args!(
        "\nTo log in, on this machine or another that reaches {api}:\n  mesh context add {context}\n\
         The file holds the administrator's token: whoever reads it may do everything.\n\nNext:\n  mesh node list\n  \
         mesh node invite node-2"
    ));
}

impl From<BootstrapError> for Ended {
    fn from(error: BootstrapError) -> Self {
        match error {
            BootstrapError::Refused(why) => Self::new(Exit::Refused, why),
            BootstrapError::Usage(why) => Self::new(Exit::Usage, why),
            BootstrapError::Failed(failure) => failure.into(),
            BootstrapError::Join(error) => error.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_host_and_a_port() {
        for good in ["192.0.2.1:5671", "[2001:db8::1]:5671", "broker.example:443"] {
            assert!(place(good).is_ok(), "{good}");
        }
        for bad in ["192.0.2.1", ":5671", "a:0", "a:70000", "a,b:1", "amqps://a:1"] {
            assert!(place(bad).is_err(), "{bad}");
        }
    }
}
