//! `volhost plan`: what would be mounted and unmounted, in which order, and what would wait.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use volhost_api::pb;
use volhost_model::view::{PodPhase, VolumeState};

use super::apply::Validation;
use super::client::{ANSWER_TIME, Client, within};
use super::error::CliError;
use super::format::{now_us, printable, rfc3339, until};
use super::manifest_file::{files_of, named, read};
use super::output::Output;
use super::structured;

/// How to print.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PlanFormat {
    /// JSON
    Json,
}

/// `plan`.
#[derive(Debug, Args)]
pub(super) struct PlanArguments {
    /// File with objects in YAML or JSON, or a folder of such files; `-` reads standard input; give
    /// it several times
    #[arg(short, long = "file", value_name = "FILE|FOLDER", required = true)]
    files: Vec<PathBuf>,
    /// What to do about unknown and misspelt fields
    #[arg(long, value_name = "LEVEL", default_value = "strict")]
    validate: Validation,
    /// How to print
    #[arg(short, long, value_name = "FORMAT")]
    output: Option<PlanFormat>,
}

/// Prints what would happen if the files were applied.
///
/// # Errors
/// [`CliError`] if a file would be refused.
pub(super) async fn run(arguments: &PlanArguments, socket: &Path, output: &mut Output) -> Result<(), CliError> {
    let mut client = Client::connect(socket).await?;
    let field_validation = pb::FieldValidation::from(arguments.validate).into();
    let mut manifests = Vec::new();
    for file in files_of(&arguments.files)? {
        let manifest = read(&file)?;
        // Each file by itself: so an error names the file.
        let request = pb::AddPodsRequest { manifest: manifest.clone(), field_validation, dry_run: true, wait_ms: 0 };
        let answer = within(ANSWER_TIME, socket, client.manager.add_pods(request)).await;
        let checked = answer.map_err(|error| match error {
            CliError::Refused(why) => CliError::Refused(named(&why, &file)),
            other => other,
        })?;
        for warning in &checked.warnings {
            output.note(&format!("Warning: {}", printable(&named(warning, &file))));
        }
        manifests.push(manifest);
    }
    // JSON is YAML.
    let request = pb::PlanRequest { manifest: manifests.join("\n---\n"), field_validation, drain: false };
    let plan = within(ANSWER_TIME, socket, client.manager.plan(request)).await?;
    print(&plan, arguments.output, output)
}

/// Prints what a drain would unmount.
pub(super) async fn of_drain(socket: &Path, output: &mut Output) -> Result<(), CliError> {
    let mut client = Client::connect(socket).await?;
    let request = pb::PlanRequest { drain: true, ..pb::PlanRequest::default() };
    let plan = within(ANSWER_TIME, socket, client.manager.plan(request)).await?;
    print(&plan, None, output)
}

fn print(plan: &pb::PlanResponse, format: Option<PlanFormat>, output: &mut Output) -> Result<(), CliError> {
    match format {
        Some(PlanFormat::Json) => output.line(&structured::pretty_json(&document(plan)?)?),
        None => output.write(&lines(plan, now_us())?),
    }
}

fn lines(plan: &pb::PlanResponse, now: u64) -> Result<String, CliError> {
    let mut text = String::new();
    if plan.operations.is_empty() {
        text.push_str("nothing would be mounted or unmounted\n");
    }
    let mut round = 0;
    for operation in &plan.operations {
        if operation.round != round {
            round = operation.round;
            text.push_str(&format!("{round}.\n"));
        }
        let again = if operation.again { " again" } else { "" };
        let of = if operation.pod.is_empty() {
            format!("volume {}", operation.volume)
        } else {
            format!("volume {} of pod {}", operation.spec_name, operation.pod)
        };
        text.push_str(&printable(&format!("   {}{again}: {of}, by plugin {}", operation.name, operation.plugin)));
        text.push('\n');
    }
    if plan.cut {
        text.push_str("   ... and more\n");
    }
    if !plan.pods.is_empty() {
        text.push_str("afterwards:\n");
    }
    for pod in &plan.pods {
        let state = match phase(pod)? {
            None => "nothing of it is left".to_owned(),
            Some(phase) => format!("{}, {} of {} volumes ready", phase.as_str(), pod.ready, pod.total),
        };
        text.push_str(&printable(&format!("   pod {}: {state}", pod.name)));
        text.push('\n');
    }
    if !plan.waiting.is_empty() {
        text.push_str("waiting:\n");
    }
    for volume in &plan.waiting {
        let of = if volume.pod.is_empty() { String::new() } else { format!(" of pod {}", volume.pod) };
        let next = match volume.retry_at_us {
            0 => String::new(),
            at => format!("; next try: {}", until(Some(at), now)),
        };
        let state = VolumeState::try_from(volume.state())?.as_str();
        text.push_str(&printable(&format!("   volume {}{of}: {state}: {}{next}", volume.volume, volume.reason)));
        text.push('\n');
    }
    if plan.running > 0 {
        text.push_str(&format!("({} operations run now, and are assumed to succeed)\n", plan.running));
    }
    Ok(text)
}

