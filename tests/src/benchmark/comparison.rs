//! What has changed since the recorded run.

use std::fmt;

use super::figure::{Figure, ratio_text};
use super::run::Run;

/// A figure that differs from the recorded one by more than the margin.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    figure: Figure,
    recorded: Figure,
    /// How many times as bad as the recorded one, or as good.
    times: f64,
    margin: f64,
}

/// A run beside the recorded one.
#[derive(Debug, Default)]
pub struct Comparison {
    /// Figures that got worse.
    pub worse: Vec<Change>,
    /// Figures that improved.
    pub better: Vec<Change>,
    /// How many are within the margin.
    pub unchanged: usize,
    /// The ids of figures that the record lacks.
    pub unrecorded: Vec<String>,
    /// The ids of recorded figures that this run did not measure.
    pub unmeasured: Vec<String>,
    /// The ids of figures with nothing beside them, which say nothing on another machine.
    pub incomparable: Vec<String>,
}

impl Comparison {
    /// Compares a run with the recorded one. A figure has its own margin, and both runs' noise
    /// widens it.
    pub fn new(run: &Run, recorded: &Run) -> Self {
        let same_machine = (&run.machine.cpu, run.machine.processors)
            == (&recorded.machine.cpu, recorded.machine.processors)
            && run.release == recorded.release;
        let mut comparison = Self::default();
        for figure in &run.figures {
            let Some(then) = recorded.figure(figure.id()) else {
                comparison.unrecorded.push(figure.id().to_owned());
                continue;
            };
            let Some(times) = figure.times_worse_than(then, same_machine) else {
                comparison.incomparable.push(figure.id().to_owned());
                continue;
            };
            let margin = figure.margin() + run.noise.max(recorded.noise);
            let change = |times: f64| Change { figure: figure.clone(), recorded: then.clone(), times, margin };
            if times > 1.0 + margin {
                comparison.worse.push(change(times));
            } else if 1.0 / times > 1.0 + margin {
                comparison.better.push(change(1.0 / times));
            } else {
                comparison.unchanged += 1;
            }
        }
        let gone = recorded.figures.iter().filter(|then| run.figure(then.id()).is_none());
        comparison.unmeasured = gone.map(|then| then.id().to_owned()).collect();
        comparison
    }
}

fn shown(figure: &Figure) -> String {
    match figure.bare() {
        None => figure.measured().to_string(),
        Some((bare, _)) => format!("{} ({} {})", figure.measured(), ratio_text(bare.ratio), bare.what),
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (figure, recorded) = (&self.figure, &self.recorded);
        write!(
            f,
            "{}: {} after {}: {:.2} times, margin {:.0} %",
            figure.id(),
            shown(figure),
            shown(recorded),
            self.times,
            100.0 * self.margin
        )
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for change in &self.worse {
            writeln!(f, "WORSE   {change}")?;
        }
        for change in &self.better {
            writeln!(f, "better  {change}")?;
        }
        writeln!(f, "Within their margins: {}.", self.unchanged)?;
        for (ids, why) in [
            (&self.unrecorded, "Not in the record"),
            (&self.unmeasured, "Recorded, but not measured in this run"),
            (&self.incomparable, "Not compared, since the machine is another and nothing is beside them"),
        ] {
            if !ids.is_empty() {
                writeln!(f, "{why}: {}.", ids.join(", "))?;
            }
        }
        Ok(())
    }
}
