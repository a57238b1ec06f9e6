//! `HOST/NAME:TAG@DIGEST`: the name of a plugin or an image in a registry, whose parts become parts
//! of addresses.
#![no_main]

use libfuzzer_sys::fuzz_target;
use volhost_model::oci::{Digest, ImageLocation, Reference};

fn check(reference: &Reference) {
    assert_eq!(reference.to_string().parse::<Reference>().as_ref(), Ok(reference), "it reads what it writes");
    assert!(!reference.short_name().contains('/') && !reference.short_name().is_empty());
    for part in [reference.host(), reference.name(), reference.tag().unwrap_or("x")] {
        assert!(part.bytes().all(|byte| byte.is_ascii_graphic()), "{part:?} fits into an address");
        assert!(!part.contains(['?', '#', '@', '%', '\\']), "{part:?} fits into an address");
    }
    assert!(!reference.name().split('/').any(|part| part.is_empty() || part == "." || part == ".."));
}

fuzz_target!(|text: &str| {
    if let Ok(digest) = text.parse::<Digest>() {
        assert_eq!(digest.as_str(), text);
        assert!(digest.hex().bytes().all(|byte| byte.is_ascii_hexdigit()));
    }
    if let Ok(reference) = text.parse::<Reference>() {
        check(&reference);
    }
    match text.parse::<ImageLocation>() {
        Ok(ImageLocation::Registry(reference)) => check(&reference),
        Ok(location @ ImageLocation::Layout { .. }) => {
            assert_eq!(location.to_string().parse::<ImageLocation>().ok(), Some(location), "it reads what it writes");
        }
        Err(_) => {}
    }
});
