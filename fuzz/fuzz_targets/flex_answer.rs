//! What a FlexVolume driver writes: warnings, and somewhere in it a JSON object with a `status`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use volhost_model::driver_programs::DriverAnswer;

#[path = "../../host/flex-drivers/src/answer.rs"]
mod answer;

fuzz_target!(|output: &[u8]| {
    // The two streams, parted by a zero byte.
    let at = output.iter().position(|byte| *byte == 0).unwrap_or(output.len());
    let (stdout, stderr) = output.split_at(at);
    let (answer, words) = answer::of(stdout, stderr);
    assert!(!words.contains('\n'), "{words:?} is one line");
    let Some(answer) = answer else { return };
    assert!(answer.contains_key("status"));
    let _ = (answer::said(&answer), answer::is_success(&answer));
    // A driver that writes only its answer is understood, too.
    let alone = serde_json::to_vec(&answer).expect("an answer is JSON");
    // Only a text: of a number the last digit may differ.
    let status = |answer: &DriverAnswer| answer.get("status").and_then(|status| status.as_str().map(str::to_owned));
    assert!(answer::of(&alone, b"").0.is_some_and(|again| status(&again) == status(&answer)));
});
