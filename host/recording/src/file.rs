//! A recording in a file: lines of JSON.
//!
//! ```text
//! {"recording":"volhost","version":1,"program":"volhostd 0.1.0","written":TIME,"first_step":120}
//! {"object":0,"is":{...}}                   a pod or a spec, before the first line that names it
//! {"state":{...}}                           the state machine before the first step
//! {"step":120,"at":TIME,"event":{...},"commands":[...]}
//! {"end":{"steps":1,"sha256":"..."}}        of all bytes before this line
//! ```
//!
//! Times are microseconds since the Unix epoch. In the fields `pod`, `known_pod`, `spec`,
//! `declared` and `label_spec`, a number names an object. A reader ignores fields that it does not
//! know; a change that an earlier reader would misread raises the version.

use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest, Sha256};
use thiserror::Error;
use volhost_core::{CoreImage, Event, Time};

use crate::recording::Writer;
use crate::shared_objects::{ObjectError, ReadObjects};

/// What the first line calls the format.
pub(crate) const FORMAT: &str = "volhost";
/// The version of the format that is written, and the only one that is read.
pub const FORMAT_VERSION: u64 = 1;
/// The largest file that is read, in bytes: many times what a daemon keeps.
pub const MAX_FILE_BYTES: u64 = 512 << 20;

/// Why a file cannot be replayed.
#[derive(Debug, Error)]
pub enum RecordingError {
    /// It is something else.
    #[error("it is no recording of volhost: its first line is not one of `volhost debug record`")]
    NotARecording,
    /// A newer version wrote it.
    #[error(
        "its format is version {found}, and this program reads version {FORMAT_VERSION}; replay it with the version that recorded it ({program}), or a later one"
    )]
    OtherVersion {
        /// The version.
        found: u64,
        /// The program that wrote it.
        program: String,
    },
    /// It is larger than any recording.
    #[error("it has {bytes} bytes, more than {MAX_FILE_BYTES}")]
    TooLarge {
        /// Its size.
        bytes: u64,
    },
    /// The end is missing.
    #[error("it is truncated after line {lines}: its last line does not say how it ends; copy it again")]
    Truncated {
        /// The complete lines.
        lines: usize,
    },
    /// Bytes have changed.
    #[error("it is damaged: its content does not have the SHA-256 digest that its last line names; copy it again")]
    Damaged,
    /// A line is none of the format.
    #[error("line {line}: {why}")]
    Line {
        /// Its number, from 1.
        line: usize,
        /// What is wrong with it.
        why: String,
    },
    /// What is decided now cannot be compared.
    #[error("step {step}: what is decided now cannot be written as JSON: {source}")]
    Commands {
        /// The step.
        step: u64,
        /// Why.
        source: serde_json::Error,
    },
    /// A line names an object that is not there.
    #[error("line {line}: {source}")]
    Object {
        /// Its number, from 1.
        line: usize,
        /// Why it cannot be had.
        source: ObjectError,
    },
}

/// The first line.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct FileHeader {
    /// The program that recorded, and its version.
    pub program: String,
    /// When it was written.
    pub written: Time,
    /// The number of the first step: how many left the memory before.
    pub first_step: u64,
}

#[derive(Debug, Deserialize)]
struct Step {
    step: u64,
    at: Time,
    event: Value,
    commands: Vec<Value>,
}

#[derive(Debug, Deserialize)]
struct End {
    steps: usize,
    sha256: String,
}

/// A step as it is in a file.
#[derive(Debug, Clone, PartialEq)]
pub struct StepInFile {
    /// Its number.
    pub number: u64,
    /// The time that the state machine was called with.
    pub at: Time,
    /// The event that it handled.
    pub event: Event,
    /// What it decided, as JSON: another version may have other commands.
    pub commands: Vec<Value>,
}

/// A file that was read and is complete and undamaged.
#[derive(Debug)]
pub struct RecordingFile {
    header: FileHeader,
    objects: ReadObjects,
    state: Value,
    state_line: usize,
    /// With their lines.
    steps: Vec<(usize, Step)>,
}

