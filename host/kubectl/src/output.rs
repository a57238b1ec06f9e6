//! Tables, JSON and sentences on standard output; errors on standard error.

use std::io::{self, IsTerminal as _, Write as _};

use serde::Serialize;
use volhost_config::ColorChoice;
use volhost_model::visible::{visible_lines, visible_unseen};
use volhost_table::{Cell, Colour, Table};

use crate::arguments::{Format, ListArguments};
use crate::error::PluginError;

/// The process's own streams.
#[derive(Debug)]
pub(crate) struct Output {
    colour: bool,
    colour_errors: bool,
}

/// One row of a list.
pub(crate) trait Row: Serialize {
    /// The names of the columns: those always shown, and those of `-o wide`.
    const COLUMNS: (&'static [&'static str], &'static [&'static str]);

    /// The cells of both.
    fn cells(&self) -> Vec<Cell>;
}

impl Output {
    /// With colour on a terminal, or as chosen.
    pub(crate) fn of_process(choice: ColorChoice) -> Self {
        Self {
            colour: choice.is_wanted(io::stdout().is_terminal()),
            colour_errors: choice.is_wanted(io::stderr().is_terminal()),
        }
    }

    /// Whether to use colour.
    pub(crate) const fn colour(&self) -> bool {
        self.colour
    }

    /// Writes text. Characters that a reader does not see become escapes, wherever the text comes
    /// from.
    ///
    /// # Errors
    /// [`PluginError::Output`], unless the reader has gone.
    pub(crate) fn write(&self, text: &str) -> Result<(), PluginError> {
        match io::stdout().lock().write_all(visible_unseen(text).as_bytes()) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            written => written.map_err(PluginError::Output),
        }
    }

    /// Writes a list as its user asked for it. `nothing` is said where there is none, but for a
    /// program that reads JSON.
    ///
    /// # Errors
    /// [`PluginError::Output`], [`PluginError::Json`].
    pub(crate) fn list<R: Row>(&self, rows: &[R], arguments: &ListArguments, nothing: &str) -> Result<(), PluginError> {
        if arguments.output == Format::Json {
            return self.write(&format!("{}\n", serde_json::to_string_pretty(rows)?));
        }
        if rows.is_empty() {
            return self.write(&format!("{nothing}\n"));
        }
        let (narrow, wide) = R::COLUMNS;
        let mut columns = narrow.to_vec();
        if arguments.output == Format::Wide {
            columns.extend(wide);
        }
        let mut table = Table::new(&columns, self.colour);
        if arguments.no_headers {
            table = table.without_header();
        }
        let cells: Vec<Vec<Cell>> =
            rows.iter().map(|row| row.cells().into_iter().take(columns.len()).collect()).collect();
        self.write(&table.rows(&cells))
    }

    /// Writes an error.
    pub(crate) fn error(&self, text: &str) {
        // Whoever has closed standard error does not want it.
        let word = Colour::Red.paint("Error:", self.colour_errors);
        let _ = writeln!(io::stderr(), "{word} {}", visible_lines(text));
    }
}
