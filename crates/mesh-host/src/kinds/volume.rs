//! The kind `volume`: a named volume of the engine. Its data outlives the resource, unless a person released it: then it
//! goes with the resource, and only where a host made the volume.

use std::borrow::Cow;

use mesh_wire::kinds::VolumeSpec;

use super::{Claim, Kind, Memory};
use crate::{
    failure::Failure,
    machine::{
        Machine,
        engine::{EngineStep, LABEL_KIND, labels},
    },
    step::Step,
};

/// The kind.
#[derive(Debug)]
pub struct Volume;

/// What the engine has of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VolumeObserved {
    /// Nothing.
    Nothing,
    /// One that a host made.
    Ours,
    /// One that somebody else made.
    Foreign,
}

impl Kind for Volume {
    type Spec = VolumeSpec;
    type Observed = VolumeObserved;
    type Before = ();

    fn claims(spec: &VolumeSpec) -> Vec<Claim> {
        vec![Claim::new("volume", &spec.name)]
    }

    fn subject(spec: &VolumeSpec) -> Cow<'_, str> {
        Cow::Borrowed(&spec.name)
    }

    async fn observe(machine: &Machine, spec: &VolumeSpec) -> Result<VolumeObserved, Failure> {
        let contents = machine.engine.look().await?;
        Ok(match contents.volumes.get(&spec.name) {
            None => VolumeObserved::Nothing,
            Some(labels) if labels.contains_key(LABEL_KIND) => VolumeObserved::Ours,
            Some(_) => VolumeObserved::Foreign,
        })
    }

    fn before(_: &VolumeSpec, _: &VolumeObserved, _: Option<&()>) {}

    fn plan(spec: &VolumeSpec, observed: &VolumeObserved, _: &Memory<Self>) -> Result<Vec<Step>, Failure> {
        match observed {
            VolumeObserved::Nothing => {
                let (name, labels) = (spec.name.clone(), labels("volume", &spec.name));
                Ok(vec![Step::Engine(EngineStep::CreateVolume { name, labels })])
            }
            VolumeObserved::Ours => Ok(Vec::new()),
            VolumeObserved::Foreign => Err(Failure::new(format!(
                "the engine has a volume {} that the mesh did not make: remove it, or declare another name; to hand its \
                 data over, copy it into a volume with the label {LABEL_KIND}=volume",
                spec.name
            ))),
        }
    }

    fn remove(spec: &VolumeSpec, observed: &VolumeObserved, (): &()) -> Result<Vec<Step>, Failure> {
        let name = spec.name.clone();
        Ok(match observed {
            VolumeObserved::Ours if spec.released => vec![Step::Engine(EngineStep::RemoveVolume(name))],
            // With its label the volume is taken up again when it is declared again.
            VolumeObserved::Ours => vec![Step::Engine(EngineStep::KeepVolume(name))],
            VolumeObserved::Nothing | VolumeObserved::Foreign => Vec::new(),
        })
    }
}
