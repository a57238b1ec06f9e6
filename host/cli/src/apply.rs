//! `volhost apply`.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use super::arguments::ApplyArguments;
use super::client::{ANSWER_TIME, Client, within};
use super::error::CliError;
use super::format::printable;
use super::output::Output;
use super::wait::explain;
use volhost_api::MAX_MANIFEST_BYTES;
use volhost_api::pb;

/// Sends each file's objects. A file is applied wholly or not at all; files before a bad one stay
/// applied. With `--complete`, then declares that there are no other pods. With `--wait` it returns
/// once their pods are mounted.
pub(super) async fn run(arguments: &ApplyArguments, socket: &Path, output: &mut Output) -> Result<(), CliError> {
    let mut client = Client::connect(socket).await?;
    let timeout = arguments.timeout.0;
    let mut unmounted = Vec::new();
    for file in &arguments.files {
        let manifest = read(file)?;
        // 0 would not wait; a user who types 0 wants the state at once.
        let wait_ms = if arguments.wait { u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX).max(1) } else { 0 };
        let limit = if arguments.wait { timeout.saturating_add(ANSWER_TIME) } else { ANSWER_TIME };
        let answer = within(limit, socket, client.manager.add_pods(pb::AddPodsRequest { manifest, wait_ms })).await;
        let added = answer.map_err(|error| match error {
            CliError::Refused(why) => CliError::Refused(format!("{}: {why}", shown(file))),
            other => other,
        })?;
        for warning in &added.warnings {
            output.note(&format!("Warning: {}: {}", shown(file), printable(warning)));
        }
        if added.pods.is_empty() {
            output.line(&format!("{} applied; it has no pods", shown(file)))?;
        }
        let failed = |pod: &pb::AddedPod| added.failures.iter().any(|failure| failure.pod == pod.full_name);
        for pod in &added.pods {
            let mounted = if arguments.wait && !failed(pod) { " and mounted" } else { "" };
            output.line(&format!("pod {} applied{mounted}", printable(&pod.full_name)))?;
        }
        for failure in &added.failures {
            unmounted.push(explain(failure, "mounted", timeout)?);
        }
    }
    if arguments.complete {
        within(ANSWER_TIME, socket, client.manager.sources_ready(pb::SourcesReadyRequest {})).await?;
        output.line("every pod is added; pods that no source names count as gone")?;
    }
    if unmounted.is_empty() { Ok(()) } else { Err(CliError::Failed(unmounted.join("\n"))) }
}

fn shown(file: &Path) -> String {
    if file == Path::new("-") { "standard input".to_owned() } else { file.display().to_string() }
}

fn read(file: &Path) -> Result<String, CliError> {
    let failed = |source| CliError::File { path: shown(file).into(), source };
    let source: Box<dyn Read> =
        if file == Path::new("-") { Box::new(io::stdin()) } else { Box::new(File::open(file).map_err(failed)?) };
    let mut bytes = Vec::new();
    source.take(MAX_MANIFEST_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() > MAX_MANIFEST_BYTES {
        return Err(CliError::Failed(format!(
            "{}: it has more than {MAX_MANIFEST_BYTES} bytes; apply its objects in several files",
            shown(file)
        )));
    }
    String::from_utf8(bytes).map_err(|error| {
        CliError::Failed(format!(
            "{}: it is not text in UTF-8 (byte {}); is it the right file?",
            shown(file),
            error.utf8_error().valid_up_to()
        ))
    })
}
