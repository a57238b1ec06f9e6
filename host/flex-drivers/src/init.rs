//! `init`: the call by which a driver reports its capabilities.

use std::time::Duration;

use serde_json::Value;
use thiserror::Error;
use volhost_model::driver_programs::{DriverAnswer, DriverError};

use crate::answer;
use crate::drivers::FlexDrivers;

/// How long a driver may take for `init`; some load kernel modules.
const INIT_TIME: Duration = Duration::from_secs(60);
/// The capabilities of a driver that does not report them, as the kubelet assumes them.
const CAPABILITIES: [(&str, bool); 5] = [
    ("attach", true),
    ("selinuxRelabel", true),
    ("supportsMetrics", false),
    ("fsGroup", true),
    ("requiresFSResize", true),
];

/// Why a driver's `init` failed.
#[derive(Debug, Error)]
pub enum InitError {
    /// The driver was not run, or did not end by itself.
    #[error(transparent)]
    Run(#[from] DriverError),
    /// It ended without an answer.
    #[error("init: it {ended} and answered nothing{wrote}")]
    NoAnswer {
        /// How it ended.
        ended: String,
        /// What else it wrote.
        wrote: String,
    },
    /// It answered that it failed.
    #[error("init: {answer}{wrote}")]
    Failure {
        /// The answer.
        answer: String,
        /// What else it wrote.
        wrote: String,
    },
    /// It answered that it succeeded, and its exit code says that it failed.
    #[error("init: it answered \"Success\" and {ended}, which cannot both be right{wrote}")]
    Contradiction {
        /// How it ended.
        ended: String,
        /// What else it wrote.
        wrote: String,
    },
}

/// Runs `init` of a driver.
///
/// # Errors
/// [`InitError`].
pub(crate) fn init(drivers: &FlexDrivers, name: &str) -> Result<DriverAnswer, InitError> {
    let outcome = drivers.run_unchecked(name, &["init".to_owned()], INIT_TIME)?;
    let wrote = if outcome.words.is_empty() { String::new() } else { format!(" ({})", outcome.words) };
    let ended =
        outcome.exit_code.map_or_else(|| "was ended by a signal".to_owned(), |code| format!("exited with {code}"));
    match outcome.answer {
        None => Err(InitError::NoAnswer { ended, wrote }),
        Some(answer) if !answer::is_success(&answer) => {
            Err(InitError::Failure { answer: answer::said(&answer), wrote })
        }
        Some(_) if outcome.exit_code != Some(0) => Err(InitError::Contradiction { ended, wrote }),
        Some(answer) => Ok(answer),
    }
}

/// The capabilities in an answer to `init`, with the kubelet's names and defaults.
pub(crate) fn capabilities(answer: &DriverAnswer) -> Vec<String> {
    let reported = answer.get("capabilities").and_then(Value::as_object);
    let has = |(name, default): &(&str, bool)| {
        reported.and_then(|reported| reported.get(*name)).and_then(Value::as_bool).unwrap_or(*default)
    };
    CAPABILITIES.iter().filter(|capability| has(capability)).map(|(name, _)| (*name).to_owned()).collect()
}
