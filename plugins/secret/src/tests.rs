use volhost_plugin_sdk::testing::{TestFolder, TestHost, TestMount, TestPayload, TestPod, TestVolume};

use super::*;

fn login() -> TestVolume {
    Volume::builder("secret").named("login").field("secretName", "login")
}

fn host() -> TestHost {
    let host = TestHost::new();
    host.secret("login", &[("user", b"admin"), ("key", b"\x00\xffhush")]);
    host
}

fn publish(host: &TestHost, volume: &TestVolume) -> Result<()> {
    host.publish::<Secret>(volume, &Pod::builder())
}

fn shown(host: &TestHost, volume: &TestVolume, pod: &TestPod) -> TestPayload {
    host.publish::<Secret>(volume, pod).unwrap();
    host.target("login").payload().unwrap()
}

#[test]
fn it_serves_secrets_and_follows_them() {
    let about = TestHost::new().describe::<Secret>();
    assert_eq!((about.name.as_str(), about.serves.as_slice()), ("kubernetes.io/secret", &["secret".to_owned()][..]));
    assert!(about.read_only && about.follows_its_source);
}

#[test]
fn a_secret_is_in_memory_that_never_swaps() {
    let host = host();
    let payload = shown(&host, &login(), &Pod::builder());
    assert_eq!(payload.paths(), ["key", "user"]);
    assert_eq!(payload.files["key"].bytes, b"\x00\xffhush");
    let mount = host.target("login").mount().unwrap();
    assert_eq!(mount.fs_type, "tmpfs");
    assert!(mount.has_option("noswap") && mount.option("mode") == Some("755"));
    assert!(mount.flags.contains("nosuid") && mount.flags.contains("nodev") && !mount.flags.contains("noexec"));
    assert!(host.events().is_empty() && host.detached_mounts() == 0);
}

#[test]
fn items_modes_and_fs_group_are_as_for_config_maps() {
    let host = host();
    let volume = login()
        .field("items.0.key", "key")
        .field("items.0.path", "ssh/id")
        .field("items.0.mode", 0o400)
        .field("defaultMode", 0o444);
    let plain = shown(&host, &volume, &Pod::builder());
    assert_eq!((plain.paths(), plain.files["ssh/id"].mode), (vec!["ssh/id"], 0o400));
    let other = Pod::builder().with_uid("uid-2").fs_group(2000);
    host.publish::<Secret>(&volume, &other).unwrap();
    let target = host.target_of(&other, "login");
    let grouped = target.payload().unwrap();
    assert_eq!((grouped.group, grouped.files["ssh/id"].mode, grouped.folder_mode), (Some(2000), 0o440, 0o2755));
    let mount = target.mount().unwrap();
    assert_eq!((mount.option("mode"), mount.option("gid")), (Some("2755"), Some("2000")));
}

#[test]
fn without_noswap_the_pod_gets_one_event() {
    let host = host();
    host.without_tmpfs_option("noswap");
    publish(&host, &login()).unwrap();
    publish(&host, &login()).unwrap();
    let events = host.events();
    assert_eq!(events.len(), 1);
    assert!(events[0].warning && events[0].reason == "PossibleMemoryBackedVolumesOnDisk");
    assert!(!host.target("login").mount().unwrap().has_option("noswap"));
}

#[test]
fn a_refresh_reuses_the_mount_and_a_failed_one_keeps_its_files() {
    let host = host();
    let before = shown(&host, &login(), &Pod::builder());
    host.remove_secret("login");
    assert!(matches!(publish(&host, &login()), Err(Error::NotFound(_))));
    assert_eq!(host.target("login").payload(), Some(before));
    host.secret("login", &[("user", b"root")]);
    assert_eq!(shown(&host, &login(), &Pod::builder()).paths(), ["user"]);
    assert_eq!(host.calls().iter().filter(|call| **call == "attach").count(), 1);
}

#[test]
fn a_first_publish_that_fails_leaves_no_mount() {
    for call in ["tmpfs.create", "set-options", "attach", "publish", "secrets.open"] {
        let host = host();
        host.fail(call, Error::retryable("the kernel is tired"));
        assert_eq!(publish(&host, &login()), Err(Error::retryable("the kernel is tired")), "{call}");
        assert!(host.target("login").is_absent() && host.detached_mounts() == 0, "{call}");
    }
}

#[test]
fn an_empty_folder_at_the_target_is_used_and_anything_else_is_a_conflict() {
    let host = host();
    host.target("login").put_folder(TestFolder::default());
    publish(&host, &login()).unwrap();
    assert_eq!(host.target("login").mount().unwrap().fs_type, "tmpfs");

    host.target("login").put_mount(TestMount::of_type("ext4"));
    let error = publish(&host, &login()).unwrap_err();
    assert!(matches!(error, Error::Conflict(_)) && error.message().contains("ext4"), "{error}");
    host.target("login").put_folder(TestFolder::default());
    host.target("login").write("data", b"precious");
    assert!(matches!(publish(&host, &login()), Err(Error::Conflict(_))));
    assert_eq!(host.target("login").folder().unwrap().files["data"], b"precious");
}

#[test]
fn optional_secrets_may_be_missing_and_others_not() {
    let host = TestHost::new();
    assert!(matches!(publish(&host, &login()), Err(Error::NotFound(_))));
    assert!(host.target("login").is_absent());
    assert!(shown(&host, &login().field("optional", true), &Pod::builder()).files.is_empty());
}

#[test]
fn bad_fields_are_named() {
    let host = host();
    for (volume, said) in [
        (login().without("secretName"), "secret.secretName: is missing"),
        (login().field("name", "login"), "secret.name: no such field"),
        (login().field("defaultMode", 0o1777), "secret.defaultMode: 1023 is not a mode"),
        (login().field("items.0.key", "user"), "secret.items.0.path: is missing"),
        (login().field("items.0.key", "user").field("items.0.path", "../x"), "secret.items.0.path: \"../x\" must not"),
    ] {
        let error = host.identify::<Secret>(&volume).unwrap_err();
        assert!(matches!(error, Error::InvalidArgument(_)) && error.message().starts_with(said), "{said}: {error}");
        assert_eq!(publish(&host, &volume).unwrap_err(), error);
    }
}

#[test]
fn no_error_event_or_log_line_contains_a_value() {
    let host = host();
    host.without_tmpfs_option("noswap");
    publish(&host, &login()).unwrap();
    let error = publish(&host, &login().field("items.0.key", "none").field("items.0.path", "x")).unwrap_err();
    let said = format!("{error} {:?} {:?}", host.events(), host.lines());
    assert!(!said.contains("admin") && !said.contains("hush"), "{said}");
}

#[test]
fn unpublish_unmounts_and_can_be_repeated() {
    let host = host();
    publish(&host, &login()).unwrap();
    host.unpublish::<Secret>("login").unwrap();
    host.unpublish::<Secret>("login").unwrap();
    assert!(host.target("login").is_absent());
    assert!(!host.calls().contains(&"delete-folder"), "nothing is deleted through a mount");
}
