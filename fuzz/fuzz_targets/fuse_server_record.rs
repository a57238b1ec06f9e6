//! The record of a FUSE server, as it is found on disk.
#![no_main]

use libfuzzer_sys::fuzz_target;

// The name by which the record's file knows the crate that has this type.
extern crate self as volhost_runtime;
pub use fuse_servers::FuseServerBounds;

#[allow(dead_code, reason = "only the record's form is read here")]
#[path = "../../host/runtime/src/fuse_servers.rs"]
mod fuse_servers;
#[allow(dead_code, reason = "only the record's form is read here")]
#[path = "../../host/fuse-servers/src/record.rs"]
mod record;

fuzz_target!(|bytes: &[u8]| {
    let Ok(record) = serde_json::from_slice::<record::ServerRecord>(bytes) else { return };
    let written = serde_json::to_vec(&record).expect("a record is JSON");
    assert_eq!(serde_json::from_slice::<record::ServerRecord>(&written).ok(), Some(record), "it reads what it writes");
});
