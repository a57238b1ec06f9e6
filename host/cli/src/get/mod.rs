//! `volhost get`, and the printing of lists that `volhost events` shares.

use std::path::Path;

use clap::{Args, ValueEnum};
use serde::Serialize;
use volhost_model::label_selector::{LabelSelector, LabelSelectorError};

use super::arguments::Format;
use super::client::Client;
use super::columns;
use super::error::CliError;
use super::format::now_us;
use super::list::{self, ListStream, Query, View};
use super::output::Output;
use super::structured;
use super::table::Table;
use super::usage;
use volhost_api::pb::Kind;
use volhost_api::pb::watch_update::Type;

/// What can be listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum ListKind {
    /// Pods and how many of their volumes are ready
    #[value(aliases = ["pod", "po"])]
    Pods,
    /// Volumes and their states
    #[value(aliases = ["volume", "vol"])]
    Volumes,
    /// Plugins, their exports and imports
    #[value(aliases = ["plugin"])]
    Plugins,
    /// External drivers: FlexVolume executables, CSI drivers
    #[value(aliases = ["driver"])]
    Drivers,
    /// Operations that run or wait for their next try
    #[value(aliases = ["operation", "op", "ops"])]
    Operations,
    /// PersistentVolumeClaims, and which volume each has
    #[value(name = "pvc", aliases = ["pvcs", "claim", "claims", "persistentvolumeclaims", "persistentvolumeclaim"])]
    Claims,
    /// PersistentVolumes, and which claim has each
    #[value(name = "pv", aliases = ["pvs", "persistentvolumes", "persistentvolume"])]
    PersistentVolumes,
}

/// `get`.
#[derive(Debug, Args)]
pub(super) struct GetArguments {
    /// What to list
    #[arg(hide_possible_values = true, value_name = "pods|volumes|plugins|drivers|operations|pvc|pv")]
    kind: ListKind,
    /// Only this one: a pod's NAME or NS/NAME, a volume's NAME or NS/POD/NAME, a plugin's
    /// VENDOR/NAME, a driver's name
    name: Option<String>,
    /// Only what belongs to pods of this namespace
    #[arg(short, long, value_name = "NS")]
    namespace: Option<String>,
    /// Every namespace, which is the default
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,
    /// Only objects with these labels: KEY=VALUE, KEY!=VALUE, KEY in (A,B), KEY notin (A,B), KEY,
    /// !KEY, with commas between; volumes and operations have the labels of their pods
    #[arg(short = 'l', long, value_name = "SELECTOR", value_parser = label_selector)]
    selector: Option<String>,
    /// How to print
    #[arg(short, long, value_name = "FORMAT")]
    output: Option<Format>,
    /// Leave the line with the columns' names out of a table
    #[arg(long)]
    no_headers: bool,
    /// Keep running and print changes; with -o json one object a line
    #[arg(short, long)]
    watch: bool,
}

/// A label selector as the API takes it.
fn label_selector(text: &str) -> Result<String, LabelSelectorError> {
    text.parse::<LabelSelector>().map(|_| text.to_owned())
}

