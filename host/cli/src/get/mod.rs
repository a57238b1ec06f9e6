//! `volhost get`.
//!
//! | module | its job |
//! |---|---|
//! | [`targets`] | which objects are meant |
//! | [`output_format`], [`json_path`] | what `-o` takes |
//! | [`object`] | views as Kubernetes-style objects |
//! | [`sort`] | `--sort-by` |
//! | [`printer`] | lists as text, shared with `volhost events` |

mod json_path;
pub(super) mod object;
mod output_format;
mod printer;
mod sort;
mod targets;

use std::path::Path;

use clap::Args;
use volhost_model::label_selector::{LabelSelector, LabelSelectorError};

use super::client::Client;
use super::error::CliError;
use super::format::now_us;
use super::list::{self, Query, View};
use super::output::Output;
use super::usage;
pub(super) use output_format::OutputFormat;
pub(super) use printer::Printer;
use sort::SortKey;
use targets::{ListKind, Target};

/// `get`.
#[derive(Debug, Args)]
pub(super) struct GetArguments {
    /// What to list: TYPE, TYPE,TYPE..., TYPE NAME..., or TYPE/NAME...; types are pods, volumes,
    /// plugins, drivers, operations, pvc and pv. NAME is a pod's NAME or NS/NAME, a volume's NAME
    /// or NS/POD/NAME, a plugin's VENDOR/NAME, a driver's name
    #[arg(required = true, value_name = "TYPE[/NAME]")]
    what: Vec<String>,
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
    /// How to print: json, yaml, wide, name, jsonpath=TEMPLATE, custom-columns=HEADER:PATH,...
    #[arg(short, long, value_name = "FORMAT", value_parser = OutputFormat::parse)]
    output: Option<OutputFormat>,
    /// Sort by a column (AGE) or a field (.metadata.creationTimestamp), the smallest first
    #[arg(long, value_name = "COLUMN|PATH", value_parser = SortKey::parse, conflicts_with = "watch")]
    sort_by: Option<SortKey>,
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

/// The objects of one kind that were found.
struct Found {
    kind: ListKind,
    views: Vec<View>,
}

/// Lists, and watches with `-w`.
///
/// # Errors
/// [`CliError::Failed`] has a line for each name that was not found; the others are printed all the
/// same.
pub(super) async fn run(arguments: &GetArguments, socket: &Path, output: &mut Output) -> Result<(), CliError> {
    let targets = targets::targets(&arguments.what)?;
    if arguments.watch {
        return match targets.as_slice() {
            [target] => watch(target, arguments, socket, output).await,
            _ => Err(CliError::Usage("-w watches one type, or one object of it".to_owned())),
        };
    }
    let mut client = Client::connect(socket).await?;
    let mut found: Vec<Found> = Vec::new();
    let mut missing = Vec::new();
    for target in &targets {
        let views = listed(target, arguments, &mut client, socket).await?;
        if views.is_empty()
            && let Some(name) = &target.name
        {
            missing.push(not_found(target.kind, name, arguments));
        }
        match found.iter_mut().find(|group| group.kind == target.kind) {
            Some(group) => {
                let new: Vec<View> = views.into_iter().filter(|view| !group.views.contains(view)).collect();
                group.views.extend(new);
            }
            None => found.push(Found { kind: target.kind, views }),
        }
    }
    if let Some(key) = &arguments.sort_by {
        for group in &mut found {
            key.sort(group.kind.words().0, &mut group.views, now_us())?;
        }
    }
    let one = matches!(targets.as_slice(), [Target { name: Some(_), .. }]);
    if missing.is_empty() || found.iter().any(|group| !group.views.is_empty()) {
        print(found, one, arguments, output)?;
    }
    if missing.is_empty() { Ok(()) } else { Err(CliError::Failed(missing.join("\n"))) }
}

fn query(target: &Target, arguments: &GetArguments) -> Query {
    Query::new(target.kind.words().0, arguments.namespace.as_deref(), target.name.as_deref())
        .with_labels(arguments.selector.as_deref())
}

async fn listed(
    target: &Target,
    arguments: &GetArguments,
    client: &mut Client,
    socket: &Path,
) -> Result<Vec<View>, CliError> {
    let query = query(target, arguments);
    let filter = query.filter.clone();
    let mut views = list::all(client, socket, query).await?;
    // The short table and names have no room for it, so it is not worth asking the storage.
    let shows_usage =
        arguments.sort_by.is_some() || arguments.output.as_ref().is_some_and(|format| *format != OutputFormat::Name);
    if target.kind == ListKind::Volumes && shows_usage {
        usage::fill(views.iter_mut().flat_map(View::volumes), filter, client, socket).await?;
    }
    Ok(views)
}

async fn watch(target: &Target, arguments: &GetArguments, socket: &Path, output: &mut Output) -> Result<(), CliError> {
    let mut client = Client::connect(socket).await?;
    let (views, stream) = list::begin(&mut client, socket, query(target, arguments)).await?;
    printer(target.kind, arguments, output).follow(views, stream, &client, output).await
}

fn printer(kind: ListKind, arguments: &GetArguments, output: &Output) -> Printer {
    let printer = Printer::new(kind.words().0, arguments.output.clone(), output.colour());
    if arguments.no_headers { printer.without_header() } else { printer }
}

fn place(arguments: &GetArguments) -> String {
    arguments.namespace.as_ref().map(|namespace| format!(" in namespace {namespace}")).unwrap_or_default()
}

fn not_found(kind: ListKind, name: &str, arguments: &GetArguments) -> String {
    let (_, plural, word) = kind.words();
    format!("no {word} {name} found{}; `volhost get {plural}` lists all", place(arguments))
}

fn print(mut found: Vec<Found>, one: bool, arguments: &GetArguments, output: &mut Output) -> Result<(), CliError> {
    let format = arguments.output.as_ref();
    let is_document = matches!(format, Some(OutputFormat::Json | OutputFormat::Yaml | OutputFormat::JsonPath(_)));
    if !is_document && found.iter().all(|group| group.views.is_empty()) {
        let plurals: Vec<&str> = found.iter().map(|group| group.kind.words().1).collect();
        output.note(&format!("No {} found{}.", plurals.join(", "), place(arguments)));
        return Ok(());
    }
    if !Printer::has_tables(format) {
        let Some(first) = found.first() else { return Ok(()) };
        let mut printer = printer(first.kind, arguments, output);
        let views: Vec<View> = found.into_iter().flat_map(|group| group.views).collect();
        return output.write(&printer.list(&views, one)?);
    }
    let has_several = found.len() > 1;
    found.retain(|group| !group.views.is_empty());
    for (at, group) in found.iter().enumerate() {
        if at > 0 {
            output.line("")?;
        }
        let mut printer = printer(group.kind, arguments, output);
        if has_several {
            let (kind, _, word) = group.kind.words();
            printer = printer.with_type(kind, word);
        }
        output.write(&printer.list(&group.views, false)?)?;
    }
    Ok(())
}
