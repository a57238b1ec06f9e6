//! Random pods, faults and crashes under virtual time, against a model of the real world. After every step the rules of the design
//! are checked; when faults stop, the world has to become what is desired.
//!
//! `VOLHOST_SIM_SEED=n` runs one seed and prints its trace when it fails; `VOLHOST_SIM_STEPS=n` sets the number of steps in all.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    unreachable_pub,
    reason = "tests may panic"
)]

mod brief;
mod check;
mod converge;
mod crash;
mod random;
mod sim;
mod truth;
mod volumes;

use sim::{Settings, Sim};
use volhost_core::config::Mutation;

/// Steps of one seed: long enough for several crashes, short enough for a readable trace.
const STEPS_A_SEED: u64 = 400;
/// Steps in all, when nothing else is asked for.
const STEPS: u64 = 200_000;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable)
        .ok()
        .map(|text| text.parse().unwrap_or_else(|_| panic!("{variable} is not a number: {text}")))
}

fn run(seed: u64, steps: u64, mutation: Option<Mutation>) -> Result<(), String> {
    Sim::new(Settings { seed, steps, mutation }).run()
}

#[test]
fn the_rules_hold_whatever_happens() {
    if let Some(seed) = number("VOLHOST_SIM_SEED") {
        let steps = number("VOLHOST_SIM_STEPS").unwrap_or(STEPS_A_SEED);
        run(seed, steps, None).unwrap_or_else(|failure| panic!("{failure}"));
        return;
    }
    let seeds = number("VOLHOST_SIM_STEPS").unwrap_or(STEPS).div_ceil(STEPS_A_SEED);
    for seed in 1..=seeds {
        if let Err(failure) = run(seed, STEPS_A_SEED, None) {
            panic!("{failure}\nagain: VOLHOST_SIM_SEED={seed} cargo test -p volhost-core --test simulation");
        }
    }
}

/// Seeds that once failed, by what they found.
fn regression(seed: u64) {
    run(seed, STEPS_A_SEED, None).unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
fn what_a_failed_unmount_has_touched_is_not_taken_over() {
    regression(16);
}

#[test]
fn an_unresolved_volume_whose_source_changed_is_refreshed_once_it_is_resolved() {
    regression(415);
}

/// A broken rule has to be noticed within this many seeds.
const SEEDS_A_MUTANT: u64 = 150;

fn is_noticed(mutation: Mutation, by: &str) {
    let mut failures = (1..=SEEDS_A_MUTANT).filter_map(|seed| run(seed, STEPS_A_SEED, Some(mutation)).err());
    assert!(failures.any(|failure| failure.contains(by)), "nobody noticed {mutation:?} as {by}");
}

#[test]
fn a_forgotten_uncertain_mount_is_noticed() {
    is_noticed(Mutation::ForgetUncertain, "R1");
}

#[test]
fn taking_away_what_was_recovered_too_early_is_noticed() {
    is_noticed(Mutation::UnmountBeforeSynced, "R2");
}

#[test]
fn two_operations_on_one_key_are_noticed() {
    is_noticed(Mutation::IgnoreKeys, "R3 key");
}

#[test]
fn a_retry_without_a_wait_is_noticed() {
    is_noticed(Mutation::IgnoreBackoff, "R3 back-off");
}

#[test]
fn a_device_unmounted_under_a_pod_is_noticed() {
    is_noticed(Mutation::DeviceBeforePod, "device");
}
