//! Takes the steps of a file again.

use serde_json::Value;
use volhost_core::{Core, CoreCommand, Event, Time};

use crate::difference::Difference;
use crate::file::{RecordingError, RecordingFile, StepInFile};

/// A replay: the state machine of this version, in the recorded state, with the recorded events.
#[derive(Debug)]
pub struct Replay<'a> {
    file: &'a RecordingFile,
    machine: Core,
    place: usize,
}

/// A step that was taken again.
#[derive(Debug)]
pub struct ReplayedStep {
    /// Its number.
    pub number: u64,
    /// The time of the step.
    pub at: Time,
    /// The event that the state machine handles.
    pub event: Event,
    /// What it decides now.
    pub commands: Vec<CoreCommand>,
    /// Where that differs from what was recorded.
    pub difference: Option<Difference>,
}

impl<'a> Replay<'a> {
    /// Begins in the state before the first step.
    ///
    /// # Errors
    /// [`RecordingError`] if this version cannot read the state.
    pub fn new(file: &'a RecordingFile) -> Result<Self, RecordingError> {
        Ok(Self { machine: Core::from_image(file.state()?), file, place: 0 })
    }

    /// Returns the machine after the last step that was taken.
    pub const fn machine(&self) -> &Core {
        &self.machine
    }
}

impl Iterator for Replay<'_> {
    type Item = Result<ReplayedStep, RecordingError>;

    fn next(&mut self) -> Option<Self::Item> {
        let step = self.file.step(self.place)?;
        self.place += 1;
        Some(step.and_then(|step| replay(&mut self.machine, step)))
    }
}

fn replay(machine: &mut Core, step: StepInFile) -> Result<ReplayedStep, RecordingError> {
    let StepInFile { number, at, event, commands: recorded } = step;
    let commands = machine.step(at, event.clone());
    let replayed: Result<Vec<Value>, _> = commands.iter().map(serde_json::to_value).collect();
    let replayed = replayed.map_err(|source| RecordingError::Commands { step: number, source })?;
    Ok(ReplayedStep { number, at, difference: Difference::find(&recorded, &replayed), event, commands })
}
