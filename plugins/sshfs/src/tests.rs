use volhost_plugin_sdk::testing::{TestHost, TestVolume};

use super::*;

const SLOTS: [&str; 8] = ["user", "server", "path", "port", "uid", "gid", "key", "known-hosts"];

fn host() -> TestHost {
    let host = TestHost::new();
    host.fuse_server("sshfs", &SLOTS);
    host.secret("files-key", &[("ssh-privatekey", b"k"), ("known_hosts", b"h")]);
    host
}

fn volume() -> TestVolume {
    Volume::builder("csi:sshfs.volhost.io")
        .field("driver", "sshfs.volhost.io")
        .field("nodePublishSecretRef.name", "files-key")
        .field("volumeAttributes.server", "files.example.com")
        .field("volumeAttributes.path", "/exports/data")
        .field("volumeAttributes.user", "data")
}

#[test]
fn a_server_is_started_for_the_pod_and_every_call_may_be_repeated() {
    let host = host();
    let volume = volume().field("volumeAttributes.port", "2222");
    for _ in 0..2 {
        host.publish::<Sshfs>(&volume, &Pod::builder()).unwrap();
    }
    let mount = host.target(volume.name()).mount().unwrap();
    assert_eq!(mount.fs_type, "fuse.sshfs");
    for (slot, value) in [
        ("user", "data"),
        ("server", "files.example.com"),
        ("path", "/exports/data"),
        ("port", "2222"),
        ("key", "secret"),
        ("known-hosts", "secret"),
    ] {
        assert_eq!(mount.option(slot), Some(value), "{slot}");
    }
    assert_eq!((mount.option("uid"), mount.option("gid"), mount.is_read_only()), (None, None, false));
    for _ in 0..2 {
        host.unpublish::<Sshfs>(volume.name()).unwrap();
    }
    assert!(host.target(volume.name()).is_absent() && host.detached_mounts() == 0);
    assert_eq!(host.calls().iter().filter(|call| **call == "fuse-servers.serve").count(), 1);
}

#[test]
fn files_belong_to_the_pod_unless_the_volume_says_otherwise() {
    let host = host();
    let owner = |volume: &TestVolume| {
        let pod = Pod::builder().fs_group(2000);
        host.publish::<Sshfs>(volume, &pod).unwrap();
        let mount = host.target(volume.name()).mount().unwrap();
        host.unpublish::<Sshfs>(volume.name()).unwrap();
        (mount.option("uid").map(str::to_owned), mount.option("gid").map(str::to_owned))
    };
    assert_eq!(owner(&volume()), (None, Some("2000".to_owned())));
    let volume = volume().field("volumeAttributes.uid", "1000").field("volumeAttributes.gid", "0");
    assert_eq!(owner(&volume), (Some("1000".to_owned()), Some("0".to_owned())));
}

#[test]
fn a_read_only_volume_is_mounted_so() {
    let host = host();
    for volume in [volume().read_only(), volume().field("readOnly", "true")] {
        host.publish::<Sshfs>(&volume, &Pod::builder()).unwrap();
        assert!(host.target(volume.name()).mount().unwrap().is_read_only());
        host.unpublish::<Sshfs>(volume.name()).unwrap();
    }
}

#[test]
fn an_address_of_ipv6_is_in_brackets() {
    let host = host();
    for server in ["2001:db8::1", "[2001:db8::1]"] {
        let volume = volume().field("volumeAttributes.server", server);
        host.publish::<Sshfs>(&volume, &Pod::builder()).unwrap();
        assert_eq!(host.target(volume.name()).mount().unwrap().option("server"), Some("[2001:db8::1]"));
        host.unpublish::<Sshfs>(volume.name()).unwrap();
    }
}

#[test]
fn a_server_that_does_not_answer_is_named_and_leaves_nothing() {
    let host = host();
    host.fail("fuse-servers.serve", Error::retryable("it did not serve"));
    let error = host.publish::<Sshfs>(&volume(), &Pod::builder()).unwrap_err();
    assert!(matches!(error, Error::Retryable(_)), "{error}");
    assert!(error.message().starts_with("sshfs: data@files.example.com:/exports/data: "), "{error}");
    assert!(host.target(volume().name()).is_absent() && host.detached_mounts() == 0);
}

#[test]
fn the_host_key_is_always_checked() {
    let host = host();
    host.secret("no-hosts", &[("ssh-privatekey", b"k")]).secret("no-key", &[("known_hosts", b"h")]);
    for (secret, said) in [("no-hosts", "no key known_hosts"), ("no-key", "no key ssh-privatekey")] {
        let volume = volume().field("nodePublishSecretRef.name", secret);
        let error = host.publish::<Sshfs>(&volume, &Pod::builder()).unwrap_err();
        assert!(matches!(error, Error::Precondition(_)) && error.message().contains(said), "{error}");
    }
    let volume = volume().field("nodePublishSecretRef.name", "other");
    assert!(matches!(host.publish::<Sshfs>(&volume, &Pod::builder()), Err(Error::NotFound(_))));
}

#[test]
fn a_pod_cannot_use_the_secret_of_another_namespace() {
    let host = host();
    let volume = volume().field("nodePublishSecretRef.namespace", "kube-system");
    let error = host.publish::<Sshfs>(&volume, &Pod::builder()).unwrap_err();
    assert!(matches!(error, Error::PermissionDenied(_)), "{error}");
}

#[test]
fn a_bad_field_is_named_with_its_value() {
    let host = host();
    for (field, value, said) in [
        ("server", "", "must not be empty"),
        ("server", "-oProxyCommand=x", "must be a host name or an address"),
        ("server", "a,b", "must be a host name or an address"),
        ("server", "a b", "must be a host name or an address"),
        ("server", "files:/x", "must be a host name or an address"),
        ("server", "[10.0.0.1]", "must be a host name or an address"),
        ("path", "exports", "must be an absolute path"),
        ("path", "/a/../b", "must not contain \"..\""),
        ("path", "/a,allow_root", "has ','"),
        ("path", "/a b", "has ' '"),
        ("path", "/a\nb", "has '\\n'"),
        ("path", "/a=b", "has '='"),
        ("user", "-l", "is no name of a user"),
        ("user", "a@b", "is no name of a user"),
        ("user", "a b", "is no name of a user"),
        ("port", "ssh", "must be the number of a port"),
        ("port", "0", "must be the number of a port"),
        ("port", "65536", "must be the number of a port"),
        ("port", "+22", "must be the number of a port"),
        ("uid", "root", "must be the number of a user"),
        ("gid", "4294967295", "must be the number of a group"),
        ("password", "x", "no such field"),
    ] {
        let volume = volume().field(&format!("volumeAttributes.{field}"), value);
        let error = host.identify::<Sshfs>(&volume).unwrap_err();
        let place = format!("csi.volumeAttributes.{field}: ");
        assert!(matches!(error, Error::InvalidArgument(_)), "{field} {value:?}: {error}");
        assert!(error.message().starts_with(&place) && error.message().contains(said), "{field} {value:?}: {error}");
    }
    let without = Volume::builder("csi:sshfs.volhost.io").field("volumeAttributes.server", "a");
    let error = host.identify::<Sshfs>(&without).unwrap_err();
    assert!(error.message().starts_with("csi.nodePublishSecretRef: is missing"), "{error}");
}
