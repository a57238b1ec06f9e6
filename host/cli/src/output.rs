//! Standard output and standard error.

use std::io::{self, BufWriter, IsTerminal, Write};

use volhost_model::visible::{visible_lines, visible_unseen};

use super::arguments::ColorChoice;
use super::error::CliError;
use super::table::Colour;

/// Where the program's words go. Nothing here panics when the reader has gone.
pub(super) struct Output {
    out: Box<dyn Write>,
    colour: bool,
    colour_errors: bool,
}

impl Output {
    /// The process's own streams.
    pub(super) fn of_process(choice: ColorChoice) -> Self {
        let wanted = |terminal: bool| match choice {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
        };
        Self {
            out: Box::new(BufWriter::new(io::stdout())),
            colour: wanted(io::stdout().is_terminal()),
            colour_errors: wanted(io::stderr().is_terminal()),
        }
    }

    /// Whether to use colour.
    pub(super) const fn colour(&self) -> bool {
        self.colour
    }

    /// Writes text. Characters that a reader does not see become escapes, whoever chose the text; colours stay.
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

    /// Hands everything to the reader; watches do so after each update.
    pub(super) fn flush(&mut self) -> Result<(), CliError> {
        self.out.flush().map_err(CliError::Output)
    }

    /// Tells on standard error what is no result and no error.
    #[expect(clippy::unused_self, reason = "one place for every word of the program")]
    pub(super) fn note(&self, text: &str) {
        // Whoever closed standard error does not want to know.
        let _ = writeln!(io::stderr(), "{}", visible_unseen(text));
    }

    /// Tells an error on standard error.
    pub(super) fn error(&self, text: &str) {
        self.note(&format!("{} {}", Colour::Red.paint("Error:", self.colour_errors), visible_lines(text)));
    }
}
