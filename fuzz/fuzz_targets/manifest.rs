//! Manifests of a folder or request: YAML or JSON with Kubernetes objects.
#![no_main]

use libfuzzer_sys::fuzz_target;
use volhost_objects::{RetainedBindings, parse};

fuzz_target!(|text: &str| {
    if let Ok(bindings) = RetainedBindings::read(text.as_bytes()) {
        let written = bindings.write().unwrap_or_else(|| b"{}".to_vec());
        assert_eq!(RetainedBindings::read(&written).ok(), Some(bindings), "it reads what it writes");
    }
    match parse("fuzz.yaml", text) {
        Ok(parsed) => {
            assert!(!(parsed.is_empty && !parsed.objects.is_empty()));
            let mut keys: Vec<_> = parsed.objects.iter().map(|object| &object.key).collect();
            keys.sort();
            assert!(keys.windows(2).all(|two| two[0] != two[1]), "no object is listed twice");
        }
        Err(error) => assert!(error.to_string().contains("fuzz.yaml"), "{error}"),
    }
});
