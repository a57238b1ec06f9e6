use volhost_plugin_sdk::testing::{TestHost, TestVolume};

use super::*;

const TARGET: &str = "iqn.2003-01.org.example:disk";
const MIB: u64 = 1 << 20;
/// The volume's name, as unstaging gets it.
const NAME: &str = "iqn.2003-01.org.example:disk 3 192.0.2.1:3260 default -";
const DEVICE: &str = "/dev/sdiqn.2003-01.org.example:disk-3";

fn host() -> TestHost {
    let host = TestHost::new();
    host.iscsi_target("192.0.2.1", 3260, TARGET).iscsi_unit(TARGET, 3, 64 * MIB);
    host
}

fn volume() -> TestVolume {
    let volume = Volume::builder("iscsi").persistent_volume("pv").capacity(64 * MIB);
    volume.field("targetPortal", "192.0.2.1").field("iqn", TARGET).field("lun", 3)
}

fn with_chap(secret: &str) -> TestVolume {
    volume().field("chapAuthSession", "true").field("secretRef.name", secret)
}

#[test]
fn it_serves_iscsi_and_takes_mount_options() {
    let about = TestHost::new().describe::<Iscsi>();
    assert_eq!(about.serves, ["iscsi"]);
    assert!(about.accepts_mount_options && !about.read_only);
}

#[test]
fn the_name_has_all_that_leads_to_the_unit() {
    let host = host();
    assert_eq!(host.identify::<Iscsi>(&volume()).unwrap().as_deref(), Some(NAME));
    let many = volume()
        .field("portals.0", "[2001:db8::1]:860")
        .field("portals.1", "192.0.2.1:3260")
        .field("initiatorName", "iqn.2003-01.org.example:node");
    let name = host.identify::<Iscsi>(&many).unwrap().unwrap();
    let connection = Connection::named(&name).unwrap();
    assert_eq!(connection.portals.len(), 2, "each once");
    assert_eq!(connection.initiator.as_deref(), Some("iqn.2003-01.org.example:node"));
    assert_eq!(connection.to_string(), name);
    for wrong in ["", "a", "a b c d e", "iqn.a 0 192.0.2.1 default -", "iqn.a x 192.0.2.1:1 default -"] {
        assert!(matches!(Connection::named(wrong), Err(Error::InvalidArgument(_))), "{wrong:?}");
    }
}

#[test]
fn a_blank_unit_is_formatted_staged_and_published_and_every_call_may_be_repeated() {
    let host = host();
    let volume = volume().mount_option("noatime");
    for _ in 0..2 {
        host.stage::<Iscsi>(&volume, None).unwrap();
        host.publish::<Iscsi>(&volume, &Pod::builder()).unwrap();
    }
    assert_eq!(host.disk(DEVICE).unwrap().contents.as_deref(), Some("ext4"));
    assert_eq!(host.iscsi_connected(), [format!("node by default to {TARGET} lun 3")]);
    let mount = host.target(volume.name()).mount().unwrap();
    assert!(mount.flags.contains("noatime") && !mount.is_read_only());
    for _ in 0..2 {
        host.unpublish::<Iscsi>(volume.name()).unwrap();
        host.unstage::<Iscsi>(NAME, "pv").unwrap();
    }
    assert!(host.iscsi_connected().is_empty());
    assert_eq!(host.detached_mounts(), 0);
}

#[test]
fn a_read_only_volume_is_neither_formatted_nor_written() {
    let host = host();
    let volume = volume().field("readOnly", "true").field("fsType", "xfs");
    let blank = host.stage::<Iscsi>(&volume, None).unwrap_err();
    assert!(matches!(&blank, Error::Precondition(text) if text.contains("is blank")), "{blank}");
    assert!(host.iscsi_connected().is_empty(), "nothing is left");
    host.contents(DEVICE, "xfs");
    host.stage::<Iscsi>(&volume, None).unwrap();
    host.publish::<Iscsi>(&volume, &Pod::builder()).unwrap();
    assert!(host.target(volume.name()).mount().unwrap().is_read_only());
}

#[test]
fn a_failed_stage_disconnects_and_one_that_cannot_is_uncertain() {
    let host = host();
    host.fail("attach", Error::other("EIO", "broken"));
    assert!(matches!(host.stage::<Iscsi>(&volume(), None), Err(Error::Other(_))));
    assert!(host.iscsi_connected().is_empty());
    host.fail("attach", Error::other("EIO", "broken"));
    host.fail("iscsi-sessions.disconnect", Error::retryable("no answer"));
    let error = host.stage::<Iscsi>(&volume(), None).unwrap_err();
    assert!(matches!(&error, Error::Uncertain(text) if text.contains("stays connected: no answer")), "{error}");
}

