//! The last resort for a volume whose storage does not answer: out of sight at once, whoever uses it. Only when a person asks for it.

use std::ffi::OsStr;

use tokio::sync::oneshot;
use volhost_core::Event;
use volhost_kernel::{Detach, KernelError};
use volhost_model::names::{PluginName, SpecName, UniqueVolumeName};
use volhost_model::view::{EventKind, VolumeState};

use super::answers::reply;
use super::layout;
use super::operation::Workshop;
use super::requests::{PodSelector, RequestError};
use super::serve::Engine;
use super::standing::VolumePlace;
use super::sweep::Found;

/// What was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Forced {
    /// The connection to the server of its FUSE file system was ended.
    pub server_ended: bool,
}

/// A volume that was forced out of sight.
#[derive(Debug)]
pub(super) struct ForcedVolume {
    place: VolumePlace,
    volume: UniqueVolumeName,
    /// The pod as events name it.
    pod: String,
}

impl Workshop {
    /// Takes the mount at a place out of sight, whoever uses it; before that, if asked to, ends the connection to its server. A folder
    /// that is no mount stays if it holds anything (rule R5).
    ///
    /// # Errors
    /// What the kernel said. The connection may have been ended.
    pub fn force_unmount(&self, place: &VolumePlace, end_server: bool) -> Result<Forced, KernelError> {
        let Some(folder) = self.open_if_there(&layout::plugin_folder(&place.pod, &place.plugin))? else {
            return Ok(Forced { server_ended: false });
        };
        let name = OsStr::new(place.spec_name.as_str());
        let server_ended = end_server && self.kernel.end_server(&folder, name)?;
        self.standing.leaves(place);
        self.kernel.detach(&folder, name, Detach::Lazy)?;
        Ok(Forced { server_ended })
    }
}

impl Engine {
    /// Forces a volume out of sight, on a thread that may block, and answers when it is.
    pub(super) fn force_unmount(
        &mut self,
        pod: &PodSelector,
        volume: &str,
        end_server: bool,
        answer: oneshot::Sender<Result<Forced, RequestError>>,
    ) {
        let forced = match self.volume_to_force(pod, volume) {
            Ok(forced) => forced,
            Err(error) => return reply(answer, Err(error)),
        };
        let (workshop, answers) = (self.workshop.clone(), self.sweep.answers.clone());
        tokio::task::spawn_blocking(move || {
            let done = workshop.force_unmount(&forced.place, end_server);
            if let (Ok(how), Some(answers)) = (&done, answers) {
                // Nobody listens any more only when the engine ends.
                let _ = answers.send(Found::Forced(forced, *how));
            }
            reply(answer, done.map_err(|error| RequestError::Failed(error.to_string())));
        });
    }

    fn volume_to_force(&self, pod: &PodSelector, name: &str) -> Result<ForcedVolume, RequestError> {
        let uid = self.find(pod)?;
        let view = self.world.core.pod(&uid);
        let volumes = view.into_iter().flat_map(|pod| pod.volumes);
        let invalid = |error: &dyn std::fmt::Display| RequestError::Invalid(error.to_string());
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
        Ok(ForcedVolume {
            place: VolumePlace {
                pod: uid,
                plugin: PluginName::new(&view.plugin).map_err(|error| invalid(&error))?,
                spec_name: SpecName::new(view.spec_name.as_str()).map_err(|error| invalid(&error))?,
            },
            volume: UniqueVolumeName::new(view.unique_name.as_str()).map_err(|error| invalid(&error))?,
            pod: view.pod,
        })
    }

    /// Tells what was forced, and lets the state machine find out what is left.
    pub(super) fn forced(&mut self, forced: ForcedVolume, how: Forced) {
        let ForcedVolume { place, volume, pod } = forced;
        let server = if how.server_ended { ", and the connection to its server was ended" } else { "" };
        let message = format!(
            "volume \"{}\" was taken out of sight by hand{server}; what was not written to it yet may be lost",
            place.spec_name
        );
        self.world.tell(EventKind::Warning, "ForcedUnmount", &format!("pod {pod}"), &message);
        self.world.feed(Event::Vanished { pod: place.pod, volume });
    }
}
