//! The steps that were kept at one moment.

use std::sync::Arc;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use volhost_core::{Core, Time};

use crate::base::Base;
use crate::file::{FORMAT, FORMAT_VERSION, hex};
use crate::recorder::{RecordedStep, Segment};
use crate::shared_objects::WrittenObjects;

/// The kept steps, and the state before them. Its methods take time for each step, so they belong
/// on a thread that may block.
#[derive(Debug)]
pub struct Recording {
    base: Arc<Base>,
    segments: Vec<Arc<Segment>>,
}

impl Recording {
    pub(crate) const fn new(base: Arc<Base>, segments: Vec<Arc<Segment>>) -> Self {
        Self { base, segments }
    }

    /// Returns the state machine after the last step: a copy of the one that was recorded, at the
    /// moment of the recording.
    pub fn machine(&self) -> Core {
        let (mut core, next) = {
            let base = self.base.machine();
            (base.core.clone(), base.next)
        };
        for step in self.steps_from(next) {
            drop(core.step(step.at, step.event.clone()));
        }
        core
    }

    /// Returns the file with the recording. `program` is the program that recorded and its version,
    /// `now` the time.
    ///
    /// # Errors
    /// A value that JSON cannot express.
    pub fn file(&self, program: &str, now: Time) -> Result<Vec<u8>, serde_json::Error> {
        let (state, next) = {
            let base = self.base.machine();
            (base.core.image(), base.next)
        };
        let mut file = Writer::default();
        let first = json!({"recording": FORMAT, "version": FORMAT_VERSION, "program": program, "written": now, "first_step": next});
        file.line(&first);
        file.folded(json!({"state": serde_json::to_value(state)?}));
        let mut steps: u64 = 0;
        for RecordedStep { number, at, event, commands } in self.steps_from(next) {
            file.folded(json!({"step": number, "at": at, "event": serde_json::to_value(event)?, "commands": serde_json::to_value(commands.as_slice())?}));
            steps = steps.saturating_add(1);
        }
        Ok(file.finish(steps))
    }

    /// The steps that the base has not taken. Some may have left since the recording was taken.
    fn steps_from(&self, next: u64) -> impl Iterator<Item = &RecordedStep> {
        self.segments.iter().flat_map(|segment| &segment.steps).filter(move |step| step.number >= next)
    }
}

/// A file that is being written.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    bytes: Vec<u8>,
    objects: WrittenObjects,
}

impl Writer {
    /// Appends a line.
    pub(crate) fn line(&mut self, line: &Value) {
        append(&mut self.bytes, line);
    }

    /// Appends a line after the objects that it is the first to have.
    pub(crate) fn folded(&mut self, mut line: Value) {
        let bytes = &mut self.bytes;
        self.objects.fold(&mut line, &mut |number, object| append(bytes, &json!({"object": number, "is": object})));
        append(bytes, &line);
    }

    /// Appends the last line, and returns the file.
    pub(crate) fn finish(mut self, steps: u64) -> Vec<u8> {
        let digest = hex(&Sha256::digest(&self.bytes));
        self.line(&json!({"end": {"steps": steps, "sha256": digest}}));
        self.bytes
    }
}

fn append(bytes: &mut Vec<u8>, line: &Value) {
    bytes.extend_from_slice(line.to_string().as_bytes());
    bytes.push(b'\n');
}
