//! Answers of a CSI driver, as the plugin `csi` decodes them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use prost::Message;

#[allow(dead_code, reason = "requests are only sent")]
#[path = "../../plugins/csi/src/controller_messages.rs"]
mod controller_messages;
#[allow(dead_code, reason = "requests are only sent")]
#[path = "../../plugins/csi/src/messages.rs"]
mod messages;

fn check<M: Message + Default + PartialEq + std::fmt::Debug>(bytes: &[u8]) {
    let Ok(message) = M::decode(bytes) else { return };
    assert_eq!(M::decode(message.encode_to_vec().as_slice()).as_ref(), Ok(&message), "it reads what it writes");
}

fuzz_target!(|bytes: &[u8]| {
    check::<messages::Capabilities>(bytes);
    check::<messages::ControllerPublishVolumeResponse>(bytes);
    check::<messages::NodeExpandVolumeResponse>(bytes);
    check::<messages::NodeGetVolumeStatsResponse>(bytes);
    check::<controller_messages::ControllerExpandVolumeResponse>(bytes);
    check::<controller_messages::CreateSnapshotResponse>(bytes);
    check::<controller_messages::CreateVolumeResponse>(bytes);
    check::<controller_messages::GetCapacityResponse>(bytes);
    check::<controller_messages::GetPluginCapabilitiesResponse>(bytes);
    check::<controller_messages::NodeGetInfoResponse>(bytes);
});
