use volhost_plugin_sdk::testing::{TestAttachment, TestHost, TestVolume};

use super::*;

const IMAGE: &str = "/images/data.img";
const GIB: u64 = 1 << 30;

fn host() -> TestHost {
    let host = TestHost::new();
    host.grant_images("/images");
    host
}

fn plain() -> TestVolume {
    Volume::builder("csi:loop.volhost.io").persistent_volume("pv-1").field("driver", "loop.volhost.io")
}

fn volume() -> TestVolume {
    plain().field("volumeHandle", "data.img").capacity(GIB)
}

/// Attaches as the host does.
fn attached(host: &TestHost, volume: &TestVolume) -> TestAttachment {
    let attached = host.attach::<Loop>(volume).unwrap();
    host.wait_for_attach::<Loop>(volume, &attached).unwrap()
}

/// Attaches and mounts for the node.
fn mounted(host: &TestHost, volume: &TestVolume) -> TestAttachment {
    let attached = attached(host, volume);
    host.mount_device::<Loop>(volume, Some(&attached)).unwrap();
    attached
}

#[test]
fn it_serves_its_driver_and_no_other() {
    let about = TestHost::new().describe::<Loop>();
    assert_eq!(
        (about.name.as_str(), about.serves.as_slice()),
        ("volhost.io/loop", &["csi:loop.volhost.io".into()][..])
    );
    assert!(about.accepts_mount_options);
}

#[test]
fn a_volume_is_named_by_its_image() {
    let host = host();
    assert_eq!(host.identify::<Loop>(&volume()), Ok(Some(IMAGE.to_owned())));
    let elsewhere = volume().field("volumeAttributes.folder", "/srv/x/").field("volumeAttributes", "{}");
    assert_eq!(host.identify::<Loop>(&elsewhere), Ok(Some("/srv/x/data.img".to_owned())));
    assert_eq!(host.identity::<Loop>(&volume()).unwrap().attachable, None, "what it exports tells");
}

