use volhost_plugin_sdk::testing::{TestHost, TestVolume};

use super::*;

const SERVER: &str = "nas.example.com";
const PATH: &str = "/export/home";

fn host(versions: &[&str]) -> TestHost {
    let host = TestHost::new();
    host.share(SERVER, PATH, versions).share("2001:db8::1", PATH, versions);
    host
}

fn volume() -> TestVolume {
    Volume::builder("nfs").field("server", SERVER).field("path", PATH)
}

/// The options of the file system that a publish mounts with.
fn options(host: &TestHost, volume: &TestVolume) -> Vec<(String, Option<String>)> {
    host.publish::<Nfs>(volume, &Pod::builder()).unwrap();
    let options = host.target(volume.name()).mount().unwrap().options;
    host.unpublish::<Nfs>(volume.name()).unwrap();
    options
}

fn set(key: &str, value: &str) -> (String, Option<String>) {
    (key.to_owned(), Some(value.to_owned()))
}

#[test]
fn it_serves_nfs_and_takes_mount_options() {
    let about = TestHost::new().describe::<Nfs>();
    assert_eq!(about.serves, ["nfs", "csi:nfs.volhost.io"]);
    assert!(about.accepts_mount_options && !about.read_only);
}

#[test]
fn a_share_is_mounted_by_the_newest_version_and_every_call_may_be_repeated() {
    let host = host(&["4.2", "3"]);
    let volume = volume();
    for _ in 0..2 {
        host.publish::<Nfs>(&volume, &Pod::builder()).unwrap();
    }
    let mount = host.target(volume.name()).mount().unwrap();
    assert_eq!((mount.fs_type.as_str(), mount.source.as_deref()), ("nfs", Some("nas.example.com:/export/home")));
    assert_eq!(mount.options, [set("vers", "4.2")]);
    assert!(!mount.is_read_only() && host.events().is_empty());
    for _ in 0..2 {
        host.unpublish::<Nfs>(volume.name()).unwrap();
    }
    assert!(host.target(volume.name()).is_absent());
    assert_eq!(host.detached_mounts(), 0);
}

#[test]
fn an_ipv6_address_is_taken_with_and_without_brackets() {
    let host = host(&["4.2"]);
    for server in ["2001:db8::1", "[2001:db8::1]"] {
        let volume = volume().field("server", server);
        host.publish::<Nfs>(&volume, &Pod::builder()).unwrap();
        host.unpublish::<Nfs>(volume.name()).unwrap();
    }
}

#[test]
fn a_read_only_volume_is_mounted_so() {
    let host = host(&["4.2"]);
    for volume in [volume().read_only(), volume().field("readOnly", "true"), volume().mount_option("ro")] {
        host.publish::<Nfs>(&volume, &Pod::builder()).unwrap();
        assert!(host.target(volume.name()).mount().unwrap().is_read_only());
        host.unpublish::<Nfs>(volume.name()).unwrap();
    }
}

#[test]
fn mount_options_are_passed_each_by_itself() {
    let host = host(&["4.1", "3"]);
    let volume = volume().mount_option("nfsvers=4.1,timeo=50").mount_option("soft").mount_option("noatime,_netdev,rw");
    host.publish::<Nfs>(&volume, &Pod::builder()).unwrap();
    let mount = host.target(volume.name()).mount().unwrap();
    assert_eq!(mount.options, [set("vers", "4.1"), set("timeo", "50"), ("soft".to_owned(), None)]);
    assert_eq!(mount.flags.into_iter().collect::<Vec<_>>(), ["noatime"]);
    assert!(host.events().is_empty(), "it was asked for");
}

#[test]
fn an_older_version_is_told_in_words() {
    let host = host(&["4.0", "3"]);
    host.publish::<Nfs>(&volume(), &Pod::builder()).unwrap();
    let events = host.events();
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].reason, "OlderNfsVersion");
    assert_eq!(
        events[0].message,
        "nas.example.com:/export/home is mounted by NFS 4.0: the server does not speak 4.2, 4.1"
    );
}

#[test]
fn a_version_that_is_asked_for_is_the_only_one_that_is_tried() {
    let host = host(&["3"]);
    for (option, tried) in [("vers=4.2", "4.2"), ("vers=4", "4.2, 4.1, 4.0"), ("nfsvers=4,minorversion=1", "4.1")] {
        let error = host.publish::<Nfs>(&volume().mount_option(option), &Pod::builder()).unwrap_err();
        assert!(matches!(error, Error::Unsupported(_)), "{error}");
        assert!(error.message().contains(&format!("can't be mounted by NFS {tried}:")), "{error}");
    }
    assert_eq!(host.detached_mounts(), 0);
}

