//! Standard output and standard error.

use std::io::{self, BufWriter, IsTerminal, Write};

use volhost_config::ColorChoice;
use volhost_model::visible::{visible_lines, visible_unseen};

use super::error::CliError;
use volhost_table::Colour;

/// The program's output. Nothing here panics if the reader is gone.
pub(super) struct Output {
    out: Box<dyn Write>,
    colour: bool,
    colour_errors: bool,
}

impl Output {
    /// The process's own streams.
    pub(super) fn of_process(choice: ColorChoice) -> Self {
        Self {
            out: Box::new(BufWriter::new(io::stdout())),
            colour: choice.is_wanted(io::stdout().is_terminal()),
            colour_errors: choice.is_wanted(io::stderr().is_terminal()),
        }
    }

    /// An output that no one reads.
    pub(super) fn silent() -> Self {
        Self { out: Box::new(io::sink()), colour: false, colour_errors: false }
    }

    /// Whether to use colour.
    pub(super) const fn colour(&self) -> bool {
        self.colour
    }

    /// Writes text. Characters that a reader does not see become escapes, wherever the text comes
    /// from; colours stay.
    pub(super) fn write(&mut self, text: &str) -> Result<(), CliError> {
        self.out.write_all(visible_unseen(text).as_bytes()).map_err(CliError::Output)
    }

    /// Writes bytes as they are.
    pub(super) fn write_bytes(&mut self, bytes: &[u8]) -> Result<(), CliError> {
        self.out.write_all(bytes).map_err(CliError::Output)
    }

    /// Writes a line.
    pub(super) fn line(&mut self, text: &str) -> Result<(), CliError> {
        self.write(text)?;
        self.write("\n")
    }

    /// Writes what is buffered; watches do so after each update.
    pub(super) fn flush(&mut self) -> Result<(), CliError> {
        self.out.flush().map_err(CliError::Output)
    }

    /// Writes a note to standard error: neither a result nor an error.
    #[expect(clippy::unused_self, reason = "one place for all output of the program")]
    pub(super) fn note(&self, text: &str) {
        // A reader that has closed standard error does not want the note.
        let _ = writeln!(io::stderr(), "{}", visible_unseen(text));
    }

    /// Writes an error to standard error.
    pub(super) fn error(&self, text: &str) {
        self.note(&format!("{} {}", Colour::Red.paint("Error:", self.colour_errors), visible_lines(text)));
    }
}
