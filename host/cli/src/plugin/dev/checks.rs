//! The conformance suite, while the sources do not change.

use std::ops::ControlFlow;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::mpsc;
use volhost_conformance::{CaseOutcome, Report, Suite, SuiteError};

use super::sources::{SourceState, Sources};
use crate::error::CliError;
use crate::format::printable;
use crate::output::Output;

/// Ends the suite after the case that is running, when it is dropped.
struct StopSuite(Arc<AtomicBool>);

impl Drop for StopSuite {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs the suite, and prints the cases that fail as they end. Returns none if the sources changed
/// before it had ended.
///
/// # Errors
/// The inner error: the plugin could not be tested. The outer one: standard output or the sources.
pub(super) async fn run(
    suite: Suite,
    sources: &mut Sources,
    state: &SourceState,
    output: &mut Output,
) -> Result<Option<Result<Report, SuiteError>>, CliError> {
    let stop = StopSuite(Arc::default());
    let is_stopped = Arc::clone(&stop.0);
    let (ended, mut cases) = mpsc::unbounded_channel();
    let running = tokio::task::spawn_blocking(move || {
        suite.run_while(|case| {
            // The receiver is gone when the command ends.
            let _ = ended.send(case.clone());
            if is_stopped.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
    });
    let mut is_current = true;
    // One future for all cases: each begins with reading every source.
    let mut change = pin!(sources.differ_from(Some(state)));
    loop {
        tokio::select! {
            case = cases.recv() => match case {
                Some(case) if matches!(case.outcome, CaseOutcome::Failed { .. }) => {
                    for line in case.to_text().lines() {
                        output.line(&printable(line))?;
                    }
                    output.flush()?;
                }
                Some(_) => {}
                None => break,
            },
            changed = &mut change, if is_current => {
                changed?;
                is_current = false;
                stop.0.store(true, Ordering::Relaxed);
            }
        }
    }
    let report = running.await.map_err(|error| CliError::Runtime(error.into()))?;
    Ok(is_current.then_some(report))
}