#[test]
fn a_bad_field_is_named_with_its_value_and_what_is_right() {
    let host = host();
    for (volume, said) in [
        (plain(), "csi.volumeHandle: is missing"),
        (plain().field("volumeHandle", "a/b"), r#"csi.volumeHandle: "a/b" must be a file name"#),
        (plain().field("volumeHandle", "../b"), r#"csi.volumeHandle: "../b" must be a file name"#),
        (volume().field("fsType", "ntfs"), r#"csi.fsType: "ntfs" is not known"#),
        (volume().field("fstype", "xfs"), "csi.fstype: no such field; did you mean fsType?"),
        (
            volume().field("volumeAttributes.folder", "x"),
            r#"csi.volumeAttributes.folder: "x" must be an absolute path"#,
        ),
        (Volume::builder("csi:loop.volhost.io").field("volumeHandle", "x"), "csi: a volume of loop.volhost.io is a"),
    ] {
        let error = host.identify::<Loop>(&volume).unwrap_err();
        assert!(matches!(error, Error::InvalidArgument(_)) && error.message().starts_with(said), "{said}: {error}");
    }
}

#[test]
fn the_folder_is_the_granted_one_or_must_be_said() {
    let ungranted = TestHost::new();
    assert!(ungranted.identify::<Loop>(&volume()).unwrap_err().message().contains("loop-files"));
    drop(ungranted);
    let host = host();
    host.grant_images("/more");
    let error = host.identify::<Loop>(&volume()).unwrap_err();
    assert!(error.message().contains("name one of /images, /more"), "{error}");
}

#[test]
fn attaching_makes_the_image_once_and_keeps_its_device() {
    let host = host();
    for _ in 0..2 {
        assert_eq!(attached(&host, &volume()).clone(), attached(&host, &volume()));
        assert_eq!(host.disk(IMAGE).unwrap().size, GIB);
        assert!(host.is_attached::<Loop>(IMAGE).unwrap());
    }
    host.detach::<Loop>(IMAGE).unwrap();
    host.detach::<Loop>(IMAGE).unwrap();
    assert!(host.loop_over(IMAGE).is_none() && host.disk(IMAGE).is_some(), "the image stays");
    assert!(!host.is_attached::<Loop>(IMAGE).unwrap());
}

#[test]
fn an_image_without_a_size_is_not_made() {
    let host = host();
    let error = host.attach::<Loop>(&plain().field("volumeHandle", "data.img")).unwrap_err();
    assert!(error.message().contains("spec.capacity.storage"), "{error}");
    assert!(host.disk(IMAGE).is_none());
}

#[test]
fn a_lost_device_is_waited_for() {
    let host = host();
    let lost = host.attach::<Loop>(&volume()).unwrap();
    host.detach::<Loop>(IMAGE).unwrap();
    assert!(matches!(host.wait_for_attach::<Loop>(&volume(), &lost), Err(Error::Retryable(_))));
}

#[test]
fn a_blank_image_is_formatted_and_mounted_for_the_node_then_for_the_pod() {
    let host = host();
    let volume = volume().field("fsType", "xfs").mount_option("noatime,discard").mount_option("commit=5");
    mounted(&host, &volume);
    let node = host.node_target("pv-1").mount().unwrap();
    assert_eq!((node.fs_type.as_str(), node.has_option("discard"), node.option("commit")), ("xfs", true, Some("5")));
    host.set_up::<Loop>(&volume, &Pod::builder()).unwrap();
    let pod = host.target("pv-1").mount().unwrap();
    assert_eq!((pod.source, pod.flags.contains("noatime")), (node.source, true));
    assert_eq!(host.detached_mounts(), 0);
    // Again, and nothing changes.
    host.mount_device::<Loop>(&volume, None).unwrap();
    host.set_up::<Loop>(&volume, &Pod::builder()).unwrap();
}

#[test]
fn what_has_data_is_never_formatted() {
    for held in ["partitions", "xfs", "crypto_LUKS"] {
        let host = host();
        host.image(IMAGE, GIB).contents(IMAGE, held);
        let attached = attached(&host, &volume());
        let error = host.mount_device::<Loop>(&volume(), Some(&attached)).unwrap_err();
        assert!(matches!(error, Error::Conflict(_)) && error.message().contains(held), "{error}");
        assert_eq!(host.disk(IMAGE).unwrap().contents.as_deref(), Some(held));
        assert!(!host.calls().contains(&"format") && host.node_target("pv-1").is_absent());
    }
}

#[test]
fn a_read_only_volume_is_neither_made_nor_formatted_nor_grown() {
    let host = host();
    let volume = volume().field("readOnly", true).read_only();
    assert!(matches!(host.attach::<Loop>(&volume), Err(Error::NotFound(_))));
    host.image(IMAGE, GIB / 2);
    let attached = attached(&host, &volume);
    assert!(matches!(host.mount_device::<Loop>(&volume, Some(&attached)), Err(Error::Precondition(_))));
    host.contents(IMAGE, "ext4");
    host.mount_device::<Loop>(&volume, Some(&attached)).unwrap();
    assert!(host.node_target("pv-1").mount().unwrap().is_read_only());
    assert!(matches!(host.expand::<Loop>(&volume, Some(&attached), true, GIB), Err(Error::Unsupported(_))));
    assert_eq!(host.disk(IMAGE).unwrap().size, GIB / 2);
}

#[test]
fn one_pod_may_have_it_read_only_while_the_node_has_it_writable() {
    let host = host();
    mounted(&host, &volume());
    host.set_up::<Loop>(&volume().read_only(), &Pod::builder()).unwrap();
    assert!(host.target("pv-1").mount().unwrap().is_read_only());
    assert!(!host.node_target("pv-1").mount().unwrap().is_read_only());
}

#[test]
fn a_pod_that_may_write_gets_the_files_for_its_group() {
    let host = host();
    mounted(&host, &volume());
    let pod = Pod::builder().fs_group(2000);
    host.set_up::<Loop>(&volume().read_only(), &pod).unwrap();
    assert_eq!(host.target("pv-1").group(), None, "a reader takes it as it is");
    let other = pod.clone().with_uid("uid-2");
    host.fail("apply-fs-group", Error::busy("held"));
    assert!(matches!(host.set_up::<Loop>(&volume(), &other), Err(Error::Uncertain(_))), "it is mounted, and not done");
    host.set_up::<Loop>(&volume(), &other).unwrap();
    assert_eq!(host.target_of(&other, "pv-1").group(), Some(2000));
}

#[test]
fn a_pods_mount_waits_for_the_nodes() {
    let host = host();
    attached(&host, &volume());
    assert!(matches!(host.set_up::<Loop>(&volume(), &Pod::builder()), Err(Error::Precondition(_))));
}

#[test]
fn a_damaged_file_system_is_told_and_left_alone() {
    let host = host();
    host.image(IMAGE, GIB).contents(IMAGE, "ext4").damage(IMAGE);
    let attached = attached(&host, &volume());
    assert!(matches!(host.mount_device::<Loop>(&volume(), Some(&attached)), Err(Error::Corrupt(_))));
}

#[test]
fn the_device_is_handed_over_as_it_is() {
    let host = host();
    let attached = attached(&host, &volume());
    let device = host.set_up_device::<Loop>(&volume(), Some(&attached)).unwrap();
    assert_eq!(Some(device.clone()), host.loop_over(IMAGE));
    assert_eq!(host.map_pod_device::<Loop>(&volume(), &Pod::builder(), &device), Ok(None));
    assert_eq!(host.disk(IMAGE).unwrap().contents, None, "nothing is written to it");
}

#[test]
fn a_raised_capacity_grows_file_and_file_system_and_never_shrinks() {
    let host = host();
    let attached = mounted(&host, &volume());
    assert_eq!(host.expand::<Loop>(&volume(), Some(&attached), true, 2 * GIB), Ok(2 * GIB));
    let disk = host.disk(IMAGE).unwrap();
    assert_eq!((disk.size, disk.fs_size), (2 * GIB, 2 * GIB));
    assert_eq!(host.expand::<Loop>(&volume(), Some(&attached), true, GIB), Ok(2 * GIB));
    assert_eq!(host.expand::<Loop>(&volume(), Some(&attached), false, 3 * GIB), Ok(3 * GIB), "as a device");
    assert_eq!(host.disk(IMAGE).unwrap().fs_size, 2 * GIB);
}

#[test]
fn a_busy_device_is_not_detached() {
    let host = host();
    mounted(&host, &volume());
    host.use_device("/dev/loop0", true);
    assert!(matches!(host.detach::<Loop>(IMAGE), Err(Error::Busy(_))));
    host.use_device("/dev/loop0", false);
    host.unmount_device::<Loop>(IMAGE, "pv-1").unwrap();
    host.detach::<Loop>(IMAGE).unwrap();
    assert!(host.node_target("pv-1").is_absent() && host.loop_over(IMAGE).is_none());
}

#[test]
fn where_the_owner_allows_it_each_pods_group_is_mapped_and_no_file_is_touched() {
    let host = host();
    let volume = volume().annotation("volhost.io/fs-group", "map");
    mounted(&host, &volume);
    for (uid, group) in [("uid-1", 2000), ("uid-2", 3000)] {
        let pod = Pod::builder().with_uid(uid).fs_group(group);
        for _ in 0..2 {
            host.set_up::<Loop>(&volume, &pod).unwrap();
        }
        assert_eq!(host.target_of(&pod, "pv-1").mount().unwrap().mapped_group, Some(group));
    }
    assert!(!host.calls().contains(&"apply-fs-group"));
    host.fail("id-maps.map-group", Error::unsupported("this file system can't"));
    let third = Pod::builder().with_uid("uid-3").fs_group(4000);
    let error = host.set_up::<Loop>(&volume, &third).unwrap_err();
    assert!(matches!(error, Error::Unsupported(_)) && error.message().contains("volhost.io/fs-group"), "{error}");
    assert!(host.target_of(&third, "pv-1").is_absent() && host.detached_mounts() == 0);
    let other = volume.annotation("volhost.io/fs-group", "none");
    assert!(host.identify::<Loop>(&other).unwrap_err().message().contains("volhost.io/fs-group"));
}

#[test]
fn an_image_outside_the_granted_folders_is_refused() {
    let host = host();
    let volume = volume().field("volumeAttributes.folder", "/etc");
    assert!(matches!(host.attach::<Loop>(&volume), Err(Error::PermissionDenied(_))));
}

#[test]
fn a_failed_step_leaves_no_mount_behind_and_keeps_its_case() {
    for call in ["probe", "format", "filesystems.mount", "attach", "attachment.open"] {
        let host = host();
        let attached = attached(&host, &volume());
        host.fail(call, Error::uncertain("lost"));
        let error = host.mount_device::<Loop>(&volume(), Some(&attached)).unwrap_err();
        assert!(matches!(error, Error::Uncertain(_)), "{call}: {error}");
        assert!(host.node_target("pv-1").is_absent() && host.detached_mounts() == 0, "{call}");
        host.mount_device::<Loop>(&volume(), Some(&attached)).unwrap();
    }
}

#[test]
fn a_volume_whose_device_or_image_is_gone_is_not_well() {
    let host = host();
    let volume = volume();
    attached(&host, &volume);
    assert_eq!(host.measure::<Loop>(IMAGE, None).unwrap().abnormal, None);
    host.detach::<Loop>(IMAGE).unwrap();
    let said = host.measure::<Loop>(IMAGE, None).unwrap();
    assert!(said.abnormal.unwrap().contains("has no loop device any more"));
    assert_eq!(said.used, None, "its file system knows better");
    assert!(host.measure::<Loop>("/images/never-made.img", None).unwrap().abnormal.is_some());
}
