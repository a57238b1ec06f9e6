//! One run of a driver.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use volhost_kernel::program::{Ended, Overflow, RunBounds};
use volhost_model::driver_programs::{DriverError, DriverOutcome};

use super::sandbox::DriverPolicy;
use super::{Known, answer};

/// What drivers find in their environment, and all that they find there.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// The most that a driver may write, in bytes: its answer has a few hundred.
const OUTPUT_BYTES: usize = 256 << 10;
/// How much of what a driver wrote a message shows, in characters.
const SHOWN_CHARS: usize = 300;

/// Lets so many runs of a driver through at once.
#[derive(Debug)]
pub(super) struct Gate {
    free: Mutex<usize>,
    freed: Condvar,
}

/// A run that was let through.
struct Passed<'a>(&'a Gate);

impl Gate {
    pub(super) fn new(width: usize) -> Self {
        Self { free: Mutex::new(width), freed: Condvar::new() }
    }

    /// Waits for its turn, at most this long.
    fn pass(&self, patience: Duration) -> Option<Passed<'_>> {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut free, _) =
            self.freed.wait_timeout_while(free, patience, |free| *free == 0).unwrap_or_else(PoisonError::into_inner);
        *free = free.checked_sub(1)?;
        Some(Passed(self))
    }
}

impl Drop for Passed<'_> {
    fn drop(&mut self) {
        *self.0.free.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.0.freed.notify_one();
    }
}

/// Runs a driver. Nothing here says what its arguments are: they may hold secrets.
///
/// # Errors
/// [`DriverError`].
pub(super) fn run(
    name: &str,
    known: &Known,
    policy: &DriverPolicy,
    arguments: &[String],
    deadline: Duration,
) -> Result<DriverOutcome, DriverError> {
    let deadline = deadline.min(policy.deadline());
    let begun = Instant::now();
    let _passed = known.gate.pass(deadline).ok_or_else(|| {
        DriverError::NotReady(format!(
            "{} runs of FlexVolume driver {name} take all its time, and this one had to wait for more than {} s",
            policy.concurrency(),
            deadline.as_secs_f32()
        ))
    })?;
    let program = policy.confined(&known.program, arguments).variable("PATH", PATH);
    let deadline_left = deadline.saturating_sub(begun.elapsed());
    let bounds = RunBounds { deadline: deadline_left, output_bytes: OUTPUT_BYTES, overflow: Overflow::Killed };
    let ran = program.run(bounds).map_err(|error| {
        DriverError::NotReady(format!(
            "FlexVolume driver {name} could not be run: {}: {error}",
            known.program.display()
        ))
    })?;
    let call = arguments.first().map(String::as_str).unwrap_or_default();
    let (answer, words) = answer::of(&ran.stdout, &ran.stderr);
    let killed = |why: String| {
        let shown: String = words.chars().take(SHOWN_CHARS).collect();
        let wrote = if shown.is_empty() { String::new() } else { format!("; it had written: {shown}") };
        DriverError::Uncertain(format!(
            "FlexVolume driver {name} {why} in {call} and was killed with its children{wrote}"
        ))
    };
    match ran.ended {
        Ended::ByItself(status) => Ok(DriverOutcome { exit_code: status.code(), answer, words }),
        Ended::AtDeadline => Err(killed(format!("took more than {} s", deadline.as_secs_f32()))),
        Ended::WroteTooMuch => Err(killed(format!("wrote more than {} KiB", OUTPUT_BYTES >> 10))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gate_lets_through_what_it_is_wide_enough_for() {
        let gate = Gate::new(2);
        let first = gate.pass(Duration::ZERO).unwrap();
        let _second = gate.pass(Duration::ZERO).unwrap();
        assert!(gate.pass(Duration::ZERO).is_none());
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| gate.pass(Duration::from_secs(60)).is_some());
            drop(first);
            assert!(waiting.join().unwrap());
        });
    }
}