impl RecordingFile {
    /// Reads a file.
    ///
    /// # Errors
    /// [`RecordingError`], with the line.
    pub fn read(bytes: &[u8]) -> Result<Self, RecordingError> {
        let size = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        if size > MAX_FILE_BYTES {
            return Err(RecordingError::TooLarge { bytes: size });
        }
        let header = header(bytes)?;
        let steps_at_end = check_end(bytes)?;
        let mut objects = ReadObjects::default();
        let mut state = None;
        let mut steps: Vec<(usize, Step)> = Vec::new();
        let count = lines(bytes).count();
        // Without the first and the last.
        for (at, text) in lines(bytes).enumerate().take(count.saturating_sub(1)).skip(1) {
            let line = at + 1;
            let wrong = |why: String| RecordingError::Line { line, why };
            let mut value: Value = serde_json::from_slice(text).map_err(|error| wrong(error.to_string()))?;
            if let Some(number) = value.get("object") {
                if number.as_u64() != Some(objects.next()) {
                    return Err(wrong(format!("object {number} is where object {} is expected", objects.next())));
                }
                let object = value.get_mut("is").map(Value::take).filter(Value::is_object);
                objects.add(object.ok_or_else(|| wrong("field `is` is missing or no object".to_owned()))?, text.len());
            } else if let Some(found) = value.get_mut("state").map(Value::take) {
                if state.replace((line, found)).is_some() || !steps.is_empty() {
                    return Err(wrong("the state is not before all steps, once".to_owned()));
                }
            } else {
                let step: Step = serde_json::from_value(value).map_err(|error| wrong(error.to_string()))?;
                let before = steps.last().map(|(_, before)| before.step);
                let expected = before.map_or(header.first_step, |before| before.saturating_add(1));
                if state.is_none() || step.step != expected {
                    return Err(wrong(format!("step {} is where step {expected} is expected", step.step)));
                }
                steps.push((line, step));
            }
        }
        let Some((state_line, state)) = state else {
            return Err(RecordingError::Line {
                line: count,
                why: "no line has the state before the first step".to_owned(),
            });
        };
        if steps.len() != steps_at_end {
            return Err(RecordingError::Line {
                line: count,
                why: format!("it names {steps_at_end} steps, and there are {}", steps.len()),
            });
        }
        Ok(Self { header, objects, state, state_line, steps })
    }

    /// Returns who wrote it, and when.
    pub const fn header(&self) -> &FileHeader {
        &self.header
    }

    /// Returns how many steps it has.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// Whether it has no step: the daemon had just begun.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Returns the state before the first step.
    ///
    /// # Errors
    /// [`RecordingError`] if it is none of this version's state machine.
    pub fn state(&self) -> Result<CoreImage, RecordingError> {
        let mut state = self.state.clone();
        self.unfolded(self.state_line, &mut state)?;
        read_value(self.state_line, "state", state)
    }

    /// Returns the number and the time of each step.
    pub fn numbers(&self) -> impl Iterator<Item = (u64, Time)> {
        self.steps.iter().map(|(_, step)| (step.step, step.at))
    }

    /// Returns the step at this place, from 0; none after the last.
    ///
    /// # Errors
    /// [`RecordingError`] if its event is none of this version's.
    pub fn step(&self, place: usize) -> Option<Result<StepInFile, RecordingError>> {
        let (line, step) = self.steps.get(place)?;
        Some(self.read_step(*line, step))
    }

    fn read_step(&self, line: usize, step: &Step) -> Result<StepInFile, RecordingError> {
        let mut event = step.event.clone();
        self.unfolded(line, &mut event)?;
        let mut commands = Value::Array(step.commands.clone());
        self.unfolded(line, &mut commands)?;
        let commands = match commands {
            Value::Array(commands) => commands,
            _ => Vec::new(),
        };
        Ok(StepInFile { number: step.step, at: step.at, event: read_value(line, "event", event)?, commands })
    }

