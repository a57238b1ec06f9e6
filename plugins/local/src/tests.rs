use volhost_plugin_sdk::testing::{TestHost, TestMount, TestPod, TestVolume};

use super::*;

const GIB: u64 = 1 << 30;
const DISK: &str = "/dev/sdb";

/// A node with one disk's folder and one blank disk, all granted.
fn host() -> TestHost {
    let host = TestHost::new();
    host.grant("/").grant_devices("/dev").node_name("n7");
    host.directory("/mnt/disk1").file("/mnt/file").disk_device(DISK, GIB);
    host
}

fn volume(path: &str) -> TestVolume {
    Volume::builder("local").persistent_volume("pv-1").claim("default/data").field("path", path)
}

/// Stages, then publishes, as the host does.
fn publish_for(host: &TestHost, volume: &TestVolume, pod: &TestPod) -> Result<()> {
    host.stage::<Local>(volume, None)?;
    host.publish::<Local>(volume, pod)
}

fn publish(host: &TestHost, volume: &TestVolume) -> Result<()> {
    publish_for(host, volume, &Pod::builder())
}

fn mount(host: &TestHost) -> TestMount {
    host.target("pv-1").mount().expect("it is mounted")
}

#[test]
fn it_serves_local_and_accepts_mount_options() {
    let about = TestHost::new().describe::<Local>();
    assert_eq!(about.name, "kubernetes.io/local-volume");
    assert_eq!(about.serves, ["local"]);
    assert!(about.accepts_mount_options);
}

#[test]
fn a_volume_is_named_by_its_persistent_volume() {
    let host = host();
    let identity = host.identity::<Local>(&volume("/mnt/disk1")).unwrap();
    assert_eq!((identity.name.as_deref(), identity.stageable), (Some("pv-1"), None));
    assert!(host.calls().is_empty(), "identify calls nothing on the node");
}

#[test]
fn without_a_persistent_volume_it_is_refused_with_the_way_out() {
    let error = host().identify::<Local>(&Volume::builder("local").field("path", "/mnt/disk1")).unwrap_err();
    assert!(matches!(error, Error::InvalidArgument(_)) && error.message().contains("persistentVolumeClaim"), "{error}");
}

#[test]
fn the_folder_is_staged_and_published_without_the_mounts_below() {
    let host = host();
    for _ in 0..2 {
        publish(&host, &volume("/mnt/disk1").field("fsType", "ext4")).unwrap();
        for mount in [mount(&host), host.node_target("pv-1").mount().unwrap()] {
            assert_eq!(mount.source.as_deref(), Some("/mnt/disk1"));
            assert!(!mount.recursive && mount.flags.is_empty());
        }
    }
    assert_eq!(host.detached_mounts(), 0);
}

#[test]
fn publish_waits_for_the_staging_mount() {
    let error = host().publish::<Local>(&volume("/mnt/disk1"), &Pod::builder()).unwrap_err();
    assert!(matches!(error, Error::Precondition(_)) && error.message().contains("not staged on this node"), "{error}");
}

#[test]
fn a_read_only_volume_is_read_only_before_it_is_visible_and_for_its_pod_only() {
    let host = host();
    publish(&host, &volume("/mnt/disk1").read_only()).unwrap();
    assert!(mount(&host).is_read_only() && !host.node_target("pv-1").mount().unwrap().is_read_only());
    let calls = host.calls();
    let options = calls.iter().position(|made| *made == "set-options").unwrap();
    assert!(calls.iter().rposition(|made| *made == "attach").unwrap() > options, "{calls:?}");
}

#[test]
fn mount_options_go_to_the_mount_or_the_file_system() {
    let folder = host();
    let options = || volume("/mnt/disk1").mount_option("noexec,nodev").mount_option("noatime").read_only();
    publish(&folder, &options()).unwrap();
    let flags: Vec<String> = mount(&folder).flags.into_iter().collect();
    assert_eq!(flags, ["noatime", "nodev", "noexec", "ro"]);
    drop(folder);
    let host = host();
    publish(&host, &volume(DISK).mount_option("noatime,discard").mount_option("commit=5")).unwrap();
    let node = host.node_target("pv-1").mount().unwrap();
    assert!(node.has_option("discard") && node.option("commit") == Some("5") && node.flags.is_empty());
    assert!(mount(&host).flags.contains("noatime"));
}

