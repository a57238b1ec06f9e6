//! The records of mounted and attached volumes, as they are found on disk.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{from_slice, to_vec};
use volhost_model::names::PodUid;

#[allow(dead_code, unused_imports, reason = "only the records' form is read here")]
#[path = "../../host/volume-ops/src/device_record.rs"]
mod device_record;
#[allow(dead_code, unused_imports, reason = "only the records' form is read here")]
#[path = "../../host/volume-ops/src/pod_records/mod.rs"]
mod pod_records;
#[allow(dead_code, unused_imports, reason = "only the records' form is read here")]
#[path = "../../host/volume-ops/src/records.rs"]
mod records;

/// The pod of the corpus.
const POD: &str = "uid-a";

fn check<T: Serialize + DeserializeOwned>(bytes: &[u8]) {
    let Ok(record) = from_slice::<T>(bytes) else { return };
    let written = to_vec(&record).expect("a record is JSON");
    // Not compared: the last digit of a fraction in a volume's source may differ.
    assert!(from_slice::<T>(&written).is_ok(), "it reads what it writes");
}

/// The file of a pod says the same when it is written anew, and when what an interrupted append has
/// left is cut off.
fn check_pod(bytes: &[u8]) {
    use pod_records::PodRecords;

    let pod = PodUid::new(POD).expect("it is a uid");
    let Ok(records) = PodRecords::parse(&pod, bytes) else { return };
    let keys = |records: &PodRecords| records.keys().cloned().collect::<Vec<_>>();
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let lines = records.lines().expect("records are JSON");
    for same in [lines.as_bytes(), &bytes[..whole]] {
        let again = PodRecords::parse(&pod, same).expect("it reads what it writes");
        assert!(!again.has_torn_end());
        assert_eq!(keys(&again), keys(&records));
    }
}

fuzz_target!(|bytes: &[u8]| {
    check::<records::RecordedVolume>(bytes);
    check::<device_record::DeviceRecord>(bytes);
    check_pod(bytes);
});
