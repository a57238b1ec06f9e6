use volhost_plugin_sdk::testing::{TestHost, TestMount, TestVolume};

use super::*;

/// A node with one of everything, all of it granted.
fn host() -> TestHost {
    let host = TestHost::new();
    host.grant("/")
        .directory("/srv/data")
        .file("/srv/file")
        .socket("/run/app.sock")
        .fifo("/run/pipe")
        .char_device("/dev/null")
        .block_device("/dev/sda");
    host
}

/// Each kind of path on that node, with its type and the kubelet's word for it.
const THINGS: &[(&str, &str, &str)] = &[
    ("/srv/data", "Directory", "directory"),
    ("/srv/file", "File", "file"),
    ("/run/app.sock", "Socket", "socket file"),
    ("/dev/null", "CharDevice", "character device"),
    ("/dev/sda", "BlockDevice", "block device"),
];

fn volume(path: &str, path_type: &str) -> TestVolume {
    Volume::builder("hostPath").named("host").field("path", path).field("type", path_type)
}

fn publish(host: &TestHost, volume: &TestVolume) -> Result<()> {
    host.publish::<HostPath>(volume, &Pod::builder())
}

fn mount(host: &TestHost) -> TestMount {
    host.target("host").mount().expect("it is mounted")
}

#[test]
fn it_serves_host_path() {
    let about = TestHost::new().describe::<HostPath>();
    assert_eq!(about.name, "kubernetes.io/host-path");
    assert_eq!(about.serves, ["hostPath"]);
}

#[test]
fn every_kind_is_bound_for_its_type_or_without_a_type() {
    for &(path, path_type, _) in THINGS {
        for volume in
            [volume(path, path_type), volume(path, ""), Volume::builder("hostPath").named("host").field("path", path)]
        {
            let host = host();
            publish(&host, &volume).unwrap();
            let mount = mount(&host);
            assert_eq!(mount.source.as_deref(), Some(path));
            assert!(mount.recursive && !mount.is_read_only());
            assert_eq!(mount.root_is_folder, path_type == "Directory");
            assert_eq!(host.detached_mounts(), 0);
        }
    }
}

#[test]
fn every_other_kind_is_refused_with_both_named() {
    for &(path, is, _) in THINGS {
        for &(_, wanted, word) in THINGS.iter().filter(|(_, wanted, _)| *wanted != is) {
            let host = host();
            let error = publish(&host, &volume(path, wanted)).unwrap_err();
            assert!(matches!(error, Error::Precondition(_)), "{error}");
            let said = format!("hostPath type check failed: {path} is not a {word}, it is a ");
            assert!(error.message().starts_with(&said), "{error}");
            assert!(host.target("host").is_absent());
        }
    }
}

#[test]
fn a_path_to_create_that_exists_as_another_kind_is_refused() {
    let host = host();
    for (path, path_type, word) in [
        ("/srv/file", "DirectoryOrCreate", "directory"),
        ("/srv/data", "FileOrCreate", "file"),
        ("/run/pipe", "FileOrCreate", "file"),
    ] {
        let error = publish(&host, &volume(path, path_type)).unwrap_err();
        assert!(error.message().contains(&format!("{path} is not a {word}, it is a ")), "{error}");
    }
}

#[test]
fn a_missing_path_is_not_found_with_the_way_out() {
    for (path_type, way_out) in [
        ("", "type DirectoryOrCreate or FileOrCreate would create it"),
        ("Directory", "/srv/new is not a directory, it does not exist; create it, or use type DirectoryOrCreate"),
        ("File", "/srv/new is not a file, it does not exist; create it, or use type FileOrCreate"),
        ("Socket", "/srv/new is not a socket file, it does not exist; the program that makes it"),
        ("CharDevice", "not a character device"),
        ("BlockDevice", "not a block device"),
    ] {
        let host = host();
        let error = publish(&host, &volume("/srv/new", path_type)).unwrap_err();
        assert!(matches!(error, Error::NotFound(_)), "{error}");
        assert!(error.message().contains(way_out), "{error}");
        assert!(!host.has_path("/srv/new"), "{path_type} creates nothing");
    }
}

#[test]
fn a_missing_folder_is_created_with_its_parents() {
    let host = host();
    publish(&host, &volume("/srv/a/b/c", "DirectoryOrCreate")).unwrap();
    assert!(host.has_path("/srv/a/b/c"));
    assert!(mount(&host).root_is_folder);
}

#[test]
fn a_missing_file_is_created_but_not_its_folder() {
    let host = host();
    publish(&host, &volume("/srv/data/new", "FileOrCreate")).unwrap();
    assert!(host.has_path("/srv/data/new") && !mount(&host).root_is_folder);

    let error = publish(&host, &volume("/srv/none/new", "FileOrCreate").named("other")).unwrap_err();
    assert!(matches!(error, Error::NotFound(_)) && error.message().contains("creates no folder"), "{error}");
    assert!(!host.has_path("/srv/none"));
}

