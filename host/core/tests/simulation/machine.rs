//! The machine under test, and a copy of it that shows its private state.
//!
//! A rule of the copy can be broken. While none is, the original takes every step of many runs too
//! and has to answer the same, so that results about the copy are valid for the original.

use std::ops::Deref;

use volhost_core::{Config, Core, CoreCommand, Event, Time};
use volhost_core_mutants as copy;

use crate::sim::Settings;

pub struct Machine {
    /// None while a rule of the copy is broken, and where the copy is taken at its word.
    original: Option<Core>,
    copy: copy::Core,
}

impl Machine {
    /// A machine that knows of no pod and no volume. A thread runs one machine at a time.
    pub fn new(config: Config, settings: &Settings) -> Self {
        copy::choose(settings.mutation);
        let original = settings.compared && settings.mutation.is_none();
        Self { original: original.then(|| Core::new(config)), copy: copy::Core::new(config) }
    }

    pub fn step(&mut self, now: Time, event: Event) -> Vec<CoreCommand> {
        let Some(original) = &mut self.original else {
            return self.copy.step(now, event);
        };
        let expected = original.step(now, event.clone());
        let commands = self.copy.step(now, event);
        assert_eq!(commands, expected, "the copy does not answer what the original answers");
        commands
    }
}

/// Checks that the machine and its copy show the same.
impl Deref for Machine {
    type Target = copy::Core;

    fn deref(&self) -> &copy::Core {
        &self.copy
    }
}
