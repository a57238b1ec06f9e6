//! `volhost status`: the node on one page.

mod problems;

use std::collections::BTreeMap;
use std::path::Path;

use clap::Args;
use serde_json::{Value, json};
use volhost_model::view::EventKind;

use super::arguments::DocumentFormat;
use super::client::{ANSWER_TIME, Client, within};
use super::error::CliError;
use super::format::{age, printable, rfc3339};
use super::list::{self, Query, View};
use super::output::Output;
use super::structured;
use super::text::Text;
use problems::{NodeLists, Problem};
use volhost_api::pb;
use volhost_api::pb::Kind;

/// The warnings that are shown, the newest.
const SHOWN_WARNINGS: usize = 5;

/// The problems that are shown as text; JSON has all.
const SHOWN_PROBLEMS: usize = 20;

/// `status`.
#[derive(Debug, Args)]
pub(super) struct StatusArguments {
    /// How to print
    #[arg(short, long, value_name = "FORMAT")]
    output: Option<DocumentFormat>,
}

/// Prints the node's health.
///
/// # Errors
/// [`CliError::Failed`] if it is not healthy.
pub(super) async fn run(arguments: &StatusArguments, socket: &Path, output: &mut Output) -> Result<(), CliError> {
    let mut client = Client::connect(socket).await?;
    let status = within(ANSWER_TIME, socket, client.inspect.status(pb::StatusRequest {})).await?;
    let lists = NodeLists::read(&mut client, socket).await?;
    let events = list::all(&mut client, socket, Query::events(String::new())).await?;
    let is_warning = |view: &View| matches!(view, View::Event(event) if event.kind == EventKind::Warning);
    let mut warnings: Vec<View> = events.into_iter().filter(is_warning).collect();
    warnings.drain(..warnings.len().saturating_sub(SHOWN_WARNINGS));
    let problems = problems::problems(&status, &lists);
    match arguments.output {
        None => output.write(&page(&status, &lists, &problems, &warnings, output.colour()))?,
        Some(format) => {
            let document = document(&status, &lists, &problems, &warnings);
            output.line(&structured::document(&document, format)?)?;
        }
    }
    match problems.len() {
        0 => Ok(()),
        1 => Err(CliError::Failed("the node is not healthy: 1 problem".to_owned())),
        count => Err(CliError::Failed(format!("the node is not healthy: {count} problems"))),
    }
}

fn page(
    status: &pb::StatusResponse,
    lists: &NodeLists,
    problems: &[Problem],
    warnings: &[View],
    colour: bool,
) -> String {
    let mut text = Text::new(colour);
    text.field("Health", if problems.is_empty() { "healthy" } else { "not healthy" });
    text.field("Root", &status.root);
    text.field("Version", &format!("{} (process {})", status.version, status.pid));
    text.field("Uptime", &age(status.started_us, text.now_us));
    text.field("Drain", if status.draining { "nothing is mounted until `volhost uncordon`" } else { "no" });
    for (name, counts) in counts(lists) {
        text.field(name, &sentence(&counts));
    }
    let files = status.manifest_problems.len();
    text.field("Manifests", &if files == 0 { "no errors".to_owned() } else { format!("{files} with errors") });
    if problems.is_empty() {
        text.field("Problems", "none");
    } else {
        text.block("Problems", |text| {
            for Problem { object, message } in problems.iter().take(SHOWN_PROBLEMS) {
                text.line(&printable(&format!("{object}: {message}")));
            }
            if problems.len() > SHOWN_PROBLEMS {
                text.line(&format!("and {} more; -o json shows all", problems.len() - SHOWN_PROBLEMS));
            }
        });
    }
    text.table("Last warnings", Kind::Events, warnings);
    text.finish()
}

fn document(status: &pb::StatusResponse, lists: &NodeLists, problems: &[Problem], warnings: &[View]) -> Value {
    let time = |micros: u64| rfc3339(micros).unwrap_or_default();
    let warnings = warnings.iter().filter_map(|view| match view {
        View::Event(event) => Some(json!({
            "lastTimestamp": time(event.at), "reason": event.reason, "object": event.object,
            "message": event.message, "count": event.count,
        })),
        _ => None,
    });
    let mut document = json!({
        "apiVersion": "volhost.io/v1",
        "kind": "Status",
        "healthy": problems.is_empty(),
        "root": status.root,
        "version": status.version,
        "pid": status.pid,
        "startTime": time(status.started_us),
        "synced": status.synced,
        "draining": status.draining,
        "manifestErrors": status.manifest_problems.iter().map(|problem| {
            json!({"file": problem.file, "messages": problem.messages})
        }).collect::<Vec<_>>(),
        "problems": problems.iter().map(|problem| {
            json!({"object": problem.object, "message": problem.message})
        }).collect::<Vec<_>>(),
        "lastWarnings": warnings.collect::<Vec<_>>(),
    });
    if let Value::Object(fields) = &mut document {
        for (name, counts) in counts(lists) {
            fields.insert(name.to_lowercase(), json!(counts));
        }
    }
    document
}

/// How many there are in each state.
fn counts(lists: &NodeLists) -> [(&'static str, BTreeMap<&str, usize>); 4] {
    fn count<'a>(states: impl Iterator<Item = &'a str>) -> BTreeMap<&'a str, usize> {
        let mut counts = BTreeMap::new();
        states.for_each(|state| *counts.entry(state).or_default() += 1);
        counts
    }
    [
        ("Pods", count(lists.pods.iter().map(|pod| pod.phase.as_str()))),
        ("Volumes", count(lists.volumes.iter().map(|volume| volume.state.as_str()))),
        ("Plugins", count(lists.plugins.iter().map(|plugin| plugin.state.as_str()))),
        ("Drivers", count(lists.drivers.iter().map(|driver| driver.state.as_str()))),
    ]
}

/// `3: 2 Mounted, 1 Pending`.
fn sentence(counts: &BTreeMap<&str, usize>) -> String {
    let all: usize = counts.values().sum();
    let each: Vec<String> = counts.iter().map(|(state, count)| format!("{count} {state}")).collect();
    if all == 0 { "none".to_owned() } else { format!("{all}: {}", each.join(", ")) }
}