fn document(plan: &pb::PlanResponse) -> Result<Value, CliError> {
    let operations = plan.operations.iter().map(|operation| {
        json!({
            "round": operation.round,
            "operation": operation.name,
            "again": operation.again,
            "uniqueName": operation.volume,
            "specName": operation.spec_name,
            "pod": operation.pod,
            "plugin": operation.plugin,
        })
    });
    let pods = plan.pods.iter().map(|pod| {
        let phase = phase(pod)?.map(|phase| phase.as_str());
        Ok(json!({"name": pod.name, "phase": phase, "ready": pod.ready, "total": pod.total}))
    });
    let waiting = plan.waiting.iter().map(|volume| {
        Ok(json!({
            "pod": volume.pod,
            "volume": volume.volume,
            "state": VolumeState::try_from(volume.state())?.as_str(),
            "reason": volume.reason,
            "nextTry": rfc3339(volume.retry_at_us),
        }))
    });
    Ok(json!({
        "operations": operations.collect::<Vec<_>>(),
        "pods": pods.collect::<Result<Vec<_>, CliError>>()?,
        "waiting": waiting.collect::<Result<Vec<_>, CliError>>()?,
        "runningNow": plan.running,
        "cut": plan.cut,
    }))
}

/// The pod's phase; none if nothing of it is left.
fn phase(pod: &pb::PlannedPod) -> Result<Option<PodPhase>, CliError> {
    match pod.phase() {
        pb::PodPhase::Unspecified => Ok(None),
        phase => Ok(Some(phase.try_into()?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_printed_round_by_round() {
        let operation = |round, name: &str, pod: &str| pb::PlannedOperation {
            round,
            name: name.into(),
            again: false,
            volume: "volhost.io/loop/a".into(),
            spec_name: "data".into(),
            pod: pod.into(),
            plugin: "volhost.io/loop".into(),
        };
        let waiting = pb::WaitingVolume {
            pod: "shop/web".into(),
            volume: "cache".into(),
            state: pb::VolumeState::Unresolved.into(),
            reason: "claim shop/cache is not bound".into(),
            retry_at_us: 0,
        };
        let plan = pb::PlanResponse {
            operations: vec![operation(1, "volume_attach", ""), operation(2, "volume_mount", "shop/web")],
            pods: vec![
                pb::PlannedPod { name: "shop/old".into(), phase: 0, ready: 0, total: 0 },
                pb::PlannedPod { name: "shop/web".into(), phase: pb::PodPhase::Mounting.into(), ready: 1, total: 2 },
            ],
            waiting: vec![waiting],
            warnings: vec![],
            running: 3,
            cut: false,
        };
        let expected = "1.\n   volume_attach: volume volhost.io/loop/a, by plugin volhost.io/loop\n2.\n   volume_mount: volume data of pod shop/web, by plugin volhost.io/loop\nafterwards:\n   pod shop/old: nothing of it is left\n   pod shop/web: Mounting, 1 of 2 volumes ready\nwaiting:\n   volume cache of pod shop/web: Unresolved: claim shop/cache is not bound\n(3 operations run now, and are assumed to succeed)\n";
        assert_eq!(lines(&plan, 0).unwrap(), expected);
        assert_eq!(lines(&pb::PlanResponse::default(), 0).unwrap(), "nothing would be mounted or unmounted\n");
        let document = document(&plan).unwrap();
        assert_eq!(document["pods"][0]["phase"], Value::Null);
        assert_eq!(document["waiting"][0]["state"], "Unresolved");
    }
}
