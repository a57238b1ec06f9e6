use volhost_plugin_sdk::testing::{TestHost, TestVolume};

use super::*;

const PORT: &str = "50060e801049cfd1";
const NAME: &str = "3600508b400105e210000900000490000";
const MIB: u64 = 1 << 20;
/// The volume's name, as unstaging gets it.
const AT_PORT: &str = "wwn 50060e801049cfd1 3";
const DEVICE: &str = "/dev/sd50060e801049cfd1-3";

fn host() -> TestHost {
    let host = TestHost::new();
    host.fc_unit(PORT, 3, 64 * MIB).fc_named_unit(NAME, 64 * MIB);
    host
}

fn blank() -> TestVolume {
    Volume::builder("fc").persistent_volume("pv").capacity(64 * MIB)
}

fn volume() -> TestVolume {
    blank().field("targetWWNs.0", PORT).field("lun", 3)
}

#[test]
fn it_serves_fc_and_takes_mount_options() {
    let about = TestHost::new().describe::<Fc>();
    assert_eq!(about.serves, ["fc"]);
    assert!(about.accepts_mount_options && !about.read_only);
}

#[test]
fn one_unit_has_one_name_however_its_ports_are_written() {
    let host = host();
    let name = |volume: TestVolume| host.identify::<Fc>(&volume).unwrap().unwrap();
    assert_eq!(name(volume()), AT_PORT);
    let two = |first: &str, second: &str| {
        name(blank().field("targetWWNs.0", first).field("targetWWNs.1", second).field("lun", 0))
    };
    assert_eq!(two("0x50060E801049CFD2", PORT), "wwn 50060e801049cfd1,50060e801049cfd2 0");
    assert_eq!(two(PORT, "50060e801049cfd2"), "wwn 50060e801049cfd1,50060e801049cfd2 0");
    assert_eq!(name(blank().field("wwids.0", "ACME IDENT-1")), "wwid ACME_IDENT-1");
    for name in [AT_PORT, "wwid ACME_IDENT-1,b", "wwn a,b 255"] {
        assert_eq!(UnitName::parse(name).unwrap().to_string(), name);
    }
    for wrong in ["", "wwn", "wwn a", "wwn a x", "wwid", "wwid a b", "iqn.a 0"] {
        assert!(matches!(UnitName::parse(wrong), Err(Error::InvalidArgument(_))), "{wrong:?}");
    }
}

#[test]
fn a_blank_unit_is_formatted_staged_and_published_and_every_call_may_be_repeated() {
    let host = host();
    let volume = volume().mount_option("noatime");
    for _ in 0..2 {
        host.stage::<Fc>(&volume, None).unwrap();
        host.publish::<Fc>(&volume, &Pod::builder()).unwrap();
    }
    assert_eq!(host.disk(DEVICE).unwrap().contents.as_deref(), Some("ext4"));
    assert_eq!(host.fc_connected(), [DEVICE]);
    let mount = host.target(volume.name()).mount().unwrap();
    assert!(mount.flags.contains("noatime") && !mount.is_read_only());
    for _ in 0..2 {
        host.unpublish::<Fc>(volume.name()).unwrap();
        host.unstage::<Fc>(AT_PORT, "pv").unwrap();
    }
    assert!(host.fc_connected().is_empty());
    assert_eq!(host.detached_mounts(), 0);
}

#[test]
fn a_unit_is_found_by_its_own_name() {
    let host = host();
    let volume = blank().field("wwids.0", "3600508b400105e210000900000490001").field("wwids.1", NAME).field("lun", 7);
    host.stage::<Fc>(&volume, None).unwrap();
    assert_eq!(host.fc_connected(), [format!("/dev/sd{NAME}")]);
}

#[test]
fn a_read_only_volume_is_neither_formatted_nor_written() {
    let host = host();
    let volume = volume().field("readOnly", "true").field("fsType", "xfs");
    let blank = host.stage::<Fc>(&volume, None).unwrap_err();
    assert!(matches!(&blank, Error::Precondition(text) if text.contains("is blank")), "{blank}");
    assert!(host.fc_connected().is_empty(), "nothing is left");
    host.contents(DEVICE, "xfs");
    host.stage::<Fc>(&volume, None).unwrap();
    host.publish::<Fc>(&volume, &Pod::builder()).unwrap();
    assert!(host.target(volume.name()).mount().unwrap().is_read_only());
}

