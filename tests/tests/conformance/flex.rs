//! FlexVolume drivers for the suite: the examples' scripts, run on the thread that runs the case,
//! so that they mount on its node.

use std::path::PathBuf;
use std::time::Duration;

use volhost_model::driver_programs::{DriverAnswer, DriverError, DriverOutcome, DriverPrograms};
use volhost_process::{Overflow, Program, RunBounds, RunEnd};
use volhost_tests::artifacts::workspace;

/// How many bytes of what a script writes are kept.
const OUTPUT_BYTES: usize = 64 << 10;

/// The drivers of the examples.
#[derive(Debug)]
pub(crate) struct Scripts;

impl Scripts {
    fn program(name: &str) -> Result<PathBuf, DriverError> {
        let file = name.rsplit('/').next().unwrap_or_default();
        let path = workspace().join("examples/flex-volume/drivers").join(name.replace('/', "~")).join(file);
        if !file.is_empty() && path.is_file() {
            Ok(path)
        } else {
            Err(DriverError::NotFound(format!("there is no driver {name}")))
        }
    }
}

impl DriverPrograms for Scripts {
    fn init_answer(&self, name: &str) -> Result<DriverAnswer, DriverError> {
        let outcome = self.run(name, &["init".to_owned()], Duration::from_secs(60))?;
        outcome.answer.ok_or(DriverError::NotReady(outcome.words))
    }

    fn run(&self, name: &str, arguments: &[String], deadline: Duration) -> Result<DriverOutcome, DriverError> {
        let program = Program::new(Self::program(name)?)
            .with_arguments(arguments)
            .with_variable("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        let ran = program
            .run(RunBounds::new(deadline, Overflow::Dropped { after: OUTPUT_BYTES }))
            .map_err(|error| DriverError::NotReady(error.to_string()))?;
        let RunEnd::Exited(status) = ran.end else { return Err(DriverError::Uncertain("it was killed".to_owned())) };
        let text = String::from_utf8_lossy(&ran.stdout).into_owned() + &String::from_utf8_lossy(&ran.stderr);
        let mut answers = text.lines().filter_map(|line| serde_json::from_str::<DriverAnswer>(line).ok());
        let answer = answers.rfind(|answer| answer.contains_key("status"));
        Ok(DriverOutcome { exit_code: status.code(), answer, words: text.replace('\n', " ") })
    }
}