    fn unfolded(&self, line: usize, value: &mut Value) -> Result<(), RecordingError> {
        self.objects.unfold(value).map_err(|source| RecordingError::Object { line, source })
    }

    /// Returns the file with every text replaced by what `change` makes of it, field names
    /// excepted: without secrets, for example.
    ///
    /// # Errors
    /// [`RecordingError`] if a line names an object that is not there.
    pub fn rewritten(&self, change: &impl Fn(&str, &str) -> Option<String>) -> Result<Vec<u8>, RecordingError> {
        let mut file = Writer::default();
        let FileHeader { program, written, first_step } = &self.header;
        file.line(&serde_json::json!({"recording": FORMAT, "version": FORMAT_VERSION, "program": program, "written": written, "first_step": first_step}));
        let mut state = self.state.clone();
        self.unfolded(self.state_line, &mut state)?;
        rewrite(&mut state, "", change);
        file.folded(serde_json::json!({"state": state}));
        for (line, step) in &self.steps {
            let mut value =
                serde_json::json!({"step": step.step, "at": step.at, "event": step.event, "commands": step.commands});
            self.unfolded(*line, &mut value)?;
            rewrite(&mut value, "", change);
            file.folded(value);
        }
        Ok(file.finish(u64::try_from(self.steps.len()).unwrap_or(u64::MAX)))
    }
}

/// Changes each text of the value; `change` gets the name of its field, too.
fn rewrite(value: &mut Value, field: &str, change: &impl Fn(&str, &str) -> Option<String>) {
    match value {
        Value::String(text) => {
            if let Some(changed) = change(field, text) {
                *text = changed;
            }
        }
        Value::Array(values) => values.iter_mut().for_each(|value| rewrite(value, field, change)),
        Value::Object(fields) => fields.iter_mut().for_each(|(key, value)| rewrite(value, key, change)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn read_value<T: serde::de::DeserializeOwned>(line: usize, what: &str, value: Value) -> Result<T, RecordingError> {
    serde_json::from_value(value)
        .map_err(|error| RecordingError::Line { line, why: format!("field `{what}` is none of this version: {error}") })
}

fn header(bytes: &[u8]) -> Result<FileHeader, RecordingError> {
    let first = lines(bytes).next().and_then(|line| serde_json::from_slice::<Value>(line).ok());
    let first = first.filter(|first| first.get("recording").and_then(Value::as_str) == Some(FORMAT));
    let first = first.ok_or(RecordingError::NotARecording)?;
    let version = first.get("version").and_then(Value::as_u64).ok_or(RecordingError::NotARecording)?;
    if version != FORMAT_VERSION {
        let program = first.get("program").and_then(Value::as_str).unwrap_or("an unknown program").to_owned();
        return Err(RecordingError::OtherVersion { found: version, program });
    }
    read_value(1, "recording", first)
}

/// Checks the last line. Returns the number of steps that it names.
fn check_end(bytes: &[u8]) -> Result<usize, RecordingError> {
    let truncated = || RecordingError::Truncated { lines: bytes.iter().filter(|byte| **byte == b'\n').count() };
    let whole = bytes.strip_suffix(b"\n").ok_or_else(truncated)?;
    let begin = whole.iter().rposition(|byte| *byte == b'\n').ok_or_else(truncated)? + 1;
    let (content, last) = bytes.split_at_checked(begin).ok_or_else(truncated)?;
    let last: Option<Value> = serde_json::from_slice(last).ok();
    let end = last.and_then(|mut last| last.get_mut("end").map(Value::take)).ok_or_else(truncated)?;
    let end: End = serde_json::from_value(end).map_err(|_| truncated())?;
    if end.sha256 != hex(&Sha256::digest(content)) {
        return Err(RecordingError::Damaged);
    }
    Ok(end.steps)
}

fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.strip_suffix(b"\n").unwrap_or(bytes).split(|byte| *byte == b'\n')
}

/// The bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
