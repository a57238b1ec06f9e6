//! `HOST/NAME:TAG@DIGEST`: the name of a plugin in a registry, whose parts become parts of
//! addresses.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[allow(dead_code, reason = "what requests use")]
#[path = "../../host/registry/src/digest.rs"]
mod digest;
#[allow(dead_code, reason = "what requests use")]
#[path = "../../host/registry/src/reference.rs"]
mod reference;
#[path = "../../host/registry/src/text.rs"]
mod text;

fuzz_target!(|text: &str| {
    if let Ok(digest) = text.parse::<digest::Digest>() {
        assert_eq!(digest.as_str(), text);
        assert!(digest.hex().bytes().all(|byte| byte.is_ascii_hexdigit()));
    }
    let Ok(reference) = text.parse::<reference::Reference>() else { return };
    assert_eq!(
        reference.to_string().parse::<reference::Reference>().as_ref(),
        Ok(&reference),
        "it reads what it writes"
    );
    assert!(!reference.short_name().contains('/') && !reference.short_name().is_empty());
    for part in [reference.host(), reference.name(), reference.tag().unwrap_or("x")] {
        assert!(part.bytes().all(|byte| byte.is_ascii_graphic()), "{part:?} fits into an address");
        assert!(!part.contains(['?', '#', '@', '%', '\\']), "{part:?} fits into an address");
    }
    assert!(!reference.name().split('/').any(|part| part.is_empty() || part == "." || part == ".."));
});
