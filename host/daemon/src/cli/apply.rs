//! `volhost apply`.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use super::arguments::ApplyArguments;
use super::client::{ANSWER_TIME, Client, within};
use super::error::CliError;
use super::format::printable;
use super::output::Output;
use volhost::api::{MAX_MANIFEST_BYTES, pb};

/// Sends each file's objects. A file is applied wholly or not at all; files before a bad one stay applied.
pub(super) async fn run(arguments: &ApplyArguments, socket: &Path, output: &mut Output) -> Result<(), CliError> {
    let mut client = Client::connect(socket).await?;
    for file in &arguments.files {
        let manifest = read(file)?;
        let answer = within(ANSWER_TIME, socket, client.manager.add_pods(pb::AddPodsRequest { manifest })).await;
        let added = answer.map_err(|error| match error {
            CliError::Refused(why) => CliError::Refused(format!("{}: {why}", shown(file))),
            other => other,
        })?;
        if added.pods.is_empty() {
            output.line(&format!("{} applied; it has no pods", shown(file)))?;
        }
        for pod in added.pods {
            output.line(&format!("pod {} applied", printable(&pod.full_name)))?;
        }
    }
    Ok(())
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
