//! The lists as cells.

use std::time::Duration;

use volhost_model::view::OperationView;

use super::super::columns::state;
use super::super::format::{age, size, took, until};
use super::super::usage;
use super::board::Board;
use volhost_table::{Cell, Colour};

/// From this percentage on a volume is shown as nearly full.
const NEARLY_FULL: u64 = 90;

/// Columns of the operations.
pub(super) const OPERATIONS: &[&str] = &["OPERATION", "VOLUME", "POD", "PLUGIN", "AGE", "STATE", "STEP"];
/// Columns of the latencies.
pub(super) const LATENCIES: &[&str] = &["PLUGIN", "OPERATION", "ENDED", "FAILED", "MEAN", "P50", "P99"];
/// Columns of the volumes in trouble.
pub(super) const TROUBLES: &[&str] = &["VOLUME", "POD", "STATE", "AGE", "FAILURES", "RETRY IN", "CAUSE"];

/// Columns of the fullest volumes.
pub(super) const FULLEST: &[&str] = &["VOLUME", "POD", "CAPACITY", "USED", "AVAILABLE", "INODES", "STORAGE"];

/// The operations that run or wait.
pub(super) fn operations(board: &Board, now: u64) -> Vec<Vec<Cell>> {
    let row = |operation: &OperationView| {
        let (word, colour) = match (operation.running, operation.overdue) {
            (true, true) => ("Overdue", Colour::Red),
            (true, false) => ("Running", Colour::Green),
            (false, _) => ("Waiting", Colour::Yellow),
        };
        let step = if operation.running {
            operation.step.clone()
        } else {
            format!("tries again: {}", until(operation.retry_at, now))
        };
        vec![
            Cell::new(&operation.name),
            Cell::new(&operation.volume),
            Cell::new(&operation.pod),
            Cell::new(&operation.plugin),
            Cell::new(age(operation.since, now)),
            Cell::coloured(word, Some(colour)),
            Cell::new(step),
        ]
    };
    board.operations.iter().map(row).collect()
}

/// How long operations took.
pub(super) fn latencies(board: &Board) -> Vec<Vec<Cell>> {
    let row = |latency: &super::latency::Latency| {
        let failed = Some(Colour::Red).filter(|_| latency.failed > 0);
        vec![
            Cell::new(&latency.plugin),
            Cell::new(&latency.operation),
            Cell::new(latency.ended.to_string()),
            Cell::coloured(latency.failed.to_string(), failed),
            Cell::new(seconds(latency.mean)),
            Cell::new(seconds(latency.p50)),
            Cell::new(seconds(latency.p99)),
        ]
    };
    board.latencies.iter().map(row).collect()
}

/// The volumes in trouble, with the cause.
pub(super) fn troubles(board: &Board, now: u64) -> Vec<Vec<Cell>> {
    let row = |volume: &volhost_model::view::VolumeView| {
        let (word, colour) = state(volume.state);
        vec![
            Cell::new(if volume.name.is_empty() { &volume.spec_name } else { &volume.name }),
            Cell::new(&volume.pod),
            Cell::coloured(word, colour),
            Cell::new(age(volume.since, now)),
            Cell::new(volume.failures.to_string()),
            Cell::new(until(volume.retry_at, now)),
            Cell::new(volume.failure.as_ref().map(ToString::to_string).unwrap_or_default()),
        ]
    };
    board.troubles.iter().map(row).collect()
}

/// The fullest volumes, and those whose storage does not answer.
pub(super) fn fullest(board: &Board, now: u64) -> Vec<Vec<Cell>> {
    let row = |volume: &volhost_model::view::VolumeView| {
        let usage = volume.usage.clone().unwrap_or_default();
        let full = usage::percent(&usage).filter(|percent| *percent >= NEARLY_FULL).map(|_| Colour::Yellow);
        vec![
            Cell::new(if volume.name.is_empty() { &volume.spec_name } else { &volume.name }),
            Cell::new(&volume.pod),
            Cell::new(usage.capacity.map(size).unwrap_or_default()),
            Cell::coloured(usage::used(&usage), full),
            Cell::new(usage.available.map(size).unwrap_or_default()),
            Cell::new(usage.inodes_used.map(|used| used.to_string()).unwrap_or_default()),
            Cell::coloured(usage::trouble(&usage, now).unwrap_or_default(), Some(Colour::Red)),
        ]
    };
    board.fullest.iter().map(row).collect()
}

fn seconds(seconds: f64) -> String {
    let micros = Duration::try_from_secs_f64(seconds).map_or(0, |duration| duration.as_micros());
    took(0, Some(u64::try_from(micros).unwrap_or(u64::MAX)))
}
