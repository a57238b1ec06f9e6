use volhost_plugin_sdk::testing::{TestFolder, TestHost, TestMount, TestPod, TestVolume};

use super::*;

fn disk() -> TestVolume {
    Volume::builder("emptyDir").named("cache")
}

fn memory() -> TestVolume {
    disk().field("medium", "Memory")
}

fn publish(host: &TestHost, volume: &TestVolume) -> Result<()> {
    host.publish::<EmptyDir>(volume, &Pod::builder())
}

/// Publishes the volume and returns the size of its tmpfs.
fn size_of(host: &TestHost, volume: &TestVolume, pod: &TestPod) -> Option<u64> {
    host.publish::<EmptyDir>(volume, pod).unwrap();
    host.target("cache").mount().unwrap().option("size").map(|size| size.parse().unwrap())
}

#[test]
fn it_serves_empty_dir() {
    let about = TestHost::new().describe::<EmptyDir>();
    assert_eq!(about.name, "kubernetes.io/empty-dir");
    assert_eq!(about.serves, ["emptyDir"]);
    assert!(!about.accepts_mount_options && !about.follows_its_source);
}

#[test]
fn the_default_medium_is_a_folder_that_all_users_may_write_to() {
    let host = TestHost::new();
    for volume in [disk(), disk().field("medium", "").named("other")] {
        publish(&host, &volume).unwrap();
        let folder = host.target(volume.name()).folder().unwrap();
        assert_eq!((folder.mode, folder.group), (0o777, None));
    }
    assert!(host.events().is_empty());
}

#[test]
fn a_folder_belongs_to_the_pods_fs_group_and_passes_it_on() {
    let host = TestHost::new();
    host.publish::<EmptyDir>(&disk(), &Pod::builder().fs_group(2000)).unwrap();
    let folder = host.target("cache").folder().unwrap();
    assert_eq!((folder.mode, folder.group), (0o2777, Some(2000)));
}

#[test]
fn publishing_a_folder_again_keeps_its_content() {
    let host = TestHost::new();
    publish(&host, &disk()).unwrap();
    host.target("cache").write("data", b"precious");
    publish(&host, &disk()).unwrap();
    assert_eq!(host.target("cache").folder().unwrap().files["data"], b"precious");
}

#[test]
fn a_memory_volume_is_a_tmpfs_that_never_swaps() {
    let host = TestHost::new();
    publish(&host, &memory()).unwrap();
    let mount = host.target("cache").mount().unwrap();
    assert_eq!(mount.fs_type, "tmpfs");
    assert_eq!(mount.option("mode"), Some("777"));
    assert_eq!(mount.option("gid"), None);
    assert!(mount.has_option("noswap"));
    assert!(host.events().is_empty() && host.detached_mounts() == 0);
}

#[test]
fn a_memory_volume_belongs_to_the_pods_fs_group() {
    let host = TestHost::new();
    host.publish::<EmptyDir>(&memory(), &Pod::builder().fs_group(2000)).unwrap();
    let mount = host.target("cache").mount().unwrap();
    assert_eq!((mount.option("mode"), mount.option("gid")), (Some("2777"), Some("2000")));
}

#[test]
fn the_least_limit_that_is_set_wins() {
    let plain = Pod::builder;
    for (allocatable, pod, limit, expected) in [
        (8 * GIB, plain(), None, Some(8 * GIB)),
        (8 * GIB, plain().memory_limit(GIB), None, Some(GIB)),
        (8 * GIB, plain().memory_limit(GIB), Some("64Mi"), Some(64 << 20)),
        (8 * GIB, plain().memory_limit(GIB), Some("2Gi"), Some(GIB)),
        (8 * GIB, plain(), Some("0"), Some(8 * GIB)),
        (0, plain(), Some("1"), Some(1)),
        (0, plain().memory_limit(0), None, None),
    ] {
        let host = TestHost::new();
        host.allocatable_memory(allocatable);
        let volume = limit.map_or_else(memory, |limit| memory().field("sizeLimit", limit));
        assert_eq!(size_of(&host, &volume, &pod), expected, "{allocatable} {pod:?} {limit:?}");
    }
}

#[test]
fn without_noswap_the_volume_is_mounted_and_the_pod_gets_one_event() {
    let host = TestHost::new();
    host.without_tmpfs_option("noswap");
    publish(&host, &memory().field("sizeLimit", "1Mi")).unwrap();
    let mount = host.target("cache").mount().unwrap();
    assert!(!mount.has_option("noswap"));
    assert_eq!(mount.option("size"), Some("1048576"));

    let events = host.events();
    assert_eq!(events.len(), 1);
    assert!(events[0].warning && events[0].reason == "PossibleMemoryBackedVolumesOnDisk");
    assert!(events[0].message.contains("noswap"), "{}", events[0].message);
    publish(&host, &memory()).unwrap();
    assert_eq!(host.events().len(), 1, "an existing mount emits no second event");
}

