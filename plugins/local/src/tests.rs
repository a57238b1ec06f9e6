use volhost_plugin_sdk::testing::{TestHost, TestMount, TestVolume};

use super::*;

/// A node with one disk's folder, all granted.
fn host() -> TestHost {
    let host = TestHost::new();
    host.grant("/").directory("/mnt/disk1").file("/mnt/file").block_device("/dev/sdb").node_name("n7");
    host
}

fn volume(path: &str) -> TestVolume {
    Volume::builder("local").persistent_volume("pv-1").claim("default/data").field("path", path)
}

fn set_up(host: &TestHost, volume: &TestVolume) -> Result<()> {
    host.set_up::<Local>(volume, &Pod::builder())
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
    assert_eq!(host().identify::<Local>(&volume("/mnt/disk1")), Ok(Some("pv-1".to_owned())));
}

#[test]
fn without_a_persistent_volume_it_is_refused_and_told_the_way() {
    let error = host().identify::<Local>(&Volume::builder("local").field("path", "/mnt/disk1")).unwrap_err();
    assert!(matches!(error, Error::InvalidArgument(_)) && error.message().contains("persistentVolumeClaim"), "{error}");
}

#[test]
fn the_folder_is_bound_without_the_mounts_below() {
    let host = host();
    set_up(&host, &volume("/mnt/disk1").field("fsType", "ext4")).unwrap();
    let mount = mount(&host);
    assert_eq!(mount.source.as_deref(), Some("/mnt/disk1"));
    assert!(!mount.recursive && mount.flags.is_empty());
    assert_eq!(host.detached_mounts(), 0);
}

#[test]
fn a_read_only_volume_is_read_only_before_it_is_seen() {
    let host = host();
    set_up(&host, &volume("/mnt/disk1").read_only()).unwrap();
    assert!(mount(&host).is_read_only());
    let calls = host.calls();
    let position = |call| calls.iter().position(|made| *made == call).unwrap();
    assert!(position("set-options") < position("attach"), "{calls:?}");
}

#[test]
fn mount_options_are_passed_on() {
    let host = host();
    let options = volume("/mnt/disk1").mount_option("noexec,nodev").mount_option("noatime").read_only();
    set_up(&host, &options).unwrap();
    let flags: Vec<String> = mount(&host).flags.into_iter().collect();
    assert_eq!(flags, ["noatime", "nodev", "noexec", "ro"]);
}

#[test]
fn a_mount_option_of_a_file_system_is_refused_before_anything_happens() {
    let host = host();
    for option in ["discard", "size=5", "", "noexec,data=ordered"] {
        let volume = volume("/mnt/disk1").mount_option(option);
        let error = host.identify::<Local>(&volume).unwrap_err();
        assert!(matches!(error, Error::InvalidArgument(_)), "{error}");
        assert!(error.message().starts_with("spec.mountOptions: \"") && error.message().contains("nosuid"), "{error}");
        assert_eq!(set_up(&host, &volume), Err(error));
    }
    assert!(host.target("pv-1").is_absent());
}

#[test]
fn a_missing_folder_is_waited_for_and_never_created() {
    let host = host();
    let error = set_up(&host, &volume("/mnt/disk2")).unwrap_err();
    assert!(matches!(error, Error::NotFound(_)), "{error}");
    for word in ["/mnt/disk2", "node n7", "nodeAffinity", "pv-1"] {
        assert!(error.message().contains(word), "{word}: {error}");
    }
    assert!(!host.has_path("/mnt/disk2"));
    host.directory("/mnt/disk2");
    set_up(&host, &volume("/mnt/disk2")).unwrap();
}

#[test]
fn a_block_device_is_said_to_come_later() {
    let error = set_up(&host(), &volume("/dev/sdb")).unwrap_err();
    assert!(matches!(error, Error::Unsupported(_)) && error.message().contains("later version"), "{error}");
}

#[test]
fn what_is_no_folder_is_refused() {
    let error = set_up(&host(), &volume("/mnt/file")).unwrap_err();
    assert!(matches!(error, Error::Precondition(_)), "{error}");
    assert!(error.message().contains("/mnt/file is a file; it must be a directory"), "{error}");
}

#[test]
fn what_lies_outside_the_grant_is_refused_even_through_a_link() {
    let host = TestHost::new();
    host.grant("/mnt").directory("/etc").symlink("/mnt/link", "/etc");
    for path in ["/etc", "/mnt/link"] {
        let error = set_up(&host, &volume(path)).unwrap_err();
        assert!(matches!(error, Error::PermissionDenied(_)), "{error}");
    }
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
    ] {
        let error = host.identify::<Local>(&volume).unwrap_err();
        assert!(matches!(error, Error::InvalidArgument(_)), "{error}");
        assert!(error.message().starts_with(said), "{error}");
    }
}

#[test]
fn fs_group_is_left_alone_and_that_is_said() {
    let host = host();
    host.set_up::<Local>(&volume("/mnt/disk1"), &Pod::builder().fs_group(2000)).unwrap();
    assert!(host.lines().iter().any(|line| line.message.contains("fsGroup 2000 is not applied")));
}

#[test]
fn what_is_mounted_is_done() {
    let host = host();
    set_up(&host, &volume("/mnt/disk1")).unwrap();
    let before = mount(&host);
    set_up(&host, &volume("/mnt/disk1").read_only()).unwrap();
    assert_eq!(mount(&host), before);
}

#[test]
fn tearing_down_unmounts_and_leaves_the_folder_alone() {
    let host = host();
    set_up(&host, &volume("/mnt/disk1")).unwrap();
    for _ in 0..2 {
        host.tear_down::<Local>("pv-1").unwrap();
        assert!(host.target("pv-1").is_absent() && host.has_path("/mnt/disk1"));
    }
    assert!(!host.calls().contains(&"delete-folder"));
}

#[test]
fn a_failed_step_leaves_no_mount_behind() {
    for call in ["open", "bind", "set-options", "attach"] {
        let host = host();
        host.fail(call, Error::uncertain("lost"));
        let error = set_up(&host, &volume("/mnt/disk1").read_only()).unwrap_err();
        assert!(matches!(error, Error::Uncertain(_)), "the case survives: {call} {error}");
        assert!(host.target("pv-1").is_absent() && host.detached_mounts() == 0, "{call}");
    }
}
