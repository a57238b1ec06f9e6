//! The state machine of `volhost-core` for its simulation: the same source, compiled once more,
//! with a [`probe`] into its private state and a switch for each [`Mutation`] that breaks a rule on
//! purpose.
//!
//! The build script copies the source, so the program itself contains neither. With no mutation
//! chosen the copy does what the original does; the simulation runs both and compares every answer.
//! The modules of events and commands are the original's.
//!
//! To add a mutant, add it to `mutants.rs` with the place in the source that it breaks. A mutant
//! whose place is gone is listed in [`NOT_APPLIED`], which fails the simulation.
#![forbid(unsafe_code)]
#![allow(clippy::all, dead_code, unused_parens, reason = "generated from code that is linted where it is written")]

use std::cell::Cell;

pub mod probe;

include!(concat!(env!("OUT_DIR"), "/core/lib.rs"));
include!(concat!(env!("OUT_DIR"), "/mutation.rs"));

thread_local! {
    static CHOSEN: Cell<Option<Mutation>> = const { Cell::new(None) };
}

/// Chooses the rule that is broken in every machine of this thread from now on.
pub fn choose(mutation: Option<Mutation>) {
    CHOSEN.set(mutation);
}

/// Returns whether this rule is broken on this thread.
fn is_broken(mutation: Mutation) -> bool {
    CHOSEN.get() == Some(mutation)
}
