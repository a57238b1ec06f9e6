//! `volhost wait`.

use std::path::Path;

use clap::{Args, ValueEnum};
use std::time::{Duration, Instant};
use volhost_model::duration::HumanDuration;

use volhost_model::Failure;

use super::client::{ANSWER_TIME, Client, within};
use super::columns;
use super::error::CliError;
use super::format::{printable, short};
use super::names;
use super::output::Output;
use volhost_api::pb;

/// The one kind of object a command is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum PodKind {
    /// A pod
    #[value(aliases = ["pods", "po"])]
    Pod,
}

/// What to wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Goal {
    /// Every volume its containers use is mounted
    Mounted,
    /// No volume of it is mounted, or may be mounted
    Unmounted,
}

/// `wait`.
#[derive(Debug, Args)]
pub(super) struct WaitArguments {
    /// What to wait for: a pod
    #[arg(hide_possible_values = true, value_name = "pod")]
    pub(super) kind: PodKind,
    /// Which: NS/NAME, or NAME in the namespace `default`
    pub(super) name: String,
    /// The goal
    #[arg(long = "for", value_name = "GOAL", default_value = "mounted")]
    pub(super) goal: Goal,
    /// How long to wait
    #[arg(long, value_name = "DURATION", default_value = "2m3s")]
    pub(super) timeout: HumanDuration,
}

/// Waits for the goal.
///
/// # Errors
/// [`CliError::Failed`] has a line for each volume, with its state and the reason.
pub(super) async fn run(arguments: &WaitArguments, socket: &Path, output: &mut Output) -> Result<(), CliError> {
    let pod = names::pod(&arguments.name, None)?;
    let name = format!("{}/{}", pod.namespace, pod.name);
    let timeout = arguments.timeout.0;
    // 0 would mean the default to the daemon; a user who types 0 wants the answer at once.
    let begun = Instant::now();
    let mut is_late = false;
    let not_yet = || {
        is_late = true;
        output.note(&format!("waiting for the daemon to listen at {}", socket.display()));
    };
    let mut client = Client::connect_within(socket, timeout, not_yet).await?;
    let left = if is_late { timeout.saturating_sub(begun.elapsed()) } else { timeout };
    let timeout_ms = u64::try_from(left.as_millis()).unwrap_or(u64::MAX).max(1);
    let request = pb::WaitRequest { pod: Some(pod), timeout_ms };
    // The daemon enforces the timeout; ours only notices if it does not.
    let limit = timeout.saturating_add(ANSWER_TIME);
    let (result, goal) = match arguments.goal {
        Goal::Mounted => (within(limit, socket, client.manager.wait_for_attach_and_mount(request)).await?, "mounted"),
        Goal::Unmounted => (within(limit, socket, client.manager.wait_for_unmount(request)).await?, "unmounted"),
    };
    match result.failure {
        None => output.line(&format!("pod {name} is {goal}")),
        Some(failure) => Err(CliError::Failed(explain(&failure, goal, timeout)?)),
    }
}

/// Why a wait failed: the pod, and a line for each volume that has not reached the goal.
pub(super) fn explain(failure: &pb::WaitFailure, goal: &str, timeout: Duration) -> Result<String, CliError> {
    let pod = printable(&failure.pod);
    if failure.unknown_pod {
        return Ok(format!("no pod {pod} is known on this node; `volhost get pods` lists them"));
    }
    let mut text = if failure.timed_out {
        format!("pod {pod} is not {goal} after {}", short(timeout))
    } else {
        format!("pod {pod} cannot be {goal}")
    };
    for volume in &failure.volumes {
        text.push_str("\n  ");
        text.push_str(&volume_line(volume)?);
    }
    Ok(text)
}

/// The state of one volume, on one line:
/// `data: Pending at MountVolume.SetUp: no such device; next try in 4s`.
fn volume_line(volume: &pb::UnfinishedVolume) -> Result<String, CliError> {
    let state = volhost_model::view::VolumeState::try_from(volume.state())?;
    let mut text = format!("{}: {}", volume.name, columns::state(state).0);
    if !volume.step.is_empty() {
        text.push_str(&format!(" at {}", volume.step));
    }
    if !volume.reason.is_empty() {
        text.push_str(&format!(": {}", volume.reason));
    }
    if let Some(failure) = volume.failure.clone().map(Failure::try_from).transpose()? {
        text.push_str(&format!(": {failure}"));
    }
    if let Some(milliseconds) = volume.retry_in_ms {
        text.push_str(&format!("; next try in {}", short(Duration::from_millis(milliseconds))));
    }
    Ok(printable(&text))
}
