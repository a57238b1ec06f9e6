//! Files that are truncated, damaged, hostile, or of another version.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use volhost_recording::{RecordingError, RecordingFile, Replay};

use crate::churn::recorded;

fn file() -> Vec<u8> {
    recorded(1, 120).0.recording().file("volhostd test", 7).unwrap()
}

fn refused(bytes: &[u8]) -> String {
    RecordingFile::read(bytes).unwrap_err().to_string()
}

/// The lines, with a last one that fits them.
fn sealed(lines: &[String], steps: usize) -> Vec<u8> {
    let mut text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let digest: String = Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    text.push_str(&json!({"end": {"steps": steps, "sha256": digest}}).to_string());
    text.push('\n');
    text.into_bytes()
}

fn lines() -> Vec<String> {
    let text = String::from_utf8(file()).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.pop();
    lines
}

#[test]
fn a_truncated_file_is_refused_wherever_it_ends() {
    let whole = file();
    let first = whole.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    for end in (first..whole.len()).step_by(211).chain([whole.len() - 1]) {
        let error = RecordingFile::read(&whole[..end]).unwrap_err();
        assert!(matches!(error, RecordingError::Truncated { .. }), "{end}: {error}");
    }
    assert!(matches!(RecordingFile::read(b""), Err(RecordingError::NotARecording)));
    assert!(matches!(RecordingFile::read(&whole[..first / 2]), Err(RecordingError::NotARecording)));
}

#[test]
fn a_changed_byte_is_noticed() {
    let whole = file();
    for place in (200..whole.len() - 200).step_by(997) {
        let mut bytes = whole.clone();
        bytes[place] ^= 1;
        assert!(RecordingFile::read(&bytes).is_err(), "byte {place}");
    }
}

#[test]
fn another_version_is_named_with_its_program() {
    let mut lines = lines();
    let mut first: Value = serde_json::from_str(&lines[0]).unwrap();
    first["version"] = 2.into();
    lines[0] = first.to_string();
    let error = refused(&sealed(&lines, 120));
    assert!(error.contains("version 2") && error.contains("volhostd test"), "{error}");
    assert!(refused(b"{\"kind\":\"Pod\"}\n").contains("no recording of volhost"));
}

#[test]
fn a_hostile_line_is_refused_with_its_number() {
    let whole = lines();
    let at = |field: &str| whole.iter().position(|line| line.contains(&format!("\"{field}\":"))).unwrap();
    let (state, object) = (at("state"), at("object"));
    let with = |at: usize, line: &str| {
        let mut lines = whole.clone();
        lines[at] = line.to_owned();
        refused(&sealed(&lines, 120))
    };
    let deep = format!("{{\"state\":{}1{}}}", "[".repeat(100_000), "]".repeat(100_000));
    for (error, said) in [
        (with(state, "{"), format!("line {}: ", state + 1)),
        (with(state, &deep), format!("line {}: recursion limit", state + 1)),
        (with(object, "{\"object\":99,\"is\":{}}"), format!("line {}: object 99", object + 1)),
        (with(object, "{\"object\":0,\"is\":[]}"), format!("line {}: field `is`", object + 1)),
        (with(state, "{\"step\":0}"), format!("line {}: missing field", state + 1)),
        (with(state, &whole[0]), format!("line {}: ", state + 1)),
    ] {
        assert!(error.contains(&said), "{error} does not say {said}");
    }
    let mut twice = whole.clone();
    twice.push(whole.last().unwrap().clone());
    assert!(refused(&sealed(&twice, 121)).contains("where step 120 is expected"));
    assert!(refused(&sealed(&whole, 119)).contains("names 119 steps"));
}

#[test]
fn a_number_without_object_and_an_unknown_event_are_refused_when_they_are_reached() {
    let mut lines = lines();
    let last = lines.len() - 1;
    let mut step: Value = serde_json::from_str(&lines[last]).unwrap();
    step["event"] = json!({"PodDesired": {"pod": 4711, "volumes": [], "unresolved": []}});
    lines[last] = step.to_string();
    let unknown = RecordingFile::read(&sealed(&lines, 120)).unwrap();
    let error = Replay::new(&unknown).unwrap().find_map(Result::err).unwrap().to_string();
    assert!(error.contains("object 4711"), "{error}");
    step["event"] = json!({"Teleported": 1});
    lines[last] = step.to_string();
    let unknown = RecordingFile::read(&sealed(&lines, 120)).unwrap();
    let error = Replay::new(&unknown).unwrap().find_map(Result::err).unwrap().to_string();
    assert!(error.contains(&format!("line {}: field `event`", last + 1)) && error.contains("Teleported"), "{error}");
}

#[test]
fn texts_are_rewritten_and_the_file_stays_one() {
    let whole = RecordingFile::read(&file()).unwrap();
    let change = |field: &str, text: &str| (field == "message").then(|| text.replace("fire", "ice"));
    let bytes = whole.rewritten(&change).unwrap();
    let text = String::from_utf8(bytes.clone()).unwrap();
    assert!(text.contains("disk on ice") && !text.contains("disk on fire"));
    let again = RecordingFile::read(&bytes).unwrap();
    let steps: Vec<_> = Replay::new(&again).unwrap().map(Result::unwrap).collect();
    assert!(steps.iter().all(|step| step.difference.is_none()), "both sides are rewritten alike");
}
