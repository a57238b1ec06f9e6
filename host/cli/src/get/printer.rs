//! Lists as text, shared with `volhost events`.

use serde::Serialize;
use serde_json::Value;

use super::json_path::shown;
use super::object::{list, object};
use super::output_format::{CustomColumn, OutputFormat};
use crate::client::Client;
use crate::columns;
use crate::error::CliError;
use crate::format::now_us;
use crate::list::{ListStream, View};
use crate::output::Output;
use crate::structured;
use volhost_api::pb::Kind;
use volhost_api::pb::watch_update::Type;
use volhost_table::{Cell, Table};

/// What custom columns show for a field that does not exist.
const NONE: &str = "<none>";

/// Prints objects of one kind; in formats without a table of its columns, of several kinds.
pub(crate) struct Printer {
    format: Option<OutputFormat>,
    columns: usize,
    table: Table,
    /// The type before each name, and the column of the names.
    prefix: Option<(&'static str, usize)>,
}

/// A change, as `-w -o json` prints it.
#[derive(Serialize)]
struct ChangeLine {
    r#type: &'static str,
    object: Value,
}

impl Printer {
    /// For a kind, in a format.
    pub(crate) fn new(kind: Kind, format: Option<OutputFormat>, colour: bool) -> Self {
        if let Some(OutputFormat::CustomColumns(columns)) = &format {
            let names: Vec<&str> = columns.iter().map(|column| column.header.as_str()).collect();
            return Self { columns: names.len(), table: Table::new(&names, colour), format, prefix: None };
        }
        let (always, wide) = columns::names(kind);
        let mut names = always.to_vec();
        if format == Some(OutputFormat::Wide) {
            names.extend(wide);
        }
        Self { format, columns: names.len(), table: Table::new(&names, colour), prefix: None }
    }

    /// Without the line of the columns' names.
    pub(super) fn without_header(self) -> Self {
        Self { table: self.table.without_header(), ..self }
    }

    /// With the type before each name, as kubectl prints several types.
    pub(super) fn with_type(self, kind: Kind, word: &'static str) -> Self {
        let (names, _) = columns::names(kind);
        let at = names.iter().position(|name| matches!(*name, "NAME" | "VOLUME")).unwrap_or(0);
        Self { prefix: Some((word, at)), ..self }
    }

    /// Whether each kind has a table of its own.
    pub(super) const fn has_tables(format: Option<&OutputFormat>) -> bool {
        matches!(format, None | Some(OutputFormat::Wide))
    }

    /// The text for a list; with `one`, JSON, YAML and templates get the object itself.
    pub(crate) fn list(&mut self, views: &[View], one: bool) -> Result<String, CliError> {
        match &self.format {
            None | Some(OutputFormat::Wide | OutputFormat::CustomColumns(_)) => {
                self.rows(views.iter().map(|view| (view, false)))
            }
            Some(OutputFormat::Name) => Ok(views.iter().map(|view| format!("{}\n", type_and_name(view))).collect()),
            Some(OutputFormat::Json) => structured::pretty_json(&document(views, one)?).map(|text| text + "\n"),
            Some(OutputFormat::Yaml) => structured::yaml(&document(views, one)?).map(|text| text + "\n"),
            Some(OutputFormat::JsonPath(template)) => Ok(template.render(&document(views, one)?)),
        }
    }

    fn rows<'a>(&mut self, views: impl Iterator<Item = (&'a View, bool)>) -> Result<String, CliError> {
        let now = now_us();
        let mut rows = Vec::new();
        for (view, gone) in views {
            let mut cells = match &self.format {
                Some(OutputFormat::CustomColumns(columns)) => custom_cells(columns, view)?,
                _ => columns::cells(view, gone, now),
            };
            cells.truncate(self.columns);
            if let Some((word, at)) = self.prefix
                && let Some(cell) = cells.get_mut(at)
            {
                *cell = Cell::new(format!("{word}/{}", cell.text()));
            }
            rows.push(cells);
        }
        Ok(self.table.rows(&rows))
    }

    fn change(&mut self, change: Type, view: &View) -> Result<String, CliError> {
        let changed = |view: &View| -> Result<ChangeLine, CliError> {
            let r#type = match change {
                Type::Deleted => "DELETED",
                Type::Modified => "MODIFIED",
                Type::Added | Type::Synced | Type::Unspecified => "ADDED",
            };
            Ok(ChangeLine { r#type, object: object(view)? })
        };
        match &self.format {
            None | Some(OutputFormat::Wide | OutputFormat::CustomColumns(_)) => {
                self.rows(std::iter::once((view, change == Type::Deleted)))
            }
            Some(OutputFormat::Name) => Ok(format!("{}\n", type_and_name(view))),
            Some(OutputFormat::Json) => structured::json(&changed(view)?).map(|text| text + "\n"),
            Some(OutputFormat::Yaml) => structured::yaml(&changed(view)?).map(|text| format!("---\n{text}\n")),
            Some(OutputFormat::JsonPath(template)) => Ok(template.render(&object(view)?)),
        }
    }

    /// Prints the present objects and then the changes, until the daemon ends the stream.
    pub(crate) async fn follow(
        &mut self,
        views: Vec<View>,
        mut watch: ListStream,
        client: &Client,
        output: &mut Output,
    ) -> Result<(), CliError> {
        match &self.format {
            None | Some(OutputFormat::Wide | OutputFormat::CustomColumns(_)) if views.is_empty() => {}
            None | Some(OutputFormat::Wide | OutputFormat::CustomColumns(_)) => {
                output.write(&self.list(&views, false)?)?;
            }
            Some(_) => {
                for view in &views {
                    output.write(&self.change(Type::Added, view)?)?;
                }
            }
        }
        output.flush()?;
        while let Some((change, view)) = watch.next(client).await? {
            if let Some(view) = view {
                output.write(&self.change(change, &view)?)?;
                output.flush()?;
            }
        }
        Ok(())
    }
}

/// The object itself, or the list.
fn document(views: &[View], one: bool) -> Result<Value, CliError> {
    match views {
        [view] if one => object(view),
        _ => Ok(list(views.iter().map(object).collect::<Result<_, _>>()?)),
    }
}

fn custom_cells(columns: &[CustomColumn], view: &View) -> Result<Vec<Cell>, CliError> {
    let object = object(view)?;
    let cells = columns.iter().map(|column| {
        let values: Vec<String> = column.path.all(&object).into_iter().map(shown).collect();
        Cell::new(if values.is_empty() { NONE.to_owned() } else { values.join(",") })
    });
    Ok(cells.collect())
}

/// `TYPE/NAME`, as other commands take it.
fn type_and_name(view: &View) -> String {
    match view {
        View::Pod(pod) if pod.name.is_empty() => format!("pod/{}", pod.uid),
        View::Pod(pod) => format!("pod/{}/{}", pod.namespace, pod.name),
        View::Volume(volume) if volume.pod.is_empty() => format!("volume/{}", volume.unique_name),
        View::Volume(volume) => {
            let name = if volume.name.is_empty() { &volume.spec_name } else { &volume.name };
            format!("volume/{}/{name}", volume.pod)
        }
        View::Plugin(plugin) => format!("plugin/{}", plugin.name),
        View::Driver(driver) => format!("driver/{}", driver.name),
        View::Operation(operation) => format!("operation/{}", operation.volume),
        View::Claim(claim) => format!("pvc/{}/{}", claim.namespace, claim.name),
        View::PersistentVolume(volume) => format!("pv/{}", volume.name),
        View::Event(event) => format!("event/{}", event.sequence),
    }
}
