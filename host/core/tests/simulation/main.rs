//! Random pods, faults and crashes under virtual time, against a model of the real world. After
//! every step the rules of the design are checked; when faults stop, the world has to become what
//! is desired.
//!
//! A failing seed is printed with a short trace of what breaks. `VOLHOST_SIM_SEED=n` runs that seed
//! alone; `VOLHOST_SIM_STEPS=n` sets the number of steps in all.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    unreachable_pub,
    reason = "tests may panic"
)]

mod action;
mod brief;
mod converge;
mod crash;
mod due;
mod happen;
mod kinds;
mod life;
mod machine;
mod mutants;
mod outside;
mod random;
mod rules;
mod shrink;
mod sim;
mod speech;
mod start_rules;
mod state_rules;
mod world;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex};
use std::thread;
use std::time::Instant;

use volhost_core_mutants::Mutation;

use kinds::Catalog;
use rules::Rule;
use shrink::shrink;
use sim::{Settings, Sim, script};

/// Actions of one seed: long enough for several crashes, short enough to be shrunk.
const ACTIONS_A_SEED: usize = 500;
/// Steps in all, when nothing else is asked for.
const STEPS: u64 = 10_000_000;
/// A broken rule has to be noticed within this many steps.
const STEPS_A_MUTANT: u64 = 1_000_000;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable)
        .ok()
        .map(|text| text.parse().unwrap_or_else(|_| panic!("{variable} is not a number: {text}")))
}

/// Seed after seed, on every processor, until one fails or the steps are done.
struct Campaign {
    mutation: Option<Mutation>,
    /// Only this rule counts; all do otherwise.
    rule: Option<Rule>,
    steps: u64,
}

/// The result of a campaign.
struct Findings {
    /// The first seed that failed.
    failed: Option<u64>,
    steps: u64,
    /// Operations with their ends, and what else a run should meet.
    met: BTreeSet<(&'static str, &'static str)>,
}

/// The long campaign, run once for all tests that look at it.
static LONG: LazyLock<Findings> = LazyLock::new(|| {
    let begun = Instant::now();
    let steps = number("VOLHOST_SIM_STEPS").unwrap_or(STEPS);
    let findings = Campaign { mutation: None, rule: None, steps }.run();
    eprintln!("{} steps in {:?}", findings.steps, begun.elapsed());
    findings
});

impl Campaign {
    fn run(&self) -> Findings {
        let (next, steps, failed) = (AtomicU64::new(1), AtomicU64::new(0), AtomicU64::new(u64::MAX));
        let met = Mutex::new(BTreeSet::new());
        let work = || {
            let catalog = Catalog::new();
            while steps.load(Ordering::Relaxed) < self.steps {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                // The lowest failing seed counts, so that the answer is the same however many work.
                if seed > failed.load(Ordering::Relaxed) {
                    return;
                }
                let (settings, actions) = script(seed, ACTIONS_A_SEED, self.mutation);
                let mut sim = Sim::new(&catalog, settings);
                let result = sim.run(&actions);
                steps.fetch_add(sim.steps, Ordering::Relaxed);
                met.lock().unwrap().append(&mut sim.met);
                if result.is_err_and(|broken| self.rule.is_none_or(|rule| rule == broken.rule)) {
                    failed.fetch_min(seed, Ordering::Relaxed);
                }
            }
        };
        let workers = thread::available_parallelism().map_or(1, usize::from);
        thread::scope(|scope| (0..workers).for_each(|_| drop(scope.spawn(work))));
        let failed = Some(failed.into_inner()).filter(|seed| *seed != u64::MAX);
        Findings { failed, steps: steps.into_inner(), met: met.into_inner().unwrap() }
    }
}

/// Runs one seed.
///
/// # Errors
/// A short trace of how it fails.
fn run_seed(seed: u64, mutation: Option<Mutation>) -> Result<(), String> {
    let catalog = Catalog::new();
    let (settings, actions) = script(seed, ACTIONS_A_SEED, mutation);
    let Some(short) = shrink(&catalog, settings, &actions) else {
        return Ok(());
    };
    let who = if settings.host_attaches { "the host attaches" } else { "a controller attaches" };
    Err(format!(
        "seed {seed}, {who}, {} of {} actions:\n{}\nagain: VOLHOST_SIM_SEED={seed} cargo test -p volhost-core --test simulation",
        short.actions.len(),
        actions.len(),
        short.trace
    ))
}

