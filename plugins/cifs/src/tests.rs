use volhost_plugin_sdk::testing::{TestHost, TestVolume};

use super::*;

fn host() -> TestHost {
    let host = TestHost::new();
    host.share("files.example.com", "/team", &["3.1.1"]).share("2001:db8::1", "/team/a b", &["3.1.1"]);
    host.secret("login", &[("username", b"u"), ("password", b"p"), ("domain", b"d")]);
    host
}

fn volume() -> TestVolume {
    Volume::builder("csi:cifs.volhost.io")
        .field("driver", "cifs.volhost.io")
        .field("nodePublishSecretRef.name", "login")
        .field("volumeAttributes.source", "//files.example.com/team")
}

#[test]
fn a_share_is_mounted_with_the_secret_and_every_call_may_be_repeated() {
    let host = host();
    for _ in 0..2 {
        host.publish::<Cifs>(&volume(), &Pod::builder().fs_group(2000)).unwrap();
    }
    let mount = host.target(volume().name()).mount().unwrap();
    assert_eq!((mount.fs_type.as_str(), mount.source.as_deref()), ("cifs", Some("//files.example.com/team")));
    for (option, value) in [
        ("username", Some("secret")),
        ("password", Some("secret")),
        ("domain", Some("secret")),
        ("dir_mode", Some("0775")),
        ("file_mode", Some("0775")),
        ("uid", None),
        ("gid", Some("2000")),
        ("sec", None),
    ] {
        assert_eq!(mount.option(option), value, "{option}");
    }
    for _ in 0..2 {
        host.unpublish::<Cifs>(volume().name()).unwrap();
    }
    assert!(host.target(volume().name()).is_absent() && host.detached_mounts() == 0);
    assert_eq!(host.calls().iter().filter(|call| **call == "network-mounts.mount").count(), 1);
}

#[test]
fn the_options_of_a_volume_are_passed_on_and_win_over_the_pods_owner() {
    let host = host();
    let options = ["vers=3.1.1", "seal", "uid=1000", "gid=0", "dir_mode=0700", "noexec", "_netdev"];
    let volume = options.into_iter().fold(volume(), TestVolume::mount_option);
    host.publish::<Cifs>(&volume, &Pod::builder().fs_group(2000)).unwrap();
    let mount = host.target(volume.name()).mount().unwrap();
    for (option, value) in
        [("vers", "3.1.1"), ("uid", "1000"), ("gid", "0"), ("dir_mode", "0700"), ("file_mode", "0775")]
    {
        assert_eq!(mount.option(option), Some(value), "{option}");
    }
    assert!(mount.options.iter().any(|(key, value)| key == "seal" && value.is_none()));
    assert!(mount.options.iter().all(|(key, _)| key != "_netdev" && key != "noexec"));
}

#[test]
fn a_guest_needs_no_secret_and_has_none() {
    let host = host();
    let without = Volume::builder("csi:cifs.volhost.io")
        .field("driver", "cifs.volhost.io")
        .field("volumeAttributes.source", "//files.example.com/team");
    for option in ["guest", "sec=none"] {
        let volume = without.clone().mount_option(option);
        host.publish::<Cifs>(&volume, &Pod::builder()).unwrap();
        let mount = host.target(volume.name()).mount().unwrap();
        assert_eq!((mount.option("sec"), mount.option("username")), (Some("none"), None));
        host.unpublish::<Cifs>(volume.name()).unwrap();
    }
    let error = host.identify::<Cifs>(&without).unwrap_err();
    assert!(error.message().starts_with("csi.nodeStageSecretRef: is missing"), "{error}");
    let error = host.identify::<Cifs>(&volume().mount_option("guest")).unwrap_err();
    assert!(error.message().contains("exclude each other"), "{error}");
}

#[test]
fn an_address_of_ipv6_and_a_folder_of_the_share_are_mounted() {
    let host = host();
    for source in ["//2001:db8::1/team", "//[2001:db8::1]/team/"] {
        let volume = volume().field("volumeAttributes.source", source).field("volumeAttributes.subDir", "a b");
        host.publish::<Cifs>(&volume, &Pod::builder()).unwrap();
        let mount = host.target(volume.name()).mount().unwrap();
        assert_eq!(mount.source.as_deref(), Some("//2001:db8::1/team/a b"));
        host.unpublish::<Cifs>(volume.name()).unwrap();
    }
}

