//! The figures, as a Markdown table and as JSON.

use std::time::Duration;

use serde_json::{Value, json};

use crate::side::Side;

/// One figure of one side.
#[derive(Debug, Clone, Copy)]
struct Figure {
    side: Side,
    median: f64,
    /// None where there is one value alone.
    p99: Option<f64>,
}

/// One line: the same of two or three sides.
#[derive(Debug)]
struct Line {
    what: String,
    unit: &'static str,
    figures: Vec<Figure>,
}

/// Collects the figures.
#[derive(Debug)]
pub(crate) struct Report(Vec<Line>);

impl Report {
    /// An empty report.
    pub(crate) fn new() -> Self {
        Self(Vec::new())
    }

    /// Adds the times of all sides.
    pub(crate) fn add_times(&mut self, what: &str, times: [Vec<Duration>; 3]) {
        self.add(what, "ms", Side::ALL.into_iter().zip(times).map(|(side, times)| of_times(side, times)).collect());
    }

    /// Adds the times of both nodes.
    pub(crate) fn add_node_times(&mut self, what: &str, times: [Vec<Duration>; 2]) {
        self.add(what, "ms", Side::NODES.into_iter().zip(times).map(|(side, times)| of_times(side, times)).collect());
    }

    /// Adds one value of each node.
    pub(crate) fn add_nodes(&mut self, what: &str, unit: &'static str, values: &[f64]) {
        let figures = Side::NODES.into_iter().zip(values);
        self.add(what, unit, figures.map(|(side, value)| Figure { side, median: *value, p99: None }).collect());
    }

    fn add(&mut self, what: &str, unit: &'static str, figures: Vec<Figure>) {
        let line = Line { what: what.to_owned(), unit, figures };
        eprintln!("{}", line.row());
        self.0.push(line);
    }

    /// Prints the table.
    pub(crate) fn print(&self) {
        let titles = Side::ALL.map(Side::title).join(" | ");
        println!("\n| what: median, p99 | {titles} |\n|---|---|---|---|");
        for line in &self.0 {
            println!("{}", line.row());
        }
    }

    /// The figures as JSON: milliseconds, percent or MiB.
    pub(crate) fn json(&self) -> String {
        let figure = |figure: &Figure, first: f64| {
            let ratio = first / figure.median;
            json!({ "median": figure.median, "p99": figure.p99, "timesBetterThanKubelet": ratio })
        };
        let lines = self.0.iter().map(|line| {
            let first = line.figures[0].median;
            let sides = line.figures.iter().map(|one| (one.side.word().to_owned(), figure(one, first)));
            json!({ "what": line.what, "unit": line.unit, "sides": Value::Object(sides.collect()) })
        });
        format!("{:#}\n", Value::Array(lines.collect()))
    }
}

impl Line {
    /// The line as a row of the table. A ratio above 1: better than the stock kubelet.
    fn row(&self) -> String {
        let first = self.figures[0].median;
        let cells = Side::ALL.map(|side| {
            let Some(figure) = self.figures.iter().find(|figure| figure.side == side) else { return String::new() };
            let p99 = figure.p99.map_or_else(String::new, |p99| format!(", {}", shown(p99)));
            let ratio =
                if side == Side::Kubelet { String::new() } else { format!(": {} x", shown(first / figure.median)) };
            format!("{}{p99} {}{ratio}", shown(figure.median), self.unit)
        });
        format!("| {} | {} |", self.what, cells.join(" | "))
    }
}

/// Three digits.
fn shown(value: f64) -> String {
    match value {
        value if value < 1.0 => format!("{value:.3}"),
        value if value < 10.0 => format!("{value:.2}"),
        value if value < 100.0 => format!("{value:.1}"),
        value => format!("{value:.0}"),
    }
}

fn of_times(side: Side, times: Vec<Duration>) -> Figure {
    let mut ms: Vec<f64> = times.into_iter().map(|time| time.as_secs_f64() * 1e3).collect();
    ms.sort_by(f64::total_cmp);
    let quantile = |share: f64| ms[((ms.len() - 1) as f64 * share).round() as usize];
    Figure { side, median: quantile(0.5), p99: (ms.len() > 1).then(|| quantile(0.99)) }
}