#[test]
fn a_tmpfs_that_cannot_be_made_at_all_is_an_error_without_an_event() {
    let host = TestHost::new();
    host.without_tmpfs_option("noswap").without_tmpfs_option("size");
    let error = publish(&host, &memory()).unwrap_err();
    assert!(matches!(error, Error::Unsupported(_)), "{error}");
    assert!(host.events().is_empty() && host.target("cache").is_absent());
}

#[test]
fn a_mounted_tmpfs_stays_as_it_is() {
    let host = TestHost::new();
    host.target("cache").put_mount(TestMount::tmpfs());
    publish(&host, &memory().field("sizeLimit", "1Mi")).unwrap();
    assert_eq!(host.target("cache").mount(), Some(TestMount::tmpfs()));
}

#[test]
fn an_empty_mount_point_that_a_crash_left_is_used() {
    let host = TestHost::new();
    host.target("cache").put_folder(TestFolder::default());
    publish(&host, &memory()).unwrap();
    assert_eq!(host.target("cache").mount().unwrap().fs_type, "tmpfs");
}

#[test]
fn data_in_a_plain_folder_is_never_hidden_below_a_tmpfs() {
    let host = TestHost::new();
    publish(&host, &disk()).unwrap();
    host.target("cache").write("data", b"precious");
    let error = publish(&host, &memory()).unwrap_err();
    assert!(matches!(error, Error::Conflict(_)) && error.message().contains("emptyDir.medium"), "{error}");
    assert_eq!(host.target("cache").folder().unwrap().files["data"], b"precious");
}

#[test]
fn a_mount_of_another_kind_is_a_conflict() {
    let host = TestHost::new();
    host.target("cache").put_mount(TestMount::of_type("ext4"));
    for volume in [disk(), memory()] {
        let error = publish(&host, &volume).unwrap_err();
        assert!(matches!(error, Error::Conflict(_)) && error.message().contains("ext4"), "{error}");
    }
}

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

fn huge(medium: &str) -> TestVolume {
    disk().field("medium", medium)
}

#[test]
fn huge_pages_have_the_size_of_the_medium_or_else_of_the_pod() {
    for (medium, pod, page) in [
        ("HugePages", Pod::builder().huge_pages(2 * MIB, 8 * MIB), 2 * MIB),
        ("HugePages-2Mi", Pod::builder().huge_pages(2 * MIB, 8 * MIB), 2 * MIB),
        ("HugePages-1Gi", Pod::builder().huge_pages(2 * MIB, 8 * MIB).huge_pages(1 << 30, 1 << 30), 1 << 30),
    ] {
        let host = TestHost::new();
        host.publish::<EmptyDir>(&huge(medium), &pod).unwrap();
        let mount = host.target("cache").mount().unwrap();
        assert_eq!((mount.fs_type.as_str(), mount.option("mode")), ("hugetlbfs", Some("777")), "{medium}");
        assert_eq!(mount.option("pagesize"), Some(page.to_string().as_str()), "{medium}");
        assert_eq!(host.detached_mounts(), 0);
        host.publish::<EmptyDir>(&huge(medium), &pod).unwrap();
        assert_eq!(host.target("cache").mount(), Some(mount), "a repeated call changes nothing");
        host.unpublish::<EmptyDir>("cache").unwrap();
        assert!(host.target("cache").is_absent());
    }
}

#[test]
fn huge_pages_are_limited_by_the_lower_of_size_limit_and_the_pods_pages() {
    for (limit, size) in [(None, 8 * MIB), (Some("4Mi"), 4 * MIB), (Some("1Gi"), 8 * MIB)] {
        let host = TestHost::new();
        let volume = limit.map_or_else(|| huge("HugePages"), |limit| huge("HugePages").field("sizeLimit", limit));
        host.publish::<EmptyDir>(&volume, &Pod::builder().huge_pages(2 * MIB, 8 * MIB).fs_group(9)).unwrap();
        let mount = host.target("cache").mount().unwrap();
        assert_eq!(mount.option("size"), Some(size.to_string().as_str()));
        assert_eq!((mount.option("gid"), host.target("cache").group()), (Some("9"), Some(9)));
    }
}

