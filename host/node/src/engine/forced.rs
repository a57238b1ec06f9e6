//! The last resort for a volume whose storage does not answer: out of sight at once, whoever uses it. Only when a person asks for it.

use tokio::sync::oneshot;
use volhost_core::Event;
use volhost_model::names::{PluginName, SpecName, UniqueVolumeName};
use volhost_model::view::{EventKind, VolumeState, VolumeView};

use super::answers::reply;
use super::requests::{PodSelector, RequestError};
use super::serve::Engine;
use super::sweep::Found;
use volhost_volume_ops::expected_mounts::{NodePlace, VolumePlace};
use volhost_volume_ops::forced::Forced;
use volhost_volume_ops::layout;

/// Which mount to force out of sight.
#[derive(Debug, Clone)]
pub enum ForceTarget {
    /// A pod's mount of a volume, by its name in the pod, or in the pod's folder.
    OfPod(PodSelector, String),
    /// The node's own mount of a volume, by the volume's unique name, or its name in pods' folders.
    OfNode(String),
}

/// A mount that was forced out of sight.
#[derive(Debug)]
pub(super) enum ForcedMount {
    /// A pod's.
    OfPod {
        place: VolumePlace,
        volume: UniqueVolumeName,
        /// The pod as events name it.
        pod: String,
    },
    /// The node's own.
    OfNode { place: NodePlace, spec_name: String },
}

impl Engine {
    /// Forces a mount out of sight, on a thread that may block, and answers when it is.
    pub(super) fn force_unmount(
        &mut self,
        target: &ForceTarget,
        end_server: bool,
        answer: oneshot::Sender<Result<Forced, RequestError>>,
    ) {
        let found = match target {
            ForceTarget::OfPod(pod, volume) => self.volume_to_force(pod, volume),
            ForceTarget::OfNode(volume) => self.mount_to_force(volume),
        };
        let forced = match found {
            Ok(forced) => forced,
            Err(error) => return reply(answer, Err(error)),
        };
        let (volume_ops, answers) = (self.volume_ops.clone(), self.sweep.answers.clone());
        tokio::task::spawn_blocking(move || {
            let done = match &forced {
                ForcedMount::OfPod { place, .. } => volume_ops.force_unmount(place, end_server),
                ForcedMount::OfNode { place, .. } => volume_ops.force_unmount_of_node(place, end_server),
            };
            if let (Ok(how), Some(answers)) = (&done, answers) {
                // Nobody listens any more only when the engine ends.
                let _ = answers.send(Found::Forced(forced, *how));
            }
            reply(answer, done.map_err(|error| RequestError::Failed(error.to_string())));
        });
    }

    fn volume_to_force(&self, pod: &PodSelector, name: &str) -> Result<ForcedMount, RequestError> {
        let uid = self.find(pod)?;
        let view = self.world.core.pod(&uid);
        let volumes = view.into_iter().flat_map(|pod| pod.volumes);
        let Some(view) = volumes.into_iter().find(|view| view.name == name || view.spec_name == name) else {
            return Err(RequestError::Invalid(format!(
                "the pod has no volume {name:?}; `volhost get volumes` lists them"
            )));
        };
        if view.state == VolumeState::Mounted {
            return Err(RequestError::Invalid(format!(
                "volume {name:?} is mounted, and its pod wants it; remove the pod first, then this forces what cannot be unmounted"
            )));
        }
        if view.path.is_empty() || view.path.contains(layout::VOLUME_DEVICES) {
            return Err(RequestError::Invalid(format!("volume {name:?} is not mounted in the pod's folder")));
        }
        Ok(ForcedMount::OfPod {
            place: VolumePlace {
                pod: uid,
                plugin: PluginName::new(&view.plugin).map_err(|error| invalid(&error))?,
                spec_name: SpecName::new(view.spec_name.as_str()).map_err(|error| invalid(&error))?,
            },
            volume: UniqueVolumeName::new(view.unique_name.as_str()).map_err(|error| invalid(&error))?,
            pod: view.pod,
        })
    }

    /// The node's own mount of a volume that no pod has, or wants.
    fn mount_to_force(&self, name: &str) -> Result<ForcedMount, RequestError> {
        let named = |view: &VolumeView| view.unique_name == name || view.spec_name == name;
        let mut unused = self.world.core.unused_volumes().into_iter().filter(named);
        let (Some(view), None) = (unused.next(), unused.next()) else {
            return Err(RequestError::Invalid(format!(
                "no volume, or more than one, is named {name:?} and only left on the node; `volhost get volumes -o wide` shows the unique names of those that are Unused. While pods have or want a volume, remove them first"
            )));
        };
        let plugin = PluginName::new(&view.plugin).map_err(|error| invalid(&error))?;
        let volume = UniqueVolumeName::new(view.unique_name.as_str()).map_err(|error| invalid(&error))?;
        Ok(ForcedMount::OfNode { place: NodePlace { plugin, volume }, spec_name: view.spec_name })
    }

    /// Tells what was forced, and lets the state machine find out what is left.
    pub(super) fn forced(&mut self, forced: ForcedMount, how: Forced) {
        let server = if how.server_ended { ", and the connection to its server was ended" } else { "" };
        let (what, object, event) = match forced {
            ForcedMount::OfPod { place, volume, pod } => {
                let what = format!("volume \"{}\"", place.spec_name);
                (what, format!("pod {pod}"), Event::Vanished { pod: place.pod, volume })
            }
            ForcedMount::OfNode { place: NodePlace { volume, .. }, spec_name } => {
                let what = format!("the node's own mount of volume \"{spec_name}\"");
                (what, format!("volume {volume}"), Event::DeviceVanished { volume })
            }
        };
        let message =
            format!("{what} was taken out of sight by hand{server}; what was not written to it yet may be lost");
        self.world.tell(EventKind::Warning, "ForcedUnmount", &object, &message);
        self.world.feed(event);
    }
}

fn invalid(error: &dyn std::fmt::Display) -> RequestError {
    RequestError::Invalid(error.to_string())
}
