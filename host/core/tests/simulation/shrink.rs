//! Makes a failing run short enough to read: leaves out what it does not need, and makes the rest
//! simpler, as long as the same rule breaks.

use crate::action::{Action, Choice, OperationEnd, Timed};
use crate::kinds::Catalog;
use crate::rules::{Broken, Rule};
use crate::sim::{Settings, Sim};

/// Runs spent on it at most, so that a long run does not take minutes.
const RUNS: u32 = 20_000;

/// A failing run, made short.
pub struct Short {
    pub actions: Vec<Timed>,
    pub broken: Broken,
    /// Its events, commands and what broke.
    pub trace: String,
}

struct Shrinker<'a> {
    catalog: &'a Catalog,
    settings: Settings,
    rule: Rule,
    left: u32,
}

impl Shrinker<'_> {
    fn fails(&mut self, actions: &[Timed]) -> bool {
        self.left = self.left.saturating_sub(1);
        let mut sim = Sim::new(self.catalog, self.settings);
        self.left > 0 && sim.run(actions).is_err_and(|broken| broken.rule == self.rule)
    }

    /// Leaves out pieces, large ones first.
    fn leave_out(&mut self, actions: &mut Vec<Timed>) -> bool {
        let before = actions.len();
        let mut size = before.div_ceil(2);
        while size > 0 {
            let mut at = 0;
            while at < actions.len() {
                let mut fewer = actions.clone();
                fewer.drain(at..(at + size).min(fewer.len()));
                if self.fails(&fewer) {
                    *actions = fewer;
                } else {
                    at += size;
                }
            }
            size /= 2;
        }
        actions.len() < before
    }

    /// Tries each simpler form of each action. Every form is simpler than what it replaces, so
    /// there is an end to it.
    fn simplify(&mut self, actions: &mut [Timed]) -> bool {
        let mut better = false;
        for at in 0..actions.len() {
            while let Some(simpler) = simpler(&actions[at]).into_iter().find(|form| {
                let mut other = actions.to_vec();
                other[at] = *form;
                self.fails(&other)
            }) {
                actions[at] = simpler;
                better = true;
            }
        }
        better
    }
}

fn simpler(timed: &Timed) -> Vec<Timed> {
    const PLAIN: Choice = Choice::Take { handle: 0, variant: 0, size: 0 };
    let mut forms = vec![];
    let mut push = |after: u32, action: Action| {
        if (Timed { after, action }) != *timed {
            forms.push(Timed { after, action });
        }
    };
    push(0, timed.action);
    let after = timed.after;
    match timed.action {
        Action::ReportPod { pod, choices, label } => {
            push(after, Action::ReportPod { pod, choices, label: 0 });
            for kind in 0..choices.len() {
                let mut fewer = choices;
                fewer[kind] = Choice::Keep;
                push(after, Action::ReportPod { pod, choices: fewer, label });
                if matches!(choices[kind], Choice::Take { .. } | Choice::Unresolve(_)) {
                    fewer[kind] = PLAIN;
                    push(after, Action::ReportPod { pod, choices: fewer, label });
                }
            }
        }
        Action::End { pick, fate, luck } => {
            push(after, Action::End { pick: 0, fate, luck });
            push(after, Action::End { pick, fate, luck: 0 });
            push(after, Action::End { pick, fate: OperationEnd::Done, luck });
        }
        Action::Jump { seconds, .. } => push(after, Action::Pass { micros: u32::from(seconds) * 1_000_000 }),
        Action::Crash { .. } => push(after, Action::Crash { luck: 0 }),
        _ => {}
    }
    forms
}

/// Makes a failing run short. None when it does not fail.
pub fn shrink(catalog: &Catalog, settings: Settings, actions: &[Timed]) -> Option<Short> {
    let first = Sim::new(catalog, settings).run(actions).err()?;
    let mut shrinker = Shrinker { catalog, settings, rule: first.rule, left: RUNS };
    let mut actions = actions.to_vec();
    while shrinker.leave_out(&mut actions) | shrinker.simplify(&mut actions) {}
    let mut sim = Sim::new(catalog, Settings { traced: true, ..settings });
    let broken = sim.run(&actions).err()?;
    let trace = format!("{}=> {:?} is broken: {}", sim.trace(), broken.rule, broken.what);
    Some(Short { actions, broken, trace })
}