#[test]
fn huge_pages_that_the_pod_does_not_request_or_of_ambiguous_size_are_refused() {
    let none = Pod::builder;
    let one = || none().huge_pages(2 * MIB, 8 * MIB);
    let two = || one().huge_pages(1 << 30, 1 << 30);
    for (volume, pod, said) in [
        (huge("HugePages"), none(), "emptyDir.medium: no container requests huge pages; add hugepages-2Mi"),
        (huge("HugePages-1Gi"), one(), "emptyDir.medium: no container requests huge pages of 1Gi; add hugepages-1Gi"),
        (huge("HugePages"), two(), "emptyDir.medium: \"HugePages\" can't be used by a pod that requests several"),
        (huge("HugePages").field("sizeLimit", "1Mi"), one(), "emptyDir.sizeLimit: 1048576 bytes are less than one"),
    ] {
        let host = TestHost::new();
        let error = host.publish::<EmptyDir>(&volume, &pod).unwrap_err();
        assert!(matches!(error, Error::InvalidArgument(_)) && error.message().starts_with(said), "{error}");
        assert!(host.target("cache").is_absent());
    }
}

#[test]
fn huge_pages_that_the_node_lacks_are_named_with_the_node() {
    let host = TestHost::new();
    host.huge_pages(&[2 * MIB]).node_name("n7");
    let pod = Pod::builder().huge_pages(1 << 30, 1 << 30);
    let error = host.publish::<EmptyDir>(&huge("HugePages"), &pod).unwrap_err();
    assert!(matches!(error, Error::Unsupported(_)), "{error}");
    assert!(error.message().contains("node n7 has no huge pages of 1Gi"), "{error}");
}

#[test]
fn huge_pages_of_another_size_are_not_taken_for_these() {
    let host = TestHost::new();
    host.publish::<EmptyDir>(&huge("HugePages"), &Pod::builder().huge_pages(2 * MIB, 8 * MIB)).unwrap();
    let error = host.publish::<EmptyDir>(&huge("HugePages"), &Pod::builder().huge_pages(1 << 30, 1 << 30)).unwrap_err();
    assert!(matches!(error, Error::Conflict(_)) && error.message().contains("2M, and 1Gi"), "{error}");
    host.target("cache").put_mount(TestMount::tmpfs());
    let error = host.publish::<EmptyDir>(&huge("HugePages"), &Pod::builder().huge_pages(2 * MIB, 1)).unwrap_err();
    assert!(matches!(error, Error::Conflict(_)) && error.message().contains("tmpfs"), "{error}");
}

#[test]
fn the_file_system_enforces_a_limit_on_disk_where_it_has_quotas() {
    let host = TestHost::new();
    host.folder_quotas();
    let volume = disk().field("sizeLimit", "64Mi");
    for _ in 0..2 {
        host.publish::<EmptyDir>(&volume, &Pod::builder().fs_group(9)).unwrap();
        let folder = host.target("cache").folder().unwrap();
        assert_eq!((folder.limit, folder.mode, folder.group), (Some(64 * MIB), 0o2777, Some(9)));
        host.target("cache").write("data", b"precious");
    }
    assert_eq!(host.target("cache").watched_size(), None);
    host.unpublish::<EmptyDir>("cache").unwrap();
    assert!(host.target("cache").is_absent());
}

#[test]
fn the_lesser_of_the_volumes_limit_and_the_pods_counts_on_disk() {
    // The kubelet's table: the volume's limit (none, zero, less, more) by the pod's (none, 2Gi).
    for (size, pod, expected) in [
        (None, None, None),
        (Some("0"), None, None),
        (Some("1Gi"), None, Some(GIB)),
        (Some("3Gi"), None, Some(3 * GIB)),
        (None, Some(2 * GIB), Some(2 * GIB)),
        (Some("0"), Some(2 * GIB), Some(2 * GIB)),
        (Some("1Gi"), Some(2 * GIB), Some(GIB)),
        (Some("3Gi"), Some(2 * GIB), Some(2 * GIB)),
    ] {
        let volume = size.map_or_else(disk, |size| disk().field("sizeLimit", size));
        let owner = pod.map_or_else(Pod::builder, |bytes| Pod::builder().ephemeral_storage_limit(bytes));
        let host = TestHost::new();
        host.publish::<EmptyDir>(&volume, &owner).unwrap();
        assert_eq!(host.target("cache").watched_size(), expected, "{size:?} {pod:?}");
        host.unpublish::<EmptyDir>("cache").unwrap();
        host.folder_quotas().publish::<EmptyDir>(&volume, &owner).unwrap();
        let limit = host.target("cache").folder().map(|folder| folder.limit);
        assert_eq!(limit, Some(expected), "{size:?} {pod:?}");
    }
}

