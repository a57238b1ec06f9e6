//! `volhost completions`.

use clap_complete::Shell;

use super::arguments;
use super::error::CliError;
use super::output::Output;

/// Prints the completions for a shell.
pub(super) fn print(shell: Shell, output: &mut Output) -> Result<(), CliError> {
    // Into memory first: the generator panics when its writer fails.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut arguments::command(), "volhost", &mut script);
    output.write_bytes(&script)
}