#[test]
fn a_mount_option_of_a_file_system_is_refused_for_a_folder() {
    let host = host();
    for option in ["discard", "size=5", "noexec,data=ordered"] {
        let error = publish(&host, &volume("/mnt/disk1").mount_option(option)).unwrap_err();
        assert!(matches!(error, Error::InvalidArgument(_)), "{error}");
        assert!(error.message().starts_with("spec.mountOptions: \"") && error.message().contains("nosuid"), "{error}");
    }
    let error = host.identify::<Local>(&volume("/mnt/disk1").mount_option("ro,")).unwrap_err();
    assert!(matches!(error, Error::InvalidArgument(_)) && error.message().contains("is empty"), "{error}");
    assert!(host.node_target("pv-1").is_absent() && host.detached_mounts() == 0);
}

#[test]
fn a_missing_path_is_waited_for_and_never_created() {
    let host = host();
    let error = publish(&host, &volume("/mnt/disk2")).unwrap_err();
    assert!(matches!(error, Error::NotFound(_)), "{error}");
    for word in ["/mnt/disk2", "node n7", "nodeAffinity", "pv-1"] {
        assert!(error.message().contains(word), "{word}: {error}");
    }
    assert!(!host.has_path("/mnt/disk2"));
    host.directory("/mnt/disk2");
    publish(&host, &volume("/mnt/disk2")).unwrap();
}

#[test]
fn a_blank_device_is_formatted_once_and_staged() {
    let host = host();
    for _ in 0..2 {
        publish(&host, &volume(DISK).field("fsType", "xfs")).unwrap();
        assert_eq!(host.disk(DISK).unwrap().contents.as_deref(), Some("xfs"));
        let (node, pod) = (host.node_target("pv-1").mount().unwrap(), mount(&host));
        assert_eq!(
            (node.fs_type.as_str(), node.source.as_deref(), pod.source),
            ("xfs", Some(DISK), node.source.clone())
        );
    }
    assert_eq!(host.calls().iter().filter(|call| **call == "format").count(), 1);
    assert_eq!(host.detached_mounts(), 0);
}

#[test]
fn without_a_type_a_device_is_ext4() {
    let host = host();
    publish(&host, &volume(DISK)).unwrap();
    assert_eq!(host.disk(DISK).unwrap().contents.as_deref(), Some("ext4"));
}

#[test]
fn a_device_with_data_is_never_formatted() {
    for found in ["partitions", "xfs", "LVM2_member"] {
        let host = host();
        host.contents(DISK, found);
        let error = publish(&host, &volume(DISK)).unwrap_err();
        assert!(matches!(error, Error::Conflict(_)) && error.message().contains(found), "{error}");
        assert_eq!(host.disk(DISK).unwrap().contents.as_deref(), Some(found));
        assert!(!host.calls().contains(&"format") && host.node_target("pv-1").is_absent());
    }
}

#[test]
fn a_device_in_use_is_left_alone() {
    let host = host();
    host.contents(DISK, "ext4").use_device(DISK, true);
    let error = publish(&host, &volume(DISK)).unwrap_err();
    assert!(matches!(error, Error::Busy(_)) && error.message().contains("/dev/sdb is in use on node n7"), "{error}");
    assert!(host.node_target("pv-1").is_absent());
    host.use_device(DISK, false);
    publish(&host, &volume(DISK)).unwrap();
}

#[test]
fn a_device_that_refuses_writes_is_neither_formatted_nor_written() {
    let host = host();
    host.lock_device(DISK);
    let error = publish(&host, &volume(DISK)).unwrap_err();
    assert!(matches!(error, Error::Precondition(_)) && error.message().contains("is blank"), "{error}");
    host.contents(DISK, "ext4");
    publish(&host, &volume(DISK)).unwrap();
    assert!(host.node_target("pv-1").mount().unwrap().is_read_only());
}