#[test]
fn a_limit_on_disk_is_watched_where_nothing_enforces_it() {
    let host = TestHost::new();
    publish(&host, &disk().field("sizeLimit", "64Mi")).unwrap();
    assert_eq!(host.target("cache").watched_size(), Some(64 * MIB));
    host.target("cache").write("data", b"precious");
    host.folder_quotas();
    publish(&host, &disk().field("sizeLimit", "32Mi")).unwrap();
    let folder = host.target("cache").folder().unwrap();
    assert_eq!((folder.limit, folder.files.len()), (None, 1), "an existing folder is not made anew");
    assert_eq!(host.target("cache").watched_size(), Some(32 * MIB));
}

#[test]
fn a_failed_quota_is_an_error() {
    let host = TestHost::new();
    host.folder_quotas().fail("make-limited-folder", Error::retryable("the disk is tired"));
    let error = publish(&host, &disk().field("sizeLimit", "64Mi")).unwrap_err();
    assert_eq!(error, Error::retryable("the disk is tired"));
    assert!(host.target("cache").is_absent());
}

#[test]
fn a_bad_field_is_named_with_its_value_and_what_is_right() {
    let host = TestHost::new();
    for (volume, said) in [
        (
            disk().field("medium", "memory"),
            r#"emptyDir.medium: "memory" is not known; did you mean "Memory"? Known: "", "Memory", "HugePages""#,
        ),
        (disk().field("medium", "SSD"), r#"emptyDir.medium: "SSD" is not known. Known: "", "Memory", "HugePages""#),
        (disk().field("medium", "HugePages2Mi"), r#"emptyDir.medium: "HugePages2Mi" is not known"#),
        (disk().field("medium", "HugePages-"), "emptyDir.medium: HugePages-: "),
        (disk().field("medium", "HugePages-x"), r#"emptyDir.medium: HugePages-x: "x" is not a quantity"#),
        (disk().field("medium", "HugePages-3Mi"), r#"emptyDir.medium: "HugePages-3Mi" is not a size of a page"#),
        (
            disk().field("sizelimit", "1Gi"),
            "emptyDir.sizelimit: no such field; did you mean sizeLimit? Known: medium, sizeLimit",
        ),
        (memory().field("sizeLimit", "64MB"), r#"emptyDir.sizeLimit: "64MB" is not a quantity"#),
        (memory().field("sizeLimit", "-1"), r#"emptyDir.sizeLimit: "-1" is negative"#),
        (memory().field("sizeLimit", "99Ei"), r#"emptyDir.sizeLimit: "99Ei" is more than"#),
    ] {
        let error = host.identify::<EmptyDir>(&volume).unwrap_err();
        assert!(matches!(error, Error::InvalidArgument(_)), "{error}");
        assert!(error.message().starts_with(said), "{error}");
        assert_eq!(publish(&host, &volume).unwrap_err(), error, "publish returns the same error");
    }
    assert!(host.target("cache").is_absent());
}

#[test]
fn a_volume_has_no_name_of_its_own() {
    let host = TestHost::new();
    assert_eq!(host.identify::<EmptyDir>(&memory().field("sizeLimit", "1Gi")), Ok(None));
}

#[test]
fn unpublish_removes_the_folder_with_its_content() {
    let host = TestHost::new();
    publish(&host, &disk()).unwrap();
    host.target("cache").write("data", b"done with");
    host.unpublish::<EmptyDir>("cache").unwrap();
    assert!(host.target("cache").is_absent());
    host.unpublish::<EmptyDir>("cache").unwrap();
}

#[test]
fn unpublish_unmounts_a_memory_volume() {
    let host = TestHost::new();
    publish(&host, &memory()).unwrap();
    host.unpublish::<EmptyDir>("cache").unwrap();
    assert!(host.target("cache").is_absent());
    assert!(!host.calls().contains(&"delete-folder"), "nothing is deleted through a mount");
}

#[test]
fn a_failed_step_is_reported_as_it_is_and_leaves_nothing() {
    for (call, volume) in [("make-folder", disk()), ("attach", memory()), ("tmpfs.create", memory())] {
        let host = TestHost::new();
        host.fail_always(call, Error::retryable("the kernel is tired"));
        assert_eq!(publish(&host, &volume), Err(Error::retryable("the kernel is tired")), "{call}");
        assert!(host.target("cache").is_absent() && host.detached_mounts() == 0, "{call}");
    }
    let host = TestHost::new();
    publish(&host, &memory()).unwrap();
    host.fail("detach", Error::busy("in use"));
    assert_eq!(host.unpublish::<EmptyDir>("cache"), Err(Error::busy("in use")));
    host.unpublish::<EmptyDir>("cache").unwrap();
}
