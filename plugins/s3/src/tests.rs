use volhost_plugin_sdk::testing::{TestHost, TestVolume};

use super::*;

const SLOTS: [&str; 8] = ["bucket", "path", "endpoint", "region", "uid", "gid", "access-key-id", "secret-access-key"];

fn host() -> TestHost {
    let host = TestHost::new();
    host.fuse_server("s3", &SLOTS);
    host.secret("bucket-key", &[("accessKeyID", b"id"), ("secretAccessKey", b"key")]);
    host
}

fn volume() -> TestVolume {
    Volume::builder("csi:s3.volhost.io")
        .field("driver", "s3.volhost.io")
        .field("nodePublishSecretRef.name", "bucket-key")
        .field("volumeAttributes.bucket", "reports")
}

#[test]
fn a_server_is_started_for_the_pod_and_every_call_may_be_repeated() {
    let host = host();
    let volume = volume()
        .field("volumeAttributes.prefix", "team-a/2026/")
        .field("volumeAttributes.endpoint", "http://[2001:db8::1]:9000")
        .field("volumeAttributes.region", "eu-central-1");
    for _ in 0..2 {
        host.publish::<S3>(&volume, &Pod::builder().fs_group(2000)).unwrap();
    }
    let mount = host.target(volume.name()).mount().unwrap();
    assert_eq!(mount.fs_type, "fuse.s3");
    for (slot, value) in [
        ("bucket", Some("reports")),
        ("path", Some("reports/team-a/2026")),
        ("endpoint", Some("http://[2001:db8::1]:9000")),
        ("region", Some("eu-central-1")),
        ("access-key-id", Some("secret")),
        ("secret-access-key", Some("secret")),
        ("uid", None),
        ("gid", Some("2000")),
    ] {
        assert_eq!(mount.option(slot), value, "{slot}");
    }
    for _ in 0..2 {
        host.unpublish::<S3>(volume.name()).unwrap();
    }
    assert!(host.target(volume.name()).is_absent() && host.detached_mounts() == 0);
    assert_eq!(host.calls().iter().filter(|call| **call == "fuse-servers.serve").count(), 1);
}

#[test]
fn without_an_endpoint_the_region_of_amazon_is_used() {
    let host = host();
    for (volume, endpoint) in [
        (volume(), "https://s3.us-east-1.amazonaws.com"),
        (volume().field("volumeAttributes.region", "eu-west-1"), "https://s3.eu-west-1.amazonaws.com"),
    ] {
        host.publish::<S3>(&volume, &Pod::builder()).unwrap();
        let mount = host.target(volume.name()).mount().unwrap();
        assert_eq!((mount.option("endpoint"), mount.option("path")), (Some(endpoint), Some("reports")));
        host.unpublish::<S3>(volume.name()).unwrap();
    }
}

#[test]
fn a_read_only_volume_is_mounted_so() {
    let host = host();
    for volume in [volume().read_only(), volume().field("readOnly", "true")] {
        host.publish::<S3>(&volume, &Pod::builder()).unwrap();
        assert!(host.target(volume.name()).mount().unwrap().is_read_only());
        host.unpublish::<S3>(volume.name()).unwrap();
    }
}

#[test]
fn a_secret_that_lacks_a_key_or_is_another_namespaces_is_refused() {
    let host = host();
    host.secret("half", &[("accessKeyID", b"id")]);
    let publish = |volume: &TestVolume| host.publish::<S3>(volume, &Pod::builder()).unwrap_err();
    let error = publish(&volume().field("nodePublishSecretRef.name", "half"));
    assert!(matches!(error, Error::Precondition(_)) && error.message().contains("no key secretAccessKey"), "{error}");
    let error = publish(&volume().field("nodePublishSecretRef.name", "other"));
    assert!(matches!(error, Error::NotFound(_)), "{error}");
    let error = publish(&volume().field("nodePublishSecretRef.namespace", "kube-system"));
    assert!(matches!(error, Error::PermissionDenied(_)), "{error}");
}

#[test]
fn a_server_that_does_not_serve_is_named_and_leaves_nothing() {
    let host = host();
    host.fail("fuse-servers.serve", Error::retryable("it did not serve"));
    let error = host.publish::<S3>(&volume(), &Pod::builder()).unwrap_err();
    assert!(matches!(error, Error::Retryable(_)), "{error}");
    assert!(error.message().starts_with("s3: reports at https://s3.us-east-1.amazonaws.com: "), "{error}");
    assert!(host.target(volume().name()).is_absent() && host.detached_mounts() == 0);
}

#[test]
fn a_bad_field_is_named_with_its_value() {
    let host = host();
    for (field, value, said) in [
        ("bucket", "", "must not be empty"),
        ("bucket", "ab", "is no name of a bucket"),
        ("bucket", "Reports", "is no name of a bucket"),
        ("bucket", "-reports", "is no name of a bucket"),
        ("bucket", "a..b", "is no name of a bucket"),
        ("bucket", "reports/x", "is no name of a bucket"),
        ("bucket", "reports,allow_other", "is no name of a bucket"),
        ("bucket", "s3:reports", "is no name of a bucket"),
        ("prefix", "", "none of them empty"),
        ("prefix", "/etc", "none of them empty"),
        ("prefix", "a//b", "none of them empty"),
        ("prefix", "a/../b", "none of them empty"),
        ("prefix", "a b", "may have letters"),
        ("prefix", "a,b", "may have letters"),
        ("prefix", "a\nb", "may have letters"),
        ("prefix", "a=b", "may have letters"),
        ("endpoint", "s3.example.com", "must be `https://`"),
        ("endpoint", "file:///etc", "must be `https://`"),
        ("endpoint", "https://", "must be `https://`"),
        ("endpoint", "https://a@b", "must be `https://`"),
        ("endpoint", "https://a/b?c=d", "must be `https://`"),
        ("endpoint", "https://a\ntype = local", "must be `https://`"),
        ("region", "", "is no name of a region"),
        ("region", "eu/x", "is no name of a region"),
        ("region", "eu\nx", "is no name of a region"),
        ("uid", "root", "must be the number of a user"),
        ("gid", "-1", "must be the number of a group"),
        ("gid", "4294967295", "must be the number of a group"),
        ("accessKeyID", "x", "no such field"),
    ] {
        let volume = volume().field(&format!("volumeAttributes.{field}"), value);
        let error = host.identify::<S3>(&volume).unwrap_err();
        let place = format!("csi.volumeAttributes.{field}: ");
        assert!(matches!(error, Error::InvalidArgument(_)), "{field} {value:?}: {error}");
        assert!(error.message().starts_with(&place) && error.message().contains(said), "{field} {value:?}: {error}");
    }
    let without = Volume::builder("csi:s3.volhost.io").field("volumeAttributes.bucket", "abc");
    let error = host.identify::<S3>(&without).unwrap_err();
    assert!(error.message().starts_with("csi.nodePublishSecretRef: is missing"), "{error}");
}
