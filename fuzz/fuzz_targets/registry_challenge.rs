//! The header `WWW-Authenticate`, as a registry sends it: one header a line.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../host/registry/src/challenge.rs"]
mod challenge;

/// Writes a value as RFC 9110 quotes it.
fn quoted(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"")
}

fuzz_target!(|text: &str| {
    let Some(challenge::Challenge::Bearer { realm, service, scope }) = challenge::parse(text.lines()) else { return };
    let mut header = format!("Bearer realm=\"{}\"", quoted(&realm));
    for (name, value) in [("service", &service), ("scope", &scope)] {
        if let Some(value) = value {
            header.push_str(&format!(",{name}=\"{}\"", quoted(value)));
        }
    }
    let again = challenge::parse([header.as_str()].into_iter());
    assert_eq!(again, Some(challenge::Challenge::Bearer { realm, service, scope }), "{header}");
});
