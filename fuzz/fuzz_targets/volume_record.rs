//! The records of mounted and attached volumes, as they are found on disk.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{from_slice, to_vec};

#[allow(dead_code, unused_imports, reason = "only the records' form is read here")]
#[path = "../../host/volume-ops/src/device_record.rs"]
mod device_record;
#[allow(dead_code, unused_imports, reason = "only the records' form is read here")]
#[path = "../../host/volume-ops/src/records.rs"]
mod records;

fn check<T: Serialize + DeserializeOwned>(bytes: &[u8]) {
    let Ok(record) = from_slice::<T>(bytes) else { return };
    let written = to_vec(&record).expect("a record is JSON");
    // Not compared: the last digit of a fraction in a volume's source may differ.
    assert!(from_slice::<T>(&written).is_ok(), "it reads what it writes");
}

fuzz_target!(|bytes: &[u8]| {
    check::<records::MountRecord>(bytes);
    check::<device_record::DeviceRecord>(bytes);
});
