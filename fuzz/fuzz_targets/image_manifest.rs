//! Manifests, lists of them and configs of images, as a registry or a layout sends them. The first
//! line is the manifest, the rest the config.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[allow(dead_code, reason = "what pulls use")]
#[path = "../../host/images/src/manifest.rs"]
mod manifest;

use manifest::{Found, apply_config, read, read_layout_index};

fuzz_target!(|bytes: &[u8]| {
    let line = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    let (first, rest) = bytes.split_at(line);
    for listed in read_layout_index(first).unwrap_or_default() {
        let _ = (listed.reference_name(), listed.of_manifest());
    }
    match read(first) {
        Ok(Found::Image { mut layers, config }) => {
            assert!(!layers.is_empty());
            assert!(config.is_none_or(|config| config.size <= manifest::MANIFEST_BYTES));
            let before = layers.clone();
            if apply_config(&mut layers, rest).is_ok() {
                assert!(before.iter().zip(&layers).all(|(before, after)| before.blob == after.blob));
            }
        }
        Ok(Found::Listed(blob)) => assert!(blob.size <= manifest::MANIFEST_BYTES),
        Err(error) => assert!(!error.to_string().contains(char::is_control), "{error}"),
    }
});
