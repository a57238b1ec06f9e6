//! One run of a driver.

use std::path::Path;
use std::time::{Duration, Instant};

use volhost_model::driver_programs::{DriverError, DriverOutcome};
use volhost_process::{Overflow, RunBounds, RunEnd, RunError};

use crate::answer;
use crate::concurrency::ConcurrencyLimit;
use crate::policy::DriverPolicy;

/// The only variable of a driver's environment.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// The most that a driver may write, in bytes: an answer has a few hundred.
const OUTPUT_BYTES: usize = 256 << 10;
/// How much of a driver's output a message shows, in characters.
const SHOWN_CHARS: usize = 300;

/// Runs a driver. Arguments may hold secrets: no message names one but the first, which is the
/// call.
///
/// # Errors
/// [`DriverError`].
pub(crate) fn run(
    name: &str,
    path: &Path,
    limit: &ConcurrencyLimit,
    policy: &DriverPolicy,
    arguments: &[String],
    deadline: Duration,
) -> Result<DriverOutcome, DriverError> {
    let deadline = deadline.min(policy.deadline());
    let begun = Instant::now();
    let _permit = limit.acquire(deadline).ok_or_else(|| {
        DriverError::NotReady(format!(
            "{} runs of FlexVolume driver {name} take all its time, and this one had to wait for more than {} s",
            policy.concurrency(),
            deadline.as_secs_f32()
        ))
    })?;
    let call = arguments.first().map(String::as_str).unwrap_or_default();
    let (program, input) = policy.program(path, arguments, ("PATH", PATH));
    let deadline_left = deadline.saturating_sub(begun.elapsed());
    let bounds = RunBounds::new(deadline_left, Overflow::Killed { after: OUTPUT_BYTES });
    let ran = program.run_with_input(bounds, &input).map_err(|error| match error {
        RunError::Start(_) => {
            DriverError::NotReady(format!("FlexVolume driver {name} could not be run: {}: {error}", path.display()))
        }
        RunError::Watch(_) => DriverError::Uncertain(format!("FlexVolume driver {name} in {call}: {error}")),
    })?;
    let (answer, words) = answer::of(&ran.stdout, &ran.stderr);
    let killed = |why: String| {
        let shown: String = words.chars().take(SHOWN_CHARS).collect();
        let wrote = if shown.is_empty() { String::new() } else { format!("; it had written: {shown}") };
        DriverError::Uncertain(format!(
            "FlexVolume driver {name} {why} in {call} and was killed with its children{wrote}"
        ))
    };
    match ran.end {
        RunEnd::Exited(status) => Ok(DriverOutcome { exit_code: status.code(), answer, words }),
        RunEnd::TimedOut | RunEnd::Stopped => Err(killed(format!("took more than {} s", deadline.as_secs_f32()))),
        RunEnd::WroteTooMuch => Err(killed(format!("wrote more than {} KiB", OUTPUT_BYTES >> 10))),
    }
}
