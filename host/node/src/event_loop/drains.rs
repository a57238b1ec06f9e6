//! Draining: every volume is unmounted, and callers wait until none is left.
#![deny(clippy::disallowed_methods)]

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;
use volhost_core::{Core, Event};
use volhost_model::names::PodUid;
use volhost_model::view::{EventKind, PodView, VolumeView};

use super::orphans::OrphanCleanup;
use super::reply::{deadline_after, reply};
use super::world::World;

/// The callers that wait for the end of a drain.
#[derive(Debug, Default)]
pub(super) struct Drains {
    waiting: Vec<WaitingCaller>,
    /// The last drain that was answered left nothing.
    is_drained: bool,
}

#[derive(Debug)]
struct WaitingCaller {
    deadline: Instant,
    /// Receives what is left, a line each.
    answer: oneshot::Sender<Vec<String>>,
}

impl Drains {
    /// Starts to unmount every volume. The caller is answered by [`Drains::answer`].
    pub(super) fn begin(&mut self, timeout: Duration, answer: oneshot::Sender<Vec<String>>, world: &mut World) {
        self.waiting.push(WaitingCaller { deadline: deadline_after(timeout), answer });
        world.emit(EventKind::Normal, "Draining", "node", "every volume is being unmounted");
        world.dispatch(Event::Drain);
    }

    /// Mounts volumes again. Returns whether the node was being drained.
    pub(super) fn end(&mut self, world: &mut World) -> bool {
        if !world.core().is_draining() {
            return false;
        }
        self.is_drained = false;
        world.emit(EventKind::Normal, "DrainEnded", "node", "volumes are mounted again for the pods that want them");
        world.dispatch(Event::DrainEnded);
        let left = vec!["the drain was ended before everything was unmounted".to_owned()];
        for caller in std::mem::take(&mut self.waiting) {
            reply(caller.answer, left.clone());
        }
        true
    }

    /// Whether the last drain left nothing.
    pub(super) const fn is_drained(&self) -> bool {
        self.is_drained
    }

    /// Returns when the first caller gives up, or a folder that is being cleaned is no longer
    /// waited for.
    pub(super) fn next_deadline(&self, orphans: &OrphanCleanup) -> Option<Instant> {
        let cleanup = orphans.next_deadline().filter(|_| !self.waiting.is_empty());
        self.waiting.iter().map(|caller| caller.deadline).chain(cleanup).min()
    }

    /// Answers the callers when nothing is left or their time is over.
    pub(super) fn answer(&mut self, world: &World, orphans: &OrphanCleanup) {
        let now = Instant::now();
        // While operations run, volumes are left; a closer look is not worth its cost. The cleanup
        // of pods' folders may find more.
        let busy = world.executor().running() > 0 || orphans.is_awaited(now);
        let due = !busy || self.waiting.iter().any(|caller| caller.deadline <= now);
        if self.waiting.is_empty() || !due {
            return;
        }
        let left = left(world.core());
        self.is_drained = left.is_empty();
        for caller in std::mem::take(&mut self.waiting) {
            if left.is_empty() || caller.deadline <= now {
                reply(caller.answer, left.clone());
            } else if !caller.answer.is_closed() {
                self.waiting.push(caller);
            }
        }
    }
}

/// Lists the volumes that are mounted, or may be: a line each.
fn left(core: &Core) -> Vec<String> {
    let mut left = BTreeMap::new();
    for PodView { uid, .. } in core.pods() {
        let Ok(uid) = PodUid::new(uid) else { continue };
        for volume in core.possibly_mounted_volumes_of(&uid) {
            left.insert((volume.pod.clone(), volume.spec_name.clone()), reason(&volume));
        }
    }
    for volume in core.unused_volumes() {
        left.insert((String::new(), volume.unique_name.clone()), reason(&volume));
    }
    left.into_iter().map(|((pod, volume), reason)| format!("{pod}: {volume}: {reason}")).collect()
}

fn reason(volume: &VolumeView) -> String {
    volume.failure.as_ref().map_or_else(|| format!("{:?}", volume.state), ToString::to_string)
}
