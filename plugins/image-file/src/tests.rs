use volhost_plugin_sdk::testing::{TestHost, TestVolume};

use super::*;

const IMAGE: &str = "/images/app.erofs";

fn host() -> TestHost {
    let host = TestHost::new();
    host.grant_image_files("/images").image_file(IMAGE, "erofs").image_file("/images/empty", "nothing");
    host
}

fn plain() -> TestVolume {
    Volume::builder("csi:image-file.volhost.io").field("driver", "image-file.volhost.io").read_only()
}

fn volume() -> TestVolume {
    named("app.erofs")
}

fn named(image: &str) -> TestVolume {
    plain().field("fsType", "erofs").field("volumeAttributes", "{}").field("volumeAttributes.image", image)
}

#[test]
fn it_serves_its_driver_for_reading_alone() {
    let about = TestHost::new().describe::<ImageFile>();
    assert_eq!(about.serves, ["csi:image-file.volhost.io"]);
    assert!(about.accepts_mount_options && about.read_only);
}

#[test]
fn a_volume_is_named_by_its_image() {
    let host = host();
    for image in ["app.erofs", IMAGE] {
        assert_eq!(host.identify::<ImageFile>(&named(image)), Ok(Some(format!("erofs:{IMAGE}"))));
    }
}

#[test]
fn with_the_annotation_the_image_is_mapped_to_the_pods_group() {
    let host = host();
    let pod = Pod::builder().fs_group(2000);
    for (volume, mapped) in [(volume(), None), (volume().annotation("volhost.io/fs-group", "map"), Some(2000))] {
        host.stage::<ImageFile>(&volume, None).unwrap();
        host.publish::<ImageFile>(&volume, &pod).unwrap();
        assert_eq!(host.target_of(&pod, volume.name()).mount().unwrap().mapped_group, mapped);
        host.unpublish::<ImageFile>(volume.name()).unwrap();
    }
}

#[test]
fn an_image_is_staged_once_and_bound_for_pods() {
    let host = host();
    let volume = volume().mount_option("noexec,cache_strategy=disabled");
    assert!(matches!(host.publish::<ImageFile>(&volume, &Pod::builder()), Err(Error::Precondition(_))));
    for _ in 0..2 {
        host.stage::<ImageFile>(&volume, None).unwrap();
        host.publish::<ImageFile>(&volume, &Pod::builder()).unwrap();
    }
    let node = host.node_target(volume.name()).mount().unwrap();
    assert_eq!((node.fs_type.as_str(), node.option("cache_strategy")), ("erofs", Some("disabled")));
    let flags: Vec<String> = host.target(volume.name()).mount().unwrap().flags.into_iter().collect();
    assert_eq!(flags, ["nodev", "noexec", "nosuid", "ro"]);
    host.unpublish::<ImageFile>(volume.name()).unwrap();
    host.unstage::<ImageFile>("any", volume.name()).unwrap();
    assert!(host.target(volume.name()).is_absent() && host.node_target(volume.name()).is_absent());
    assert_eq!(host.detached_mounts(), 0);
}

#[test]
fn a_missing_or_wrong_image_is_reported() {
    let host = host();
    let mount = |volume: &TestVolume| host.stage::<ImageFile>(volume, None).unwrap_err();
    let other = mount(&volume().field("fsType", "squashfs"));
    assert!(matches!(other, Error::Conflict(_)) && other.message().contains("contains erofs"), "{other}");
    assert!(matches!(mount(&named("/images/empty")), Error::Conflict(_)));
    assert!(matches!(mount(&named("/images/nowhere")), Error::NotFound(_)));
    let outside = mount(&named("/etc/passwd"));
    assert!(matches!(outside, Error::PermissionDenied(_)), "{outside}");
    assert!(outside.message().starts_with("csi.volumeAttributes.image"), "{outside}");
    assert_eq!(host.detached_mounts(), 0);
}

#[test]
fn a_bad_field_is_named_with_its_value_and_what_is_right() {
    let host = host();
    for (volume, said) in [
        (plain().field("fsType", "erofs"), "csi.volumeAttributes: is missing, and must be a map"),
        (plain().field("volumeAttributes", "{}"), "csi.fsType: is missing"),
        (plain().field("volumeAttributes", "{}").field("fsType", "erofs"), "csi.volumeAttributes.image: is missing"),
        (volume().field("fsType", "iso9660"), r#"csi.fsType: "iso9660" is not known"#),
        (volume().field("readOnly", "false"), "csi.readOnly: an image can't be written"),
        (volume().field("readOnly", "perhaps"), "csi.readOnly: \"perhaps\""),
        (named("../app"), r#"csi.volumeAttributes.image: "../app" must not contain "..""#),
        (named("/images/../etc/x"), r#"csi.volumeAttributes.image: "/images/../etc/x" must not contain "..""#),
        (named("a\nb"), "csi.volumeAttributes.image: "),
        (named("folder/"), r#"csi.volumeAttributes.image: "folder/" must name a file"#),
        (named(&"x".repeat(901)), "csi.volumeAttributes.image: "),
        (volume().field("volumeAttributes.imag", "x"), "csi.volumeAttributes.imag: no such field; did you mean image?"),
    ] {
        let error = host.identify::<ImageFile>(&volume).unwrap_err();
        assert!(matches!(error, Error::InvalidArgument(_)) && error.message().starts_with(said), "{said}: {error}");
    }
    host.grant_image_files("/more");
    let error = host.identify::<ImageFile>(&volume()).unwrap_err();
    assert!(error.message().contains("several folders are granted: /images, /more"), "{error}");
    drop(host);
    let ungranted = TestHost::new();
    assert!(ungranted.identify::<ImageFile>(&volume()).unwrap_err().message().contains("image-files"));
}

#[test]
fn a_failed_step_leaves_no_mount_behind() {
    for call in ["image-files.mount", "set-options", "attach"] {
        let host = host();
        host.fail(call, Error::uncertain("lost"));
        let error = host.stage::<ImageFile>(&volume(), None).unwrap_err();
        assert!(matches!(error, Error::Uncertain(_)), "{call} {error}");
        assert!(host.node_target(volume().name()).is_absent() && host.detached_mounts() == 0, "{call}");
    }
}