#[test]
fn a_device_that_another_uses_is_neither_mounted_nor_disconnected() {
    let host = host();
    host.stage_device::<Iscsi>(&volume(), None).unwrap().unwrap();
    host.use_device(DEVICE, true);
    let error = host.stage::<Iscsi>(&volume(), None).unwrap_err();
    assert!(matches!(&error, Error::Busy(text) if text.contains("in use")), "{error}");
    assert_eq!(host.iscsi_connected().len(), 1);
}

#[test]
fn chap_takes_the_values_of_the_secret_and_names_a_key_that_is_missing() {
    let host = host();
    host.iscsi_chap(TARGET, "node", "hunter2hunter2");
    host.secret("bad", &[("node.session.auth.username", b"node"), ("node.session.auth.password", b"wrong")]);
    host.secret("half", &[("node.session.auth.username", b"node")]);
    let both: [(&str, &[u8]); 3] = [
        ("node.session.auth.username", b"node"),
        ("node.session.auth.password", b"hunter2hunter2"),
        ("node.session.auth.username_in", b"target"),
    ];
    host.secret("mutual", &both);
    host.secret("good", &both[..2]);
    assert!(matches!(host.stage::<Iscsi>(&volume(), None), Err(Error::PermissionDenied(_))), "without CHAP");
    assert!(matches!(host.stage::<Iscsi>(&with_chap("bad"), None), Err(Error::PermissionDenied(_))));
    assert!(matches!(host.stage::<Iscsi>(&with_chap("none"), None), Err(Error::NotFound(_))));
    for (secret, key) in [("half", "node.session.auth.password"), ("mutual", "node.session.auth.password_in")] {
        let error = host.stage::<Iscsi>(&with_chap(secret), None).unwrap_err().to_string();
        assert!(error.contains("iscsi.secretRef") && error.contains(key) && !error.contains("hunter2"), "{error}");
    }
    host.stage::<Iscsi>(&with_chap("good"), None).unwrap();
}

#[test]
fn a_unit_grows_once_the_target_has_enlarged_it() {
    let host = host();
    host.stage::<Iscsi>(&volume(), None).unwrap();
    let small = host.expand::<Iscsi>(&volume(), None, true, 128 * MIB).unwrap_err();
    assert!(matches!(&small, Error::Retryable(text) if text.contains("enlarge it on the target")), "{small}");
    host.iscsi_unit(TARGET, 3, 128 * MIB);
    assert_eq!(host.expand::<Iscsi>(&volume(), None, true, 128 * MIB), Ok(128 * MIB));
    assert_eq!(host.disk(DEVICE).unwrap().fs_size, 128 * MIB);
    assert_eq!(host.expand::<Iscsi>(&volume(), None, false, 128 * MIB), Ok(128 * MIB), "as a device");
}

#[test]
fn a_device_is_returned_for_the_pods_and_disconnected_after_them() {
    let host = host();
    assert_eq!(host.stage_device::<Iscsi>(&volume(), None).unwrap().as_deref(), Some(DEVICE));
    for _ in 0..2 {
        Iscsi::unstage_device(NAME).unwrap();
        assert!(host.iscsi_connected().is_empty());
    }
}

#[test]
fn causes_of_the_host_reach_the_pod() {
    let host = host();
    let error = host.stage::<Iscsi>(&volume().field("lun", 4), None).unwrap_err();
    assert!(matches!(&error, Error::NotFound(text) if text.contains("no LUN 4")), "{error}");
    let error = host.stage::<Iscsi>(&volume().field("targetPortal", "192.0.2.9"), None).unwrap_err();
    assert!(matches!(&error, Error::Retryable(text) if text.contains("no target answers")), "{error}");
    let error = host.publish::<Iscsi>(&volume(), &Pod::builder()).unwrap_err();
    assert!(matches!(&error, Error::Precondition(text) if text.contains("not staged")), "{error}");
}

#[test]
fn a_field_that_does_not_fit_another_is_named() {
    let host = host();
    let refused = |volume: TestVolume| host.identify::<Iscsi>(&volume).unwrap_err().to_string();
    let secret = refused(volume().field("chapAuthDiscovery", "true"));
    assert!(secret.contains("iscsi.secretRef: is missing"), "{secret}");
    let named = volume().field("initiatorName", "iqn.a:b").field("iscsiInterface", "bnx2i");
    assert!(refused(named).contains("iscsi.initiatorName: can't be set beside"));
    let inline = Volume::builder("iscsi").field("targetPortal", "192.0.2.1").field("iqn", TARGET).field("lun", 3);
    let inline = inline.field("secretRef.name", "a").field("secretRef.namespace", "b");
    assert!(refused(inline).contains("iscsi.secretRef.namespace: can be set in a PersistentVolume alone"));
}