#[test]
fn a_damaged_file_system_is_reported_and_left_alone() {
    let host = host();
    host.contents(DISK, "ext4").damage(DISK);
    assert!(matches!(publish(&host, &volume(DISK)), Err(Error::Corrupt(_))));
    assert!(host.node_target("pv-1").is_absent());
}

#[test]
fn a_device_is_mapped_as_it_is_and_a_folder_is_not() {
    let host = host();
    assert_eq!(host.stage_device::<Local>(&volume(DISK), None).unwrap().as_deref(), Some(DISK));
    assert_eq!(host.disk(DISK).unwrap().contents, None, "nothing is written to it");
    let error = host.stage_device::<Local>(&volume("/mnt/disk1"), None).unwrap_err();
    assert!(matches!(error, Error::Precondition(_)) && error.message().contains("volumeMode Filesystem"), "{error}");
}

#[test]
fn a_file_system_grows_with_its_device_and_a_folder_has_nothing_to_grow() {
    let host = host();
    publish(&host, &volume(DISK)).unwrap();
    let error = host.expand::<Local>(&volume(DISK), None, true, 2 * GIB).unwrap_err();
    assert!(matches!(error, Error::Retryable(_)) && error.message().contains("enlarge the device first"), "{error}");
    host.image(DISK, 3 * GIB);
    assert_eq!(host.expand::<Local>(&volume(DISK), None, true, 2 * GIB), Ok(3 * GIB));
    assert_eq!(host.disk(DISK).unwrap().fs_size, 3 * GIB);
    assert_eq!(host.expand::<Local>(&volume(DISK), None, false, 2 * GIB), Ok(3 * GIB), "as a device");
    assert_eq!(host.expand::<Local>(&volume("/mnt/disk1"), None, true, GIB), Ok(GIB));
}

#[test]
fn a_path_that_is_neither_folder_nor_device_is_refused() {
    let error = publish(&host(), &volume("/mnt/file")).unwrap_err();
    assert!(matches!(error, Error::Precondition(_)), "{error}");
    assert!(error.message().contains("/mnt/file is a file; only a directory or a block device"), "{error}");
}

#[test]
fn a_path_outside_the_grant_is_refused_even_through_a_link() {
    let host = TestHost::new();
    host.grant("/mnt").directory("/etc").symlink("/mnt/link", "/etc");
    for path in ["/etc", "/mnt/link"] {
        let error = publish(&host, &volume(path)).unwrap_err();
        assert!(matches!(error, Error::PermissionDenied(_)), "{error}");
    }
    host.grant("/dev").grant_devices("/dev/sdc").disk_device(DISK, GIB);
    let error = publish(&host, &volume(DISK)).unwrap_err();
    assert!(matches!(error, Error::PermissionDenied(_)), "the device itself must be granted: {error}");
}