#[test]
fn the_rules_hold_in_every_run() {
    if let Some(seed) = number("VOLHOST_SIM_SEED") {
        run_seed(seed, None).unwrap_or_else(|failure| panic!("{failure}"));
        return;
    }
    if let Some(seed) = LONG.failed {
        run_seed(seed, None).unwrap_or_else(|failure| panic!("{failure}"));
        panic!("seed {seed} failed, and does not fail again");
    }
}

#[test]
fn a_run_is_the_same_every_time() {
    let catalog = Catalog::new();
    let (settings, actions) = script(7, ACTIONS_A_SEED, None);
    let trace = || {
        let mut sim = Sim::new(&catalog, Settings { traced: true, ..settings });
        sim.run(&actions).unwrap_or_else(|broken| panic!("{broken:?}"));
        (sim.steps, sim.trace())
    };
    assert_eq!(trace(), trace());
}

/// The ends that every operation has to meet.
const ENDS: [&str; 7] = ["done", "final", "uncertain", "transient", "lie", "overdue", "crash"];
const OPERATIONS: [&str; 10] = [
    "volume_attach",
    "volume_detach",
    "verify_controller_attached_volume",
    "volume_mount",
    "volume_unmount",
    "unmount_device",
    "map_volume",
    "unmap_volume",
    "unmap_device",
    "volume_fs_resize",
];
const ELSE: [(&str, &str); 21] = [
    ("recovered", "complete"),
    ("recovered", "broken"),
    ("recovered", "recorded"),
    ("recovered", "unrecorded"),
    ("recovered", "staged"),
    ("recovered", "attached"),
    ("wait for mounts", "yes"),
    ("wait for mounts", "too late"),
    ("wait for mounts", "in vain"),
    ("wait for unmounts", "yes"),
    ("wait for unmounts", "too late"),
    ("hindered by", "another pod"),
    ("hindered by", "a limit"),
    ("attached", "on_other_node"),
    ("waits for", "what it is made of"),
    ("vanished", "while it was mounted"),
    ("vanished", "while it changed"),
    ("device vanished", "while it was mounted"),
    ("device vanished", "while it changed"),
    ("not attached", "rightly"),
    ("not attached", "wrongly"),
];

#[test]
fn every_operation_meets_every_end_and_recovery_every_remainder() {
    let all = OPERATIONS.iter().flat_map(|operation| ENDS.iter().map(move |end| (*operation, *end))).chain(ELSE);
    let missed: Vec<_> = all.filter(|what| !LONG.met.contains(what)).collect();
    assert!(missed.is_empty(), "no run has met {missed:?}");
}

#[test]
fn a_failing_run_is_shrunk_and_described() {
    let campaign = Campaign {
        mutation: Some(Mutation::ForgetUncertain),
        rule: Some(Rule::NothingForgotten),
        steps: STEPS_A_MUTANT,
    };
    let seed = campaign.run().failed.unwrap();
    let catalog = Catalog::new();
    let (settings, actions) = script(seed, ACTIONS_A_SEED, Some(Mutation::ForgetUncertain));
    let short = shrink(&catalog, settings, &actions).unwrap();
    assert_eq!(short.broken.rule, Rule::NothingForgotten);
    // A pod wants a volume, its mount ends without an answer: perhaps an attachment before, and a
    // moment for what comes late.
    assert!(short.actions.len() <= 6, "{}", short.trace);
    assert!(short.trace.contains("is wanted with") && short.trace.contains("fails, uncertain"), "{}", short.trace);
    assert!(short.trace.ends_with("and the machine does not know"), "{}", short.trace);
    eprintln!("{} of {} actions:\n{}", short.actions.len(), actions.len(), short.trace);
}