/// Lists, and watches with `-w`.
pub(super) async fn run(arguments: &GetArguments, socket: &Path, output: &mut Output) -> Result<(), CliError> {
    let (kind, plural) = match arguments.kind {
        ListKind::Pods => (Kind::Pods, "pods"),
        ListKind::Volumes => (Kind::Volumes, "volumes"),
        ListKind::Plugins => (Kind::Plugins, "plugins"),
        ListKind::Drivers => (Kind::Drivers, "drivers"),
        ListKind::Operations => (Kind::Operations, "operations"),
        ListKind::Claims => (Kind::Claims, "claims"),
        ListKind::PersistentVolumes => (Kind::PersistentVolumes, "persistentvolumes"),
    };
    let namespace = arguments.namespace.as_deref();
    let query = Query::new(kind, namespace, arguments.name.as_deref()).with_labels(arguments.selector.as_deref());
    let mut client = Client::connect(socket).await?;
    let filter = query.filter.clone();
    let (mut views, watch) = list::begin(&mut client, socket, query).await?;
    // The short table has no room for it, so it is not worth asking the storage.
    if kind == Kind::Volumes && arguments.output.is_some() {
        usage::fill(views.iter_mut().flat_map(View::volumes), filter, &mut client, socket).await?;
    }
    if views.is_empty() && !arguments.watch {
        let place = namespace.map(|namespace| format!(" in namespace {namespace}")).unwrap_or_default();
        if let Some(name) = &arguments.name {
            return Err(CliError::Failed(format!(
                "no {} {name} found{place}; `volhost get {plural}` lists all",
                plural.trim_end_matches('s')
            )));
        }
        if matches!(arguments.output, None | Some(Format::Wide)) {
            output.note(&format!("No {plural} found{place}."));
            return Ok(());
        }
    }
    let one = arguments.name.is_some() && views.len() == 1;
    let mut printer = Printer::new(kind, arguments.output, output.colour());
    if arguments.no_headers {
        printer.table = printer.table.without_header();
    }
    if arguments.watch {
        return printer.follow(views, watch, &client, output).await;
    }
    output.write(&printer.list(&views, one)?)
}

/// Prints objects of one kind.
pub(super) struct Printer {
    format: Option<Format>,
    columns: usize,
    table: Table,
}

/// A change, as `-w -o json` prints it.
#[derive(Serialize)]
struct ChangeLine<'a> {
    r#type: &'static str,
    object: &'a View,
}

impl Printer {
    /// For a kind, in a format.
    pub(super) fn new(kind: Kind, format: Option<Format>, colour: bool) -> Self {
        let (always, wide) = columns::names(kind);
        let mut names = always.to_vec();
        if format == Some(Format::Wide) {
            names.extend(wide);
        }
        Self { format, columns: names.len(), table: Table::new(&names, colour) }
    }

    /// The text for a list; with `one`, JSON and YAML are the object itself.
    pub(super) fn list(&mut self, views: &[View], one: bool) -> Result<String, CliError> {
        let single = if one { views.first() } else { None };
        match self.format {
            None | Some(Format::Wide) => Ok(self.rows(views.iter().map(|view| (view, false)))),
            Some(Format::Json) => {
                let text = single.map_or_else(|| structured::pretty_json(views), structured::pretty_json);
                text.map(|text| text + "\n")
            }
            Some(Format::Yaml) => {
                let text = single.map_or_else(|| structured::yaml(&views), structured::yaml);
                text.map(|text| text + "\n")
            }
        }
    }

    fn rows<'a>(&mut self, views: impl Iterator<Item = (&'a View, bool)>) -> String {
        let now = now_us();
        let rows: Vec<_> = views
            .map(|(view, gone)| {
                let mut cells = columns::cells(view, gone, now);
                cells.truncate(self.columns);
                cells
            })
            .collect();
        self.table.rows(&rows)
    }

    fn change(&mut self, change: Type, view: &View) -> Result<String, CliError> {
        let changed = ChangeLine {
            r#type: match change {
                Type::Deleted => "DELETED",
                Type::Modified => "MODIFIED",
                Type::Added | Type::Synced | Type::Unspecified => "ADDED",
            },
            object: view,
        };
        match self.format {
            None | Some(Format::Wide) => Ok(self.rows(std::iter::once((view, change == Type::Deleted)))),
            Some(Format::Json) => structured::json(&changed).map(|text| text + "\n"),
            Some(Format::Yaml) => structured::yaml(&changed).map(|text| format!("---\n{text}\n")),
        }
    }

    /// Prints the present objects and then the changes, until the daemon ends the stream.
    pub(super) async fn follow(
        &mut self,
        views: Vec<View>,
        mut watch: ListStream,
        client: &Client,
        output: &mut Output,
    ) -> Result<(), CliError> {
        match self.format {
            None | Some(Format::Wide) if views.is_empty() => {}
            None | Some(Format::Wide) => output.write(&self.list(&views, false)?)?,
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
