//! The figures, and how they are printed.

use std::time::Duration;

/// Collects lines of a Markdown table.
#[derive(Debug)]
pub(crate) struct Report {
    lines: Vec<[String; 3]>,
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
    pub(crate) fn quantile(&self, share: f64) -> Duration {
        let last = self.0.len() - 1;
        self.0[((last as f64) * share).round() as usize]
    }

    /// The middle one.
    pub(crate) fn median(&self) -> Duration {
        self.quantile(0.5)
    }
}

impl Report {
    /// An empty report.
    pub(crate) fn new() -> Self {
        Self { lines: Vec::new() }
    }

    /// Adds a figure; `beside` is what it is compared with.
    pub(crate) fn add(&mut self, what: impl Into<String>, figure: impl Into<String>, beside: impl Into<String>) {
        let line = [what.into(), figure.into(), beside.into()];
        eprintln!("{}: {} ({})", line[0], line[1], line[2]);
        self.lines.push(line);
    }

    /// Prints the table.
    pub(crate) fn print(&self) {
        println!("\n| what | figure | beside it |\n|---|---|---|");
        for [what, figure, beside] in &self.lines {
            println!("| {what} | {figure} | {beside} |");
        }
    }
}

/// Microseconds, for people.
pub(crate) fn us(time: Duration) -> String {
    let us = time.as_secs_f64() * 1e6;
    if us < 10.0 {
        format!("{us:.2} us")
    } else if us < 10_000.0 {
        format!("{us:.0} us")
    } else {
        format!("{:.1} ms", us / 1e3)
    }
}
