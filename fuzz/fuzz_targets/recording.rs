//! A recording: its lines, and the replay of the state and the events that it has.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sha2::{Digest, Sha256};
use volhost_recording::{RecordingFile, Replay};

/// Most changes of a file break its checksum, which the reader notices first: the last line is made
/// to fit.
fn sealed(bytes: &[u8]) -> Vec<u8> {
    let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty() && !line.starts_with(b"{\"end\":"));
    let content = lines.flat_map(|line| [line, b"\n".as_slice()]).collect::<Vec<_>>().concat();
    let steps = content.split(|byte| *byte == b'\n').filter(|line| line.starts_with(b"{\"at\":")).count();
    let digest: String = Sha256::digest(&content).iter().map(|byte| format!("{byte:02x}")).collect();
    let end = format!("{{\"end\":{{\"steps\":{steps},\"sha256\":\"{digest}\"}}}}\n");
    [content, end.into_bytes()].concat()
}

fuzz_target!(|bytes: &[u8]| {
    let _ = RecordingFile::read(bytes);
    let Ok(file) = RecordingFile::read(&sealed(bytes)) else { return };
    let Ok(replay) = Replay::new(&file) else { return };
    for step in replay {
        let Ok(step) = step else { return };
        if let Some(difference) = step.difference {
            assert!(difference.recorded != difference.replayed, "{difference:?}");
        }
    }
});