#[test]
fn a_symbolic_link_is_followed() {
    let host = host();
    host.symlink("/srv/link", "/srv/data");
    publish(&host, &volume("/srv/link", "Directory")).unwrap();
    assert_eq!(mount(&host).source.as_deref(), Some("/srv/data"));
}

#[test]
fn a_read_only_volume_is_read_only_with_all_below() {
    let host = host();
    publish(&host, &volume("/srv/data", "").read_only()).unwrap();
    assert!(mount(&host).is_read_only());
    let calls = host.calls();
    let position = |call| calls.iter().position(|made| *made == call).unwrap();
    assert!(position("set-options") < position("attach"), "read-only before it is visible: {calls:?}");
}

#[test]
fn a_path_outside_the_grant_is_refused_even_through_a_link() {
    let host = TestHost::new();
    host.grant("/srv").directory("/etc/secret").directory("/srvother").symlink("/srv/link", "/etc/secret");
    for path in ["/etc/secret", "/srv/link", "/srvother"] {
        let error = publish(&host, &volume(path, "")).unwrap_err();
        assert!(matches!(error, Error::PermissionDenied(_)), "{error}");
    }
    let error = publish(&host, &volume("/var/new", "DirectoryOrCreate")).unwrap_err();
    assert!(matches!(error, Error::PermissionDenied(_)) && !host.has_path("/var/new"), "{error}");
}

#[test]
fn a_bad_field_is_named_with_its_value_and_what_is_right() {
    let host = host();
    let plain = || Volume::builder("hostPath");
    for (volume, said) in [
        (plain(), "hostPath.path: is missing"),
        (plain().field("path", ""), "hostPath.path: must not be empty"),
        (plain().field("path", "srv/data"), r#"hostPath.path: "srv/data" must be an absolute path"#),
        (plain().field("path", "/srv/../etc"), r#"hostPath.path: "/srv/../etc" must not contain "..""#),
        (plain().field("path", "/srv/.."), r#"hostPath.path: "/srv/.." must not contain "..""#),
        (volume("/srv", "directory"), r#"hostPath.type: "directory" is not known; did you mean "Directory"?"#),
        (volume("/srv", "Folder"), r#"hostPath.type: "Folder" is not known. Known: "", "DirectoryOrCreate""#),
        (plain().field("path", "/srv").field("tpye", "File"), "hostPath.tpye: no such field; did you mean type?"),
    ] {
        let error = host.identify::<HostPath>(&volume).unwrap_err();
        assert!(matches!(error, Error::InvalidArgument(_)), "{error}");
        assert!(error.message().starts_with(said), "{error}");
        assert_eq!(publish(&host, &volume).unwrap_err(), error, "publish returns the same error");
    }
}

#[test]
fn two_dots_in_a_name_are_not_a_parent() {
    let host = host();
    host.directory("/srv/a..b");
    publish(&host, &volume("/srv/a..b", "Directory")).unwrap();
}

#[test]
fn identify_changes_nothing_on_the_node() {
    let host = host();
    assert_eq!(host.identify::<HostPath>(&volume("/srv/new", "DirectoryOrCreate")), Ok(None));
    assert!(!host.has_path("/srv/new") && host.calls().is_empty());
}

#[test]
fn an_existing_mount_succeeds_even_if_the_path_is_gone() {
    let host = host();
    publish(&host, &volume("/srv/data", "Directory")).unwrap();
    publish(&host, &volume("/srv/gone", "Directory")).unwrap();
    assert_eq!(mount(&host).source.as_deref(), Some("/srv/data"));
}

#[test]
fn unpublish_unmounts_and_leaves_the_path_alone() {
    let host = host();
    publish(&host, &volume("/srv/data", "Directory")).unwrap();
    host.unpublish::<HostPath>("host").unwrap();
    assert!(host.target("host").is_absent() && host.has_path("/srv/data"));
    host.unpublish::<HostPath>("host").unwrap();
    assert!(!host.calls().contains(&"delete-folder"));
}

#[test]
fn a_failed_step_leaves_no_mount_behind() {
    for call in ["open", "bind", "set-options", "attach"] {
        let host = host();
        host.fail(call, Error::uncertain("lost"));
        let error = publish(&host, &volume("/srv/data", "").read_only()).unwrap_err();
        assert!(matches!(error, Error::Uncertain(_)), "the case survives: {call} {error}");
        assert!(host.target("host").is_absent() && host.detached_mounts() == 0, "{call}");
    }
}
