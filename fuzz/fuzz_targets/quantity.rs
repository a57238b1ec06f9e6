//! Quantities of Kubernetes, in manifests and grants: `1.5Gi`, `100m`, `12e6`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use volhost_model::quantity::{parse_bytes, parse_thousandths};

fuzz_target!(|text: &str| {
    let (bytes, thousandths) = (parse_bytes(text), parse_thousandths(text));
    if let (Ok(bytes), Ok(thousandths)) = (&bytes, &thousandths) {
        assert_eq!(u128::from(*bytes), thousandths.div_ceil(1000), "{text:?} is rounded up to whole bytes");
    }
    if let Ok(bytes) = bytes {
        assert_eq!(parse_bytes(&bytes.to_string()), Ok(bytes));
    }
});
