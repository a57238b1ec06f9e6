//! What would happen if objects were added, or the node drained. Nothing is executed: a copy of the
//! state machine handles the events, on a thread of its own.
#![deny(clippy::disallowed_methods)]

use std::sync::Arc;

use tokio::sync::oneshot;
use volhost_core::Event;
use volhost_objects::Object;
use volhost_plan::plan;

use super::manifest_text::ManifestObjects;
use super::reply::reply;
use super::requests::{Planned, RequestError};
use super::sources::Sources;
use super::world::World;

/// The most objects of a node for which one is planned: the loop copies their table, which takes a
/// few milliseconds for as many.
const MAX_OBJECTS: usize = 10_000;

/// The channel for a plan.
pub(super) type PlanAnswer = oneshot::Sender<Result<Planned, RequestError>>;

/// The plans of callers that wait until plugins have said what the volumes are.
#[derive(Debug, Default)]
pub(super) struct Plans {
    waiting: Vec<WaitingPlan>,
}

#[derive(Debug)]
struct WaitingPlan {
    objects: Vec<Arc<Object>>,
    warnings: Vec<String>,
    answer: PlanAnswer,
}

impl Plans {
    /// Plans the addition of checked objects. Plugins are asked what new volumes are; then the plan
    /// waits for [`Plans::run_when_known`].
    pub(super) fn begin(&mut self, planned: ManifestObjects, answer: PlanAnswer, sources: &Sources) {
        let objects = sources.store().len();
        if objects > MAX_OBJECTS {
            let why = format!("the node has {objects} objects, and plans are made for up to {MAX_OBJECTS}");
            return reply(answer, Err(RequestError::Precondition(why)));
        }
        let ManifestObjects { objects, warnings, .. } = planned;
        // Notes the questions to plugins, which this turn asks.
        drop(sources.foresee(&objects));
        self.waiting.push(WaitingPlan { objects, warnings, answer });
    }

    /// Makes the plans that wait, once plugins have answered.
    pub(super) fn run_when_known(&mut self, is_asking: bool, world: &mut World, sources: &Sources) {
        if is_asking {
            self.waiting.retain(|plan| !plan.answer.is_closed());
            return;
        }
        for WaitingPlan { objects, warnings, answer } in std::mem::take(&mut self.waiting) {
            let mut effects = sources.foresee(&objects);
            let unwanted = effects.take_unwanted(|uid| world.core().knows(uid));
            let gone = unwanted.into_iter().map(|uid| Event::PodGone { uid });
            let desired = effects.desired.into_iter().map(Event::PodDesired);
            let changed = effects.source_changed.into_iter().map(|uid| Event::SourceChanged { uid });
            run(gone.chain(desired).chain(changed).collect(), warnings, answer, world);
        }
    }
}

/// Plans a drain.
pub(super) fn drain(answer: PlanAnswer, world: &mut World) {
    run(vec![Event::Drain], Vec::new(), answer, world);
}

fn run(events: Vec<Event>, warnings: Vec<String>, answer: PlanAnswer, world: &mut World) {
    let (recording, now) = (world.recording(), world.now());
    tokio::task::spawn_blocking(move || {
        reply(answer, Ok(Planned { plan: plan(recording.machine(), now, events), warnings }));
    });
}