#[test]
fn a_read_only_volume_is_mounted_so() {
    let host = host();
    for volume in [volume().read_only(), volume().field("readOnly", "true")] {
        host.publish::<Cifs>(&volume, &Pod::builder()).unwrap();
        assert!(host.target(volume.name()).mount().unwrap().is_read_only());
        host.unpublish::<Cifs>(volume.name()).unwrap();
    }
}

#[test]
fn a_secret_that_lacks_a_key_or_is_another_namespaces_is_refused() {
    let host = host();
    host.secret("half", &[("username", b"u")]);
    let publish = |volume: &TestVolume| host.publish::<Cifs>(volume, &Pod::builder()).unwrap_err();
    let error = publish(&volume().field("nodePublishSecretRef.name", "half"));
    assert!(matches!(error, Error::Precondition(_)) && error.message().contains("no key password"), "{error}");
    let error = publish(&volume().field("nodePublishSecretRef.name", "other"));
    assert!(matches!(error, Error::NotFound(_)), "{error}");
    let error = publish(&volume().field("nodePublishSecretRef.namespace", "kube-system"));
    assert!(matches!(error, Error::PermissionDenied(_)), "{error}");
}

#[test]
fn a_server_that_refuses_is_named_and_leaves_nothing() {
    let host = host();
    host.fail("network-mounts.mount", Error::permission_denied("the password is wrong"));
    let error = host.publish::<Cifs>(&volume(), &Pod::builder()).unwrap_err();
    assert!(matches!(error, Error::PermissionDenied(_)) && error.message().starts_with("cifs: "), "{error}");
    let error =
        host.publish::<Cifs>(&volume().field("volumeAttributes.source", "//gone/team"), &Pod::builder()).unwrap_err();
    assert!(matches!(error, Error::Retryable(_)), "{error}");
    assert!(host.target(volume().name()).is_absent() && host.detached_mounts() == 0);
}

#[test]
fn credentials_in_the_mount_options_are_refused_without_their_value() {
    let host = host();
    for option in ["password=horse", "username=horse", "credentials=/etc/horse", "domain=horse"] {
        let error = host.identify::<Cifs>(&volume().mount_option(option)).unwrap_err();
        assert!(matches!(error, Error::InvalidArgument(_)) && error.message().contains("the secret"), "{error}");
        assert!(!error.message().contains("horse"), "{error}");
    }
}

#[test]
fn a_bad_field_is_named_with_its_value() {
    let host = host();
    for (field, value, said) in [
        ("source", "", "must not be empty"),
        ("source", "files/team", "must be //SERVER/SHARE"),
        ("source", "//files", "must be //SERVER/SHARE"),
        ("source", "//files/", "single slashes"),
        ("source", "///team", "name or address of a server"),
        ("source", "//a,ip=10.0.0.1/team", "name or address of a server"),
        ("source", "//a b/team", "name or address of a server"),
        ("source", "//[10.0.0.1]/team", "name or address of a server"),
        ("source", "//-a/team", "name or address of a server"),
        ("source", "\\\\files\\team", "must be //SERVER/SHARE"),
        ("source", "//files/team\\..\\other", "has a backslash"),
        ("source", "//files/team/../other", "must not contain"),
        ("source", "//files//team", "single slashes"),
        ("source", "//files/te\nam", "control character"),
        ("subDir", "..", "must not contain"),
        ("subDir", "a//b", "single slashes"),
        ("subDir", "a\\b", "has a backslash"),
        ("password", "x", "no such field"),
    ] {
        let volume = volume().field(&format!("volumeAttributes.{field}"), value);
        let error = host.identify::<Cifs>(&volume).unwrap_err();
        let place = format!("csi.volumeAttributes.{field}: ");
        assert!(matches!(error, Error::InvalidArgument(_)), "{field} {value:?}: {error}");
        assert!(error.message().starts_with(&place) && error.message().contains(said), "{field} {value:?}: {error}");
    }
    let two = volume().field("nodeStageSecretRef.name", "login");
    let error = host.identify::<Cifs>(&two).unwrap_err();
    assert!(error.message().starts_with("csi.nodePublishSecretRef: "), "{error}");
}
