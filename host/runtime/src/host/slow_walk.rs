//! Tells users of a walk over a volume's files that takes long, and what would make it shorter.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use volhost_model::view::EventKind;

use crate::context::{CallSink, Target};

/// When a walk is first told of, as the kubelet does.
const FIRST: Duration = Duration::from_secs(30);
/// And then again.
const NEXT: Duration = Duration::from_secs(60);

/// What is heard of one walk, from any of its threads.
#[derive(Debug)]
pub(super) struct SlowWalk {
    sink: Arc<dyn CallSink>,
    volume: String,
    due: Mutex<Instant>,
}

impl SlowWalk {
    /// A walk that begins now.
    pub(super) fn new(sink: Arc<dyn CallSink>, target: &Target) -> Self {
        Self { sink, volume: target.spec_name.to_string(), due: Mutex::new(Instant::now() + FIRST) }
    }

    /// Hears how many files have been looked at.
    pub(super) fn hear(&self, visited: u64) {
        let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if now < *due {
            return;
        }
        *due = now + NEXT;
        let message = format!(
            "setting the group of volume \"{}\" takes long: {visited} files so far; consider fsGroupChangePolicy: OnRootMismatch",
            self.volume
        );
        self.sink.event(EventKind::Warning, "VolumePermissionChangeInProgress", &message);
    }
}
