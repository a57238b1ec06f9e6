//! `volhost replay`: the events of the state machine, and what it decides.
//!
//! | module | its job |
//! |---|---|
//! | [`story`] | the steps that are shown, and the state after the last |
//! | [`until`] | where the replay stops |

mod story;
mod until;

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use serde_json::json;
use volhost_recording::file::MAX_FILE_BYTES;
use volhost_recording::{Difference, RecordingError, RecordingFile, Replay};

use super::error::CliError;
use super::format::{printable, rfc3339};
use super::output::Output;
use super::structured;
use story::Story;
use until::Until;

/// How to print.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ReplayFormat {
    /// JSON
    Json,
}

/// `replay`.
#[derive(Debug, Args)]
pub(super) struct ReplayArguments {
    /// The recording: a file of `volhost debug record`, or recording.jsonl of a debug bundle
    file: PathBuf,
    /// Stop after this step, or after the last one up to this time (RFC 3339), and show the state
    #[arg(long, value_name = "STEP|TIME", value_parser = Until::parse)]
    until: Option<Until>,
    /// Only the steps of this pod, and its state: NAME, NS/NAME, or uid
    #[arg(long, value_name = "POD")]
    pod: Option<String>,
    /// Only the steps of this volume, and its state: its name in a pod, or its unique name
    #[arg(long, value_name = "VOLUME")]
    volume: Option<String>,
    /// How to print
    #[arg(short, long, value_name = "FORMAT")]
    output: Option<ReplayFormat>,
}

/// Replays a recording and compares.
///
/// # Errors
/// [`CliError::Failed`] if the file cannot be replayed, or names the first difference.
pub(super) fn run(arguments: &ReplayArguments, output: &mut Output) -> Result<(), CliError> {
    let ReplayArguments { file: path, until, pod, volume, output: format } = arguments;
    let failed = |error: RecordingError| CliError::Failed(format!("{}: {error}", path.display()));
    let file = RecordingFile::read(&read(path)?).map_err(failed)?;
    let mut story = Story::new(&file.state().map_err(failed)?, pod.clone(), volume.clone(), format.is_some());
    let mut replay = Replay::new(&file).map_err(failed)?;
    let mut difference = None;
    let mut steps: usize = 0;
    let mut last = None;
    for (number, at) in file.numbers() {
        if until.as_ref().is_some_and(|until| until.is_before(number, at)) {
            break;
        }
        let Some(step) = replay.next().transpose().map_err(failed)? else { break };
        steps += 1;
        last = Some((step.number, step.at));
        difference.clone_from(&step.difference);
        story.tell(step)?;
        if difference.is_some() {
            break;
        }
    }
    let state = story.state(replay.machine(), last.map_or(0, |(_, at)| at));
    let is_asked = until.is_some() || pod.is_some() || volume.is_some();
    match format {
        Some(ReplayFormat::Json) => {
            let header = file.header();
            let document = json!({
                "recordedBy": header.program,
                "written": rfc3339(header.written),
                "replayedBy": program(),
                "steps": story.documents(),
                "state": state.documents(),
                "difference": difference.as_ref().map(|found| json!({
                    "step": last.map(|(number, _)| number),
                    "place": found.place,
                    "recorded": found.recorded,
                    "replayed": found.replayed,
                })),
            });
            output.line(&structured::pretty_json(&document)?)?;
        }
        None => {
            output.write(&story.lines())?;
            if is_asked && let Some((number, at)) = last {
                output.line(&format!("\nAfter step {number}, {}:", rfc3339(at).unwrap_or_default()))?;
                output.write(&state.lines())?;
            }
        }
    }
    if let (Some(found), Some((number, _))) = (&difference, last) {
        return Err(CliError::Failed(differs(number, &file.header().program, found)));
    }
    if format.is_none() {
        output.line(&format!(
            "\n{}{steps} of {} steps of {} replayed by {}: every decision is the recorded one",
            if story.is_empty() { "Nothing that was asked for is in it. " } else { "" },
            file.len(),
            printable(&file.header().program),
            program()
        ))?;
    }
    Ok(())
}

fn program() -> String {
    format!("volhost {}", env!("CARGO_PKG_VERSION"))
}

fn differs(step: u64, recorded_by: &str, found: &Difference) -> String {
    let side = |value: &Option<serde_json::Value>| match value {
        Some(value) => structured::json(value).unwrap_or_default(),
        None => "nothing".to_owned(),
    };
    format!(
        "step {step} is decided otherwise, at {}:\n  recorded by {}: {}\n  replayed by {}: {}",
        found.place,
        printable(recorded_by),
        side(&found.recorded),
        program(),
        side(&found.replayed)
    )
}

fn read(path: &Path) -> Result<Vec<u8>, CliError> {
    let failed = |source| CliError::File { path: path.to_path_buf(), source };
    let size = fs::metadata(path).map_err(failed)?.len();
    if size > MAX_FILE_BYTES {
        let why = RecordingError::TooLarge { bytes: size };
        return Err(CliError::Failed(format!("{}: {why}", path.display())));
    }
    fs::read(path).map_err(failed)
}
