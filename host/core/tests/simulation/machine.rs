//! The machine under test, and a copy of it that shows its private state.
//!
//! A rule of the copy can be broken. While none is, the original takes every step of many runs too
//! and has to answer the same, so that results about the copy are valid for the original. From time
//! to time it takes an event as it is read from a recording, and is made anew from its own image: so
//! a recording is valid for the machine that was recorded.

use std::ops::Deref;

use serde::Serialize;
use serde::de::DeserializeOwned;
use volhost_core::{Config, Core, CoreCommand, Event, Time};
use volhost_core_mutants as copy;

use crate::sim::Settings;

/// The original takes one of so many events as it is read again, and is made anew after so many
/// steps: writing costs more than a step.
const STEPS_OF_A_WRITTEN_EVENT: u32 = 8;
const STEPS_OF_AN_IMAGE: u32 = 40;

pub struct Machine {
    /// None while a rule of the copy is broken, and where the copy is taken at its word.
    original: Option<Core>,
    copy: copy::Core,
    steps: u32,
}

impl Machine {
    /// A machine that knows of no pod and no volume. A thread runs one machine at a time.
    pub fn new(config: Config, settings: &Settings) -> Self {
        copy::choose(settings.mutation);
        let original = settings.compared && settings.mutation.is_none();
        Self { original: original.then(|| Core::new(config)), copy: copy::Core::new(config), steps: 0 }
    }

    pub fn step(&mut self, now: Time, event: Event) -> Vec<CoreCommand> {
        let Some(original) = &mut self.original else {
            return self.copy.step(now, event);
        };
        self.steps += 1;
        if self.steps.is_multiple_of(STEPS_OF_AN_IMAGE) {
            *original = Core::from_image(as_written(&original.image()));
        }
        let is_written = self.steps.is_multiple_of(STEPS_OF_A_WRITTEN_EVENT);
        let told = if is_written { as_written(&event) } else { event.clone() };
        let expected = original.step(now, told);
        let commands = self.copy.step(now, event);
        assert_eq!(commands, expected, "the copy does not answer what the original answers");
        commands
    }
}

/// The value as it is read again after it was written.
fn as_written<T: Serialize + DeserializeOwned>(value: &T) -> T {
    serde_json::from_str(&serde_json::to_string(value).unwrap()).unwrap()
}

/// Checks that the machine and its copy show the same.
impl Deref for Machine {
    type Target = copy::Core;

    fn deref(&self) -> &copy::Core {
        &self.copy
    }
}
