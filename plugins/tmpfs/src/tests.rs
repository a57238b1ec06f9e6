use volhost_plugin_sdk::testing::{TestHost, TestVolume};

use super::*;

fn volume() -> TestVolume {
    Volume::builder("csi:tmpfs.volhost.io")
        .persistent_volume("pv")
        .field("driver", "tmpfs.volhost.io")
        .field("volumeHandle", "cache")
        .field("volumeAttributes", "{}")
}

fn refused(volume: &TestVolume) -> String {
    TestHost::new().identity::<Memory>(volume).unwrap_err().to_string()
}

#[test]
fn pods_with_one_handle_share_one_memory() {
    let host = TestHost::new();
    let volume = volume().field("volumeAttributes.size", "16Mi").field("volumeAttributes.mode", "0750");
    assert_eq!(host.identity::<Memory>(&volume).unwrap().name.as_deref(), Some("cache"));
    host.stage::<Memory>(&volume, None).unwrap();
    host.publish::<Memory>(&volume, &Pod::builder()).unwrap();
    host.publish::<Memory>(&volume, &Pod::builder()).unwrap();
    assert_eq!(host.target(volume.name()).mount().expect("it is mounted").fs_type, "tmpfs");
    assert_eq!(host.detached_mounts(), 0);
}

#[test]
fn every_field_is_checked_and_named() {
    for (field, text) in [
        ("size", "0"),
        ("size", "1MB"),
        ("inodes", "0"),
        ("inodes", "+1"),
        ("mode", "888"),
        ("mode", "17777"),
        ("mode", ""),
        ("uid", "-1"),
        ("uid", "4294967295"),
        ("gid", "root"),
        ("sise", "1Mi"),
    ] {
        let path = format!("volumeAttributes.{field}");
        let error = refused(&volume().field(&path, text));
        assert!(error.contains(field), "{field} {text}: {error}");
    }
    let error = refused(&Volume::builder("csi:tmpfs.volhost.io").field("driver", "tmpfs.volhost.io"));
    assert!(error.contains("volumeHandle"), "{error}");
    let error = refused(&volume().mount_option("size=1m"));
    assert!(error.contains("spec.mountOptions"), "{error}");
}
