//! The effects of a change of objects on the state machine.

use volhost_core::DesiredPod;
use volhost_model::names::PodUid;
use volhost_model::view::EventKind;
use volhost_objects::populate::attachments::AttachmentReport;
use volhost_volume_ops::events::NewEvent;

/// The effects of a change of objects on the state machine.
#[derive(Debug, Default)]
pub(in crate::event_loop) struct Effects {
    /// Pods that are known to be gone.
    pub(in crate::event_loop) gone: Vec<PodUid>,
    /// Pods that exist and must not run here, or no longer: they have finished, or another node has
    /// them.
    pub(in crate::event_loop) not_here: Vec<PodUid>,
    /// Pods as they are wanted now.
    pub(in crate::event_loop) desired: Vec<DesiredPod>,
    /// Pods whose volumes' content may have changed.
    pub(in crate::event_loop) source_changed: Vec<PodUid>,
    /// The content of the VolumeAttachments, if it may have changed.
    pub(in crate::event_loop) attachments: Option<AttachmentReport>,
    /// Pods that exist and whose objects cannot be read, and why. Nothing of them is unmounted.
    pub(in crate::event_loop) unreadable: Vec<(PodUid, String)>,
    /// Events for users.
    pub(in crate::event_loop) events: Vec<NewEvent>,
}

impl Effects {
    /// Takes the pods whose volumes are not wanted any more: those that are gone, and those that
    /// must not run here and that the state machine `knows`. Every resolution repeats the latter,
    /// and for a pod that the state machine does not know there is nothing to undo.
    pub(in crate::event_loop) fn take_unwanted(&mut self, knows: impl Fn(&PodUid) -> bool) -> Vec<PodUid> {
        let mut unwanted = std::mem::take(&mut self.gone);
        unwanted.extend(std::mem::take(&mut self.not_here).into_iter().filter(knows));
        unwanted
    }

    /// Adds an event about an object.
    pub(super) fn emit(&mut self, kind: EventKind, reason: &str, object: String, message: impl Into<String>) {
        self.events.push(NewEvent { kind, reason: reason.to_owned(), object, message: message.into() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_that_is_not_to_run_here_is_forgotten_once() {
        let uid = |name: &str| PodUid::new(name).unwrap();
        let effects = || Effects {
            gone: vec![uid("deleted")],
            not_here: vec![uid("finished"), uid("of-other-node")],
            ..Effects::default()
        };
        // It ran here until now.
        assert_eq!(effects().take_unwanted(|pod| *pod == uid("finished")), [uid("deleted"), uid("finished")]);
        // Each further resolution of everything names it again.
        assert_eq!(effects().take_unwanted(|_| false), [uid("deleted")]);
    }
}
