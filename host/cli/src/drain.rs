//! `volhost drain`.

use std::path::Path;
use std::time::{Duration, Instant};

use super::arguments::DrainArguments;
use super::client::{ANSWER_TIME, Client, within};
use super::error::CliError;
use super::format::{printable, short};
use super::output::Output;
use super::plan;
use volhost_api::pb;

/// How often the remaining volumes are printed. A drain that ends sooner prints none.
const TELL: Duration = Duration::from_secs(1);

/// Unmounts every volume, and prints the progress.
///
/// # Errors
/// [`CliError::Failed`] says what is left, a line each.
pub(super) async fn run(arguments: &DrainArguments, socket: &Path, output: &mut Output) -> Result<(), CliError> {
    if arguments.dry_run {
        return plan::of_drain(socket, output).await;
    }
    let timeout = arguments.timeout.0;
    let timeout_ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX).max(1);
    let mut client = Client::connect(socket).await?;
    let began = Instant::now();
    let request = pb::DrainRequest { timeout_ms };
    let mut updates = within(ANSWER_TIME, socket, client.manager.drain(request)).await?;
    let mut ticks = tokio::time::interval_at(tokio::time::Instant::now() + TELL, TELL);
    let mut latest: Option<pb::DrainUpdate> = None;
    let last = loop {
        tokio::select! {
            update = updates.message() => match update.map_err(|status| client.failed(&status))? {
                Some(update) if update.done => break update,
                Some(update) => latest = Some(update),
                None => return Err(CliError::Failed("volhost ended the call before everything was unmounted".into())),
            },
            _ = ticks.tick() => if let Some(update) = &latest {
                output.note(&format!("{}: {} with {} left", short(began.elapsed()), count(update.pods_left, "pod"), count(update.volumes_left, "volume")));
            },
        }
    };
    if last.left.is_empty() {
        return output.line("no volume is left on this node");
    }
    let lines: Vec<String> = last.left.iter().map(|line| format!("\n  {}", printable(line))).collect();
    Err(CliError::Failed(format!("not everything is unmounted after {}:{}", short(timeout), lines.concat())))
}

fn count(number: u32, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}

/// Ends a drain.
pub(super) async fn end(socket: &Path, output: &mut Output) -> Result<(), CliError> {
    let mut client = Client::connect(socket).await?;
    let answer = within(ANSWER_TIME, socket, client.manager.end_drain(pb::EndDrainRequest {})).await?;
    output.line(match answer.was_draining {
        true => "the drain is over; volumes are mounted for the pods that want them",
        false => "the node is not drained",
    })
}