#[test]
fn a_bad_field_is_named_with_its_value_and_what_is_right() {
    let host = host();
    let plain = || Volume::builder("local").persistent_volume("pv-1");
    for (volume, said) in [
        (plain(), "local.path: is missing"),
        (plain().field("path", "mnt"), r#"local.path: "mnt" must be an absolute path"#),
        (plain().field("path", "/mnt/../etc"), r#"local.path: "/mnt/../etc" must not contain "..""#),
        (volume("/mnt").field("fstype", "xfs"), "local.fstype: no such field; did you mean fsType?"),
        (volume("/mnt").field("fsType", "ntfs"), r#"local.fsType: "ntfs" is not known"#),
        (
            volume("/mnt").annotation("volhost.io/fs-group", "none"),
            r#"metadata.annotations[volhost.io/fs-group]: "none" is not known. Known: "walk", "map""#,
        ),
    ] {
        let error = host.identify::<Local>(&volume).unwrap_err();
        assert!(matches!(error, Error::InvalidArgument(_)), "{error}");
        assert!(error.message().starts_with(said), "{error}");
    }
}

#[test]
fn the_first_pod_gets_the_files_for_its_group() {
    let host = host();
    publish_for(&host, &volume("/mnt/disk1").read_only(), &Pod::builder().fs_group(2000)).unwrap();
    assert_eq!(host.target("pv-1").group(), None, "a reader takes it as it is");
    host.unpublish::<Local>("pv-1").unwrap();
    host.fail("apply-fs-group", Error::busy("in use"));
    let pod = Pod::builder().fs_group(2000);
    assert!(matches!(publish_for(&host, &volume("/mnt/disk1"), &pod), Err(Error::Uncertain(_))), "mounted, not done");
    publish_for(&host, &volume("/mnt/disk1"), &pod).unwrap();
    assert_eq!(host.target("pv-1").group(), Some(2000));
    assert!(host.events().is_empty());
}

#[test]
fn a_later_pod_gets_the_files_as_they_are_and_an_event() {
    let host = host();
    publish(&host, &volume("/mnt/disk1")).unwrap();
    let other = Pod::builder().with_uid("uid-2").fs_group(2000);
    publish_for(&host, &volume("/mnt/disk1"), &other).unwrap();
    assert_eq!(host.target_of(&other, "pv-1").group(), None);
    let events = host.events();
    assert_eq!((events.len(), events[0].reason.as_str()), (1, "AlreadyMountedVolume"));
    assert_eq!(
        events[0].message,
        "The requested fsGroup is 2000, but the volume pv-1 has GID 0. The volume may not be shareable."
    );
    host.unpublish::<Local>("pv-1").unwrap();
    publish_for(&host, &volume("/mnt/disk1"), &other).unwrap();
    assert_eq!(host.target_of(&other, "pv-1").group(), Some(2000), "it is the only one now");
}

#[test]
fn with_the_annotation_each_pods_group_is_mapped_and_no_file_changes() {
    let host = host();
    let volume = volume("/mnt/disk1").annotation("volhost.io/fs-group", "map");
    for (uid, group) in [("uid-1", 2000), ("uid-2", 3000)] {
        let pod = Pod::builder().with_uid(uid).fs_group(group);
        publish_for(&host, &volume, &pod).unwrap();
        assert_eq!(host.target_of(&pod, "pv-1").mount().unwrap().mapped_group, Some(group));
    }
    assert!(!host.calls().contains(&"apply-fs-group") && host.events().is_empty());
    host.fail("id-maps.map-group", Error::unsupported("this file system can't"));
    let third = Pod::builder().with_uid("uid-3").fs_group(4000);
    let error = publish_for(&host, &volume, &third).unwrap_err();
    assert!(matches!(error, Error::Unsupported(_)) && error.message().contains("volhost.io/fs-group"), "{error}");
    assert!(host.target_of(&third, "pv-1").is_absent() && host.detached_mounts() == 0);
}

#[test]
fn unpublish_and_unstage_leave_folder_and_device_alone() {
    for path in ["/mnt/disk1", DISK] {
        let host = host();
        publish(&host, &volume(path)).unwrap();
        for _ in 0..2 {
            host.unpublish::<Local>("pv-1").unwrap();
            host.unstage::<Local>("pv-1", "pv-1").unwrap();
            assert!(host.target("pv-1").is_absent() && host.node_target("pv-1").is_absent() && host.has_path(path));
        }
        assert!(!host.calls().contains(&"delete-folder"));
    }
}

#[test]
fn a_failed_step_leaves_no_mount_behind() {
    for call in ["open", "block-devices.open", "probe", "format", "filesystems.mount", "attach"] {
        let host = host();
        host.fail(call, Error::uncertain("lost"));
        let error = publish(&host, &volume(DISK)).unwrap_err();
        assert!(matches!(error, Error::Uncertain(_)), "the case survives: {call} {error}");
        assert!(host.node_target("pv-1").is_absent() && host.detached_mounts() == 0, "{call}");
        publish(&host, &volume(DISK)).unwrap();
    }
    for call in ["staging-mount", "bind", "set-options"] {
        let host = host();
        host.stage::<Local>(&volume(DISK), None).unwrap();
        host.fail(call, Error::uncertain("lost"));
        let error = host.publish::<Local>(&volume(DISK).read_only(), &Pod::builder()).unwrap_err();
        assert!(matches!(error, Error::Uncertain(_)), "the case survives: {call} {error}");
        assert!(host.target("pv-1").is_absent() && host.detached_mounts() == 0, "{call}");
    }
}
