//! `/proc/PID/mountinfo`. A process that may mount chooses sources, options and mount points.
#![no_main]

use libfuzzer_sys::fuzz_target;

mod types {
    pub(crate) use volhost_kernel::{MountId, MountInfo};
}
#[allow(dead_code, reason = "only the parsers are called here")]
#[path = "../../host/kernel/src/linux/mountinfo.rs"]
mod mountinfo;

/// Writes a field as the kernel does.
fn escaped(field: &[u8]) -> Vec<u8> {
    let escape = |byte: &u8| match byte {
        b' ' | b'\t' | b'\n' | b'\\' => format!("\\{byte:03o}").into_bytes(),
        byte => vec![*byte],
    };
    field.iter().flat_map(escape).collect()
}

fuzz_target!(|text: &[u8]| {
    let lines = text.split(|byte| *byte == b'\n').count();
    assert!(mountinfo::parse(text).len() <= lines, "a line is one mount at most");
    assert_eq!(mountinfo::unescape(&escaped(text)), text, "what the kernel escapes comes back");
    for option in mountinfo::split_options(text) {
        assert!(!option.is_empty());
    }
});