#[test]
fn a_failed_stage_disconnects_and_one_that_cannot_is_uncertain() {
    let host = host();
    host.fail("attach", Error::other("EIO", "broken"));
    assert!(matches!(host.stage::<Fc>(&volume(), None), Err(Error::Other(_))));
    assert!(host.fc_connected().is_empty());
    host.fail("attach", Error::other("EIO", "broken"));
    host.fail("fc-devices.disconnect", Error::retryable("no answer"));
    let error = host.stage::<Fc>(&volume(), None).unwrap_err();
    assert!(matches!(&error, Error::Uncertain(text) if text.contains("stays connected: no answer")), "{error}");
}

#[test]
fn a_device_that_another_uses_is_neither_mounted_nor_disconnected() {
    let host = host();
    host.stage_device::<Fc>(&volume(), None).unwrap().unwrap();
    host.use_device(DEVICE, true);
    let error = host.stage::<Fc>(&volume(), None).unwrap_err();
    assert!(matches!(&error, Error::Busy(text) if text.contains("in use")), "{error}");
    assert_eq!(host.fc_connected().len(), 1);
}

#[test]
fn a_unit_grows_once_the_target_has_enlarged_it() {
    let host = host();
    host.stage::<Fc>(&volume(), None).unwrap();
    let small = host.expand::<Fc>(&volume(), None, true, 128 * MIB).unwrap_err();
    assert!(matches!(&small, Error::Retryable(text) if text.contains("enlarge it on the target")), "{small}");
    host.fc_unit(PORT, 3, 128 * MIB);
    assert_eq!(host.expand::<Fc>(&volume(), None, true, 128 * MIB), Ok(128 * MIB));
    assert_eq!(host.disk(DEVICE).unwrap().fs_size, 128 * MIB);
    assert_eq!(host.expand::<Fc>(&volume(), None, false, 128 * MIB), Ok(128 * MIB), "as a device");
}

#[test]
fn a_device_is_returned_for_the_pods_and_disconnected_after_them() {
    let host = host();
    assert_eq!(host.stage_device::<Fc>(&volume(), None).unwrap().as_deref(), Some(DEVICE));
    for _ in 0..2 {
        Fc::unstage_device(AT_PORT).unwrap();
        assert!(host.fc_connected().is_empty());
    }
}

#[test]
fn causes_of_the_host_reach_the_pod() {
    let host = host();
    let error = host.stage::<Fc>(&volume().field("lun", 4), None).unwrap_err();
    assert!(matches!(&error, Error::NotFound(text) if text.contains("no LUN 4")), "{error}");
    let error = host.publish::<Fc>(&volume(), &Pod::builder()).unwrap_err();
    assert!(matches!(&error, Error::Precondition(text) if text.contains("not staged")), "{error}");
}

#[test]
fn a_field_that_does_not_fit_another_is_named() {
    let host = host();
    let refused = |volume: TestVolume| host.identify::<Fc>(&volume).unwrap_err().to_string();
    assert!(refused(blank()).contains("fc.targetWWNs: is missing"));
    assert!(refused(blank().field("lun", 0)).contains("fc.targetWWNs: is missing"));
    assert!(refused(volume().field("wwids.0", NAME)).contains("fc.targetWWNs: can't be set beside wwids"));
    assert!(refused(blank().field("targetWWNs.0", PORT)).contains("fc.lun: is missing"));
    assert!(refused(volume().field("lun", 256)).contains("fc.lun: must be a whole number"));
    for bad in ["", "0x", "50060e801049cfd", "50:06:0e:80:10:49:cf:d1", "../../../etc/passwd", "50060e801049cfdg"] {
        let error = refused(volume().field("targetWWNs.1", bad));
        assert!(error.contains("fc.targetWWNs.1") && error.contains("16 hexadecimal digits"), "{bad:?}: {error}");
    }
    for bad in ["", "..", "../sda", "a/b", "-a", "a\nb"] {
        let error = refused(blank().field("wwids.0", bad));
        assert!(error.contains("fc.wwids.0"), "{bad:?}: {error}");
    }
}
