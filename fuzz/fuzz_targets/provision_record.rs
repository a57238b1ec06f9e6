//! The record of a volume that was made for a claim, as it is found on disk.
#![no_main]

use libfuzzer_sys::fuzz_target;
use volhost_provisioner::ProvisionRecord;

fuzz_target!(|bytes: &[u8]| {
    let Ok(record) = ProvisionRecord::read("pvc-1", bytes) else { return };
    let written = record.write().expect("a record is JSON");
    assert_eq!(ProvisionRecord::read("pvc-1", &written).ok(), Some(record), "it reads what it writes");
});
