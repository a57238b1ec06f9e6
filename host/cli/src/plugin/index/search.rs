//! `volhost plugin search`.

use super::read;
use crate::arguments::{Format, SearchArguments};
use crate::error::CliError;
use crate::output::Output;
use crate::structured;
use volhost_table::{Cell, Table};

/// Prints the plugins that have all words.
pub(in super::super) fn run(arguments: &SearchArguments, output: &mut Output) -> Result<(), CliError> {
    let mut found = read(&arguments.source, &arguments.registry, output)?;
    let all = found.len();
    found.retain(|entry| entry.matches(&arguments.words));
    match arguments.output {
        Some(Format::Json) => return output.line(&structured::pretty_json(&found)?),
        Some(Format::Yaml) => return output.line(&structured::yaml(&found)?),
        None | Some(Format::Wide) => {}
    }
    if found.is_empty() {
        output.note(&format!("no plugin of {all} has these words"));
        return Ok(());
    }
    let is_wide = arguments.output == Some(Format::Wide);
    let mut columns = vec!["NAME", "VERSION", "SERVES", "DESCRIPTION"];
    columns.extend(is_wide.then_some("REFERENCE"));
    let rows: Vec<Vec<Cell>> = found
        .iter()
        .map(|entry| {
            let serves = entry.sources.join(",");
            let mut row: Vec<Cell> =
                [&entry.name, &entry.version, &serves, &entry.description].into_iter().map(Cell::new).collect();
            row.extend(is_wide.then(|| Cell::new(&entry.reference)));
            row
        })
        .collect();
    output.write(&Table::new(&columns, output.colour()).rows(&rows))
}
