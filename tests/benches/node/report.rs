//! The figures of this run as they come, and times of one operation.

use std::time::Duration;

use volhost_tests::benchmark::{Figure, Measured};

use crate::daemon::Memory;

/// Collects the figures of a run.
#[derive(Debug, Default)]
pub(crate) struct Report {
    figures: Vec<Figure>,
}

/// The durations of one operation, sorted.
#[derive(Debug)]
pub(crate) struct Times(Vec<Duration>);

impl Times {
    /// Sorts the times.
    pub(crate) fn new(mut times: Vec<Duration>) -> Self {
        assert!(!times.is_empty(), "nothing was timed");
        times.sort_unstable();
        Self(times)
    }

    /// The time that this share of all is at most.
    fn quantile(&self, share: f64) -> Duration {
        let last = self.0.len() - 1;
        self.0[((last as f64) * share).round() as usize]
    }

    /// The middle one.
    pub(crate) fn median(&self) -> Duration {
        self.quantile(0.5)
    }

    /// The time that 99 of a hundred are at most.
    pub(crate) fn p99(&self) -> Duration {
        self.quantile(0.99)
    }
}

impl Report {
    /// Adds a figure.
    pub(crate) fn add(&mut self, figure: Figure) {
        let is_new = self.figures.iter().all(|known| known.id() != figure.id());
        assert!(is_new, "there are two figures {}", figure.id());
        let beside = figure.bare().map(|(bare, value)| format!(" ({} {value})", bare.what)).unwrap_or_default();
        eprintln!("{}: {}{beside}", figure.id(), figure.measured());
        self.figures.push(figure);
    }

    /// Adds the middle one of these times, as the figure `id`, and the 99th of a hundred, as
    /// `id-p99`.
    pub(crate) fn add_times(&mut self, id: &str, what: &str, times: &Times) {
        self.add(Figure::new(id, what, times.median()));
        self.add(tail(id, what, times.p99()));
    }

    /// Adds the resident memory as the figure `id`, and the part that only the process has as
    /// `id-own`.
    pub(crate) fn add_memory(&mut self, id: &str, what: &str, memory: Memory, aim: Option<f64>) {
        let figure = Figure::new(id, what, Measured::mebibytes(memory.resident));
        self.add(match aim {
            Some(most) => figure.aim(Measured::mebibytes(most)),
            None => figure,
        });
        let what = "of it the program's own: heap and stacks";
        self.add(Figure::new(format!("{id}-own"), what, Measured::mebibytes(memory.own)));
    }

    /// A figure that was added before.
    pub(crate) fn value_of(&self, id: &str) -> Option<Measured> {
        self.figures.iter().find(|figure| figure.id() == id).map(Figure::measured)
    }

    /// The figures, in the order in which they came.
    pub(crate) fn into_figures(self) -> Vec<Figure> {
        self.figures
    }
}

/// What 99 of a hundred take at most, as the figure `id-p99`.
pub(crate) fn tail(id: &str, what: &str, p99: impl Into<Measured>) -> Figure {
    Figure::new(format!("{id}-p99"), format!("{what}, p99"), p99).with_tail_margin()
}
