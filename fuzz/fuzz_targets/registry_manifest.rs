//! Manifests and indexes that a registry sends, and its words in messages.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::{from_slice, from_value, to_value};

#[allow(dead_code, reason = "what publishing uses")]
#[path = "../../host/registry/src/artifact.rs"]
mod artifact;

/// How many characters of a registry's words are shown, and three dots.
const SHOWN: usize = 303;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(manifest) = from_slice::<artifact::ArtifactManifest>(bytes) {
        let written = to_value(&manifest).expect("a manifest is JSON");
        let again: artifact::ArtifactManifest = from_value(written.clone()).expect("it reads what it writes");
        assert_eq!(to_value(&again).ok(), Some(written));
    }
    if let Ok(index) = from_slice::<artifact::Index>(bytes) {
        for one in index.manifests {
            let _ = from_value::<artifact::Descriptor>(one);
        }
    }
    let shown = volhost_model::text::printable(&String::from_utf8_lossy(bytes));
    assert!(!shown.contains(char::is_control) && shown.chars().count() <= SHOWN);
});
