//! A service account token, of which the host reads the end.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../host/runtime/src/token_expiry.rs"]
mod token_expiry;

fuzz_target!(|token: &[u8]| {
    if let Some(end) = token_expiry::expiry(token) {
        assert_eq!(end.len(), "1970-01-01T00:00:00Z".len(), "{end}");
    }
});
