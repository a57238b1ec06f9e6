use volhost_plugin_sdk::testing::{TestFolder, TestHost, TestMount, TestPod, TestVolume};

use super::*;

fn disk() -> TestVolume {
    Volume::builder("emptyDir").named("cache")
}

fn memory() -> TestVolume {
    disk().field("medium", "Memory")
}

fn set_up(host: &TestHost, volume: &TestVolume) -> Result<()> {
    host.set_up::<EmptyDir>(volume, &Pod::builder())
}

/// The size of the tmpfs that comes of it.
fn size_of(host: &TestHost, volume: &TestVolume, pod: &TestPod) -> Option<u64> {
    host.set_up::<EmptyDir>(volume, pod).unwrap();
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
fn the_default_medium_is_a_folder_that_everybody_may_write_to() {
    let host = TestHost::new();
    for volume in [disk(), disk().field("medium", "").named("other")] {
        set_up(&host, &volume).unwrap();
        let folder = host.target(volume.name()).folder().unwrap();
        assert_eq!((folder.mode, folder.group), (0o777, None));
    }
    assert!(host.events().is_empty());
}

#[test]
fn a_folder_belongs_to_the_pods_fs_group_and_passes_it_on() {
    let host = TestHost::new();
    host.set_up::<EmptyDir>(&disk(), &Pod::builder().fs_group(2000)).unwrap();
    let folder = host.target("cache").folder().unwrap();
    assert_eq!((folder.mode, folder.group), (0o2777, Some(2000)));
}

#[test]
fn setting_a_folder_up_again_keeps_its_content() {
    let host = TestHost::new();
    set_up(&host, &disk()).unwrap();
    host.target("cache").write("data", b"precious");
    set_up(&host, &disk()).unwrap();
    assert_eq!(host.target("cache").folder().unwrap().files["data"], b"precious");
}

#[test]
fn a_memory_volume_is_a_tmpfs_that_never_swaps() {
    let host = TestHost::new();
    set_up(&host, &memory()).unwrap();
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
    host.set_up::<EmptyDir>(&memory(), &Pod::builder().fs_group(2000)).unwrap();
    let mount = host.target("cache").mount().unwrap();
    assert_eq!((mount.option("mode"), mount.option("gid")), (Some("2777"), Some("2000")));
}

#[test]
fn the_least_limit_that_is_set_wins() {
    const GIB: u64 = 1 << 30;
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
fn without_noswap_the_volume_is_made_all_the_same_and_the_pod_is_told_once() {
    let host = TestHost::new();
    host.without_tmpfs_option("noswap");
    set_up(&host, &memory().field("sizeLimit", "1Mi")).unwrap();
    let mount = host.target("cache").mount().unwrap();
    assert!(!mount.has_option("noswap"));
    assert_eq!(mount.option("size"), Some("1048576"));

    let events = host.events();
    assert_eq!(events.len(), 1);
    assert!(events[0].warning && events[0].reason == "PossibleMemoryBackedVolumesOnDisk");
    assert!(events[0].message.contains("noswap"), "{}", events[0].message);
    set_up(&host, &memory()).unwrap();
    assert_eq!(host.events().len(), 1, "what is mounted already is not told again");
}

#[test]
fn a_tmpfs_that_cannot_be_made_at_all_is_an_error_without_an_event() {
    let host = TestHost::new();
    host.without_tmpfs_option("noswap").without_tmpfs_option("size");
    let error = set_up(&host, &memory()).unwrap_err();
    assert!(matches!(error, Error::Unsupported(_)), "{error}");
    assert!(host.events().is_empty() && host.target("cache").is_absent());
}

#[test]
fn a_mounted_tmpfs_is_done_and_stays_as_it_is() {
    let host = TestHost::new();
    host.target("cache").put_mount(TestMount::tmpfs());
    set_up(&host, &memory().field("sizeLimit", "1Mi")).unwrap();
    assert_eq!(host.target("cache").mount(), Some(TestMount::tmpfs()));
}

#[test]
fn an_empty_mount_point_that_a_crash_left_is_used() {
    let host = TestHost::new();
    host.target("cache").put_folder(TestFolder::default());
    set_up(&host, &memory()).unwrap();
    assert_eq!(host.target("cache").mount().unwrap().fs_type, "tmpfs");
}

#[test]
fn data_in_a_plain_folder_is_never_hidden_below_a_tmpfs() {
    let host = TestHost::new();
    set_up(&host, &disk()).unwrap();
    host.target("cache").write("data", b"precious");
    let error = set_up(&host, &memory()).unwrap_err();
    assert!(matches!(error, Error::Conflict(_)) && error.message().contains("emptyDir.medium"), "{error}");
    assert_eq!(host.target("cache").folder().unwrap().files["data"], b"precious");
}

#[test]
fn a_mount_in_the_place_of_another_shape_is_a_conflict() {
    let host = TestHost::new();
    host.target("cache").put_mount(TestMount::of_type("ext4"));
    for volume in [disk(), memory()] {
        let error = set_up(&host, &volume).unwrap_err();
        assert!(matches!(error, Error::Conflict(_)) && error.message().contains("ext4"), "{error}");
    }
}

#[test]
fn huge_pages_are_said_to_come_later() {
    let host = TestHost::new();
    for medium in ["HugePages", "HugePages-2Mi"] {
        let error = host.identify::<EmptyDir>(&disk().field("medium", medium)).unwrap_err();
        assert!(matches!(error, Error::Unsupported(_)), "{error}");
        assert!(error.message().contains("emptyDir.medium") && error.message().contains(medium), "{error}");
    }
}

#[test]
fn a_bad_field_is_named_with_its_value_and_what_is_right() {
    let host = TestHost::new();
    for (volume, said) in [
        (
            disk().field("medium", "memory"),
            r#"emptyDir.medium: "memory" is not known; did you mean "Memory"? Known: "", "Memory""#,
        ),
        (disk().field("medium", "SSD"), r#"emptyDir.medium: "SSD" is not known. Known: "", "Memory""#),
        (disk().field("medium", "HugePages2Mi"), r#"emptyDir.medium: "HugePages2Mi" is not known."#),
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
        assert_eq!(set_up(&host, &volume).unwrap_err(), error, "set-up says the same");
    }
    assert!(host.target("cache").is_absent());
}

#[test]
fn a_volume_has_no_name_of_its_own() {
    let host = TestHost::new();
    assert_eq!(host.identify::<EmptyDir>(&memory().field("sizeLimit", "1Gi")), Ok(None));
}

#[test]
fn tearing_down_removes_the_folder_with_its_content() {
    let host = TestHost::new();
    set_up(&host, &disk()).unwrap();
    host.target("cache").write("data", b"done with");
    host.tear_down::<EmptyDir>("cache").unwrap();
    assert!(host.target("cache").is_absent());
    host.tear_down::<EmptyDir>("cache").unwrap();
}

#[test]
fn tearing_down_a_memory_volume_unmounts_it() {
    let host = TestHost::new();
    set_up(&host, &memory()).unwrap();
    host.tear_down::<EmptyDir>("cache").unwrap();
    assert!(host.target("cache").is_absent());
    assert!(!host.calls().contains(&"delete-folder"), "nothing is deleted through a mount");
}

#[test]
fn a_failed_step_is_reported_as_it_is_and_leaves_nothing() {
    for (call, volume) in [("make-folder", disk()), ("attach", memory()), ("tmpfs.create", memory())] {
        let host = TestHost::new();
        host.fail_always(call, Error::retryable("the kernel is tired"));
        assert_eq!(set_up(&host, &volume), Err(Error::retryable("the kernel is tired")), "{call}");
        assert!(host.target("cache").is_absent() && host.detached_mounts() == 0, "{call}");
    }
    let host = TestHost::new();
    set_up(&host, &memory()).unwrap();
    host.fail("detach", Error::busy("in use"));
    assert_eq!(host.tear_down::<EmptyDir>("cache"), Err(Error::busy("in use")));
    host.tear_down::<EmptyDir>("cache").unwrap();
}