#[test]
fn version_3_keeps_its_locks_within_the_node_unless_the_options_say_otherwise() {
    let host = host(&["3"]);
    assert_eq!(options(&host, &volume()), [set("vers", "3"), ("nolock".to_owned(), None)]);
    assert!(host.events()[0].message.contains("locks of files count within this node alone"));
    for option in ["lock", "nolock"] {
        let given = options(&host, &volume().mount_option("vers=3").mount_option(option));
        assert_eq!(given, [set("vers", "3"), (option.to_owned(), None)]);
    }
    assert_eq!(
        options(&host, &volume().mount_option("local_lock=flock")),
        [set("vers", "3"), set("local_lock", "flock")]
    );
}

#[test]
fn a_server_that_does_not_answer_or_does_not_export_is_reported_for_a_retry() {
    let host = host(&["4.2"]);
    let error = host.publish::<Nfs>(&volume().field("server", "nowhere"), &Pod::builder()).unwrap_err();
    assert!(matches!(error, Error::Retryable(_)) && error.message().starts_with("nfs: "), "{error}");
    let error = host.publish::<Nfs>(&volume().field("path", "/other"), &Pod::builder()).unwrap_err();
    assert!(matches!(error, Error::NotFound(_)) && error.message().contains(":/other"), "{error}");
    assert_eq!(host.calls().iter().filter(|call| **call == "network-mounts.mount").count(), 2, "one try each");
}

#[test]
fn a_bad_field_is_named_with_its_value_and_what_is_right() {
    let host = host(&["4.2"]);
    let bare = || Volume::builder("nfs");
    for (volume, said) in [
        (bare().field("path", PATH), "nfs.server: is missing"),
        (bare().field("server", SERVER), "nfs.path: is missing"),
        (volume().field("server", ""), "nfs.server: must not be empty"),
        (volume().field("server", "nas:/x"), "nfs.server: \"nas:/x\" must be a host name or an address"),
        (volume().field("server", "nas,addr=10.0.0.1"), "nfs.server: "),
        (volume().field("server", "nas\naddr=x"), "nfs.server: "),
        (volume().field("server", "[nas]"), "nfs.server: "),
        (volume().field("server", "[10.0.0.1]"), "nfs.server: "),
        (volume().field("server", "-nas"), "nfs.server: "),
        (volume().field("server", "a".repeat(254)), "nfs.server: "),
        (volume().field("path", "export"), "nfs.path: \"export\" must be an absolute path"),
        (volume().field("path", "/a/../b"), "nfs.path: \"/a/../b\" must not contain \"..\""),
        (volume().field("path", "/a\nb"), "nfs.path: "),
        (volume().field("path", format!("/{}", "a".repeat(1023))), "nfs.path: "),
        (volume().field("readOnly", "perhaps"), "nfs.readOnly: \"perhaps\""),
        (volume().field("serve", "x"), "nfs.serve: no such field; did you mean server?"),
        (volume().mount_option("vers=2"), "spec.mountOptions: vers=\"2\" is no longer in Linux"),
        (volume().mount_option("vers=5"), "spec.mountOptions: vers=\"5\" is not known"),
        (volume().mount_option("vers"), "spec.mountOptions: vers=\"\" is not known"),
        (volume().mount_option("minorversion=1"), "spec.mountOptions: minorversion=\"1\" goes with vers=4"),
        (volume().mount_option("vers=3,nfsvers=4"), "spec.mountOptions: nfsvers is given twice"),
    ] {
        let error = host.identify::<Nfs>(&volume).unwrap_err();
        assert!(matches!(error, Error::InvalidArgument(_)) && error.message().starts_with(said), "{said}: {error}");
    }
}

#[test]
fn a_failed_step_leaves_no_mount_behind() {
    for call in ["network-mounts.mount", "set-options", "attach"] {
        let host = host(&["4.2"]);
        host.fail(call, Error::uncertain("lost"));
        let error = host.publish::<Nfs>(&volume(), &Pod::builder()).unwrap_err();
        assert!(matches!(error, Error::Uncertain(_)), "{call} {error}");
        assert!(host.target(volume().name()).is_absent() && host.detached_mounts() == 0, "{call}");
    }
}
