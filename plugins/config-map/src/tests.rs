use volhost_plugin_sdk::testing::{TestHost, TestMount, TestPayload, TestPod, TestVolume};

use super::*;

fn app() -> TestVolume {
    Volume::builder("configMap").named("config").field("name", "app")
}

fn host() -> TestHost {
    let host = TestHost::new();
    host.config_map("app", &[("colour", b"blue"), ("logo.png", b"\x89PNG\xff\x00")]);
    host
}

fn publish(host: &TestHost, volume: &TestVolume) -> Result<()> {
    host.publish::<ConfigMap>(volume, &Pod::builder())
}

fn shown(host: &TestHost, volume: &TestVolume, pod: &TestPod) -> TestPayload {
    host.publish::<ConfigMap>(volume, pod).unwrap();
    host.target("config").payload().unwrap()
}

fn item(volume: TestVolume, index: usize, key: &str, path: &str) -> TestVolume {
    volume.field(&format!("items.{index}.key"), key).field(&format!("items.{index}.path"), path)
}

#[test]
fn it_serves_config_maps_and_follows_them() {
    let about = TestHost::new().describe::<ConfigMap>();
    assert_eq!(about.name, "kubernetes.io/configmap");
    assert_eq!(about.serves, ["configMap"]);
    assert!(about.read_only && about.follows_its_source && !about.accepts_mount_options);
}

#[test]
fn every_key_is_a_file_whether_text_or_binary() {
    let host = host();
    let payload = shown(&host, &app(), &Pod::builder());
    assert_eq!(payload.paths(), ["colour", "logo.png"]);
    assert_eq!(payload.files["colour"].text(), "blue");
    assert_eq!(payload.files["logo.png"].bytes, b"\x89PNG\xff\x00");
    assert!(payload.files.values().all(|file| file.mode == 0o644));
    assert_eq!((payload.owner, payload.group, payload.folder_mode), (None, None, 0o755));
    assert_eq!(host.target("config").folder().unwrap().mode, 0o755);
    assert!(host.target("config").mount().is_none());
}

#[test]
fn items_choose_keys_and_put_them_into_sub_folders_with_modes_of_their_own() {
    let host = host();
    let volume = item(item(app(), 0, "colour", "theme/dark/colour"), 1, "logo.png", "./img//logo")
        .field("items.1.mode", 0o400)
        .field("defaultMode", 0o640);
    let payload = shown(&host, &volume, &Pod::builder());
    assert_eq!(payload.paths(), ["img/logo", "theme/dark/colour"]);
    assert_eq!(payload.files["theme/dark/colour"].mode, 0o640);
    assert_eq!(payload.files["img/logo"].mode, 0o400);
}

#[test]
fn with_fs_group_everything_belongs_to_the_group_which_can_read_it() {
    let host = host();
    let payload = shown(&host, &app().field("defaultMode", 0o600), &Pod::builder().fs_group(2000).fs_user(1000));
    assert_eq!((payload.group, payload.folder_mode), (Some(2000), 0o2755));
    assert!(payload.files.values().all(|file| file.mode == 0o640 && file.owner.is_none()));
    let folder = host.target("config").folder().unwrap();
    assert_eq!((folder.mode, folder.group), (0o2755, Some(2000)));
}

#[test]
fn a_missing_config_map_or_key_is_named_and_nothing_is_made() {
    let host = host();
    let error = publish(&host, &app().field("name", "other")).unwrap_err();
    assert!(matches!(error, Error::NotFound(_)) && error.message().contains("default/other"), "{error}");
    let error = publish(&host, &item(app(), 0, "size", "size")).unwrap_err();
    assert_eq!(error, Error::not_found(r#"configMap.items.0.key: config map "app" has no key "size""#));
    assert!(host.target("config").is_absent());
}

#[test]
fn an_optional_config_map_or_key_may_be_missing() {
    let host = host();
    let optional = app().field("optional", true);
    assert!(shown(&host, &optional.clone().field("name", "other"), &Pod::builder()).files.is_empty());
    let some = item(item(optional, 0, "size", "size"), 1, "colour", "colour");
    assert_eq!(shown(&host, &some, &Pod::builder()).paths(), ["colour"]);
}

#[test]
fn an_optional_config_map_of_unknown_existence_is_not_taken_for_missing() {
    let host = host();
    publish(&host, &app().field("optional", true)).unwrap();
    host.fail("config-maps.open", Error::retryable("a manifest cannot be read"));
    let error = publish(&host, &app().field("optional", true)).unwrap_err();
    assert_eq!(error, Error::retryable("a manifest cannot be read"));
    assert_eq!(host.target("config").payload().unwrap().paths(), ["colour", "logo.png"]);
}

#[test]
fn the_files_of_an_optional_config_map_appear_and_disappear_with_it() {
    let host = TestHost::new();
    let volume = app().field("optional", true);
    publish(&host, &volume).unwrap();
    host.config_map("app", &[("colour", b"red")]);
    assert_eq!(shown(&host, &volume, &Pod::builder()).paths(), ["colour"]);
    host.remove_config_map("app");
    assert!(shown(&host, &volume, &Pod::builder()).files.is_empty());
}

#[test]
fn a_refresh_publishes_new_content_and_a_failed_one_keeps_the_old() {
    let host = host();
    publish(&host, &app()).unwrap();
    host.config_map("app", &[("colour", b"red")]);
    let new = shown(&host, &app(), &Pod::builder());
    assert_eq!((new.paths(), new.files["colour"].text()), (vec!["colour"], "red"));

    host.remove_config_map("app");
    assert!(matches!(publish(&host, &app()), Err(Error::NotFound(_))));
    assert_eq!(host.target("config").payload(), Some(new.clone()));
    host.config_map("app", &[("colour", b"green")]).fail("publish", Error::retryable("no space left"));
    assert_eq!(publish(&host, &app()), Err(Error::retryable("no space left")));
    assert_eq!(host.target("config").payload(), Some(new));
}

#[test]
fn a_first_publish_that_fails_is_rolled_back() {
    for call in ["make-inner-folder", "publish", "make-folder"] {
        let host = host();
        host.fail(call, Error::retryable("the kernel is tired"));
        let pod = Pod::builder().nested_mount("config", "inner");
        let error = host.publish::<ConfigMap>(&app(), &pod).unwrap_err();
        assert!(matches!(error, Error::Retryable(_)), "{error}");
        assert!(host.target("config").is_absent(), "{call}");
    }
    let host = host();
    host.fail("publish", Error::retryable("tired")).fail("delete-folder", Error::busy("in use"));
    let error = publish(&host, &app()).unwrap_err();
    assert!(matches!(&error, Error::Uncertain(text) if text.contains("tired") && text.contains("in use")), "{error}");
}

#[test]
fn folders_for_volumes_mounted_inside_are_there_before_the_container_starts() {
    let host = host();
    let pod = Pod::builder().nested_mount("config", "inner/deep").nested_mount("another", "x");
    shown(&host, &app(), &pod);
    let folder = host.target("config").folder().unwrap();
    assert_eq!(folder.inner_folders.into_iter().collect::<Vec<_>>(), [("inner/deep".to_owned(), 0o755)]);
}

#[test]
fn a_mount_where_the_folder_should_be_is_a_conflict() {
    let host = host();
    host.target("config").put_mount(TestMount::of_type("ext4"));
    assert!(matches!(publish(&host, &app()), Err(Error::Conflict(_))));
    assert!(host.target("config").mount().unwrap().payload.is_none());
}

#[test]
fn a_bad_field_is_named_with_its_path_and_nothing_is_made() {
    let host = host();
    let path = |path: &str| item(app(), 0, "colour", path);
    for (volume, said) in [
        (app().without("name"), "configMap.name: is missing"),
        (app().field("name", ""), "configMap.name: must not be empty"),
        (app().field("defaultmode", 1), "configMap.defaultmode: no such field; did you mean defaultMode?"),
        (app().field("defaultMode", 0o1000), "configMap.defaultMode: 512 is not a mode"),
        (app().field("defaultMode", -1), "configMap.defaultMode: -1 is not a mode"),
        (app().field("defaultMode", "rw"), "configMap.defaultMode: \"rw\" is not a whole number"),
        (app().field("optional", "yes"), "configMap.optional: \"yes\" is not known"),
        (app().field("items", "all"), "configMap.items: is a text, and must be a list"),
        (app().field("items.0", "colour"), "configMap.items.0: is text, and must be a map"),
        (app().field("items.0.path", "a"), "configMap.items.0.key: is missing"),
        (path("a").field("items.0.keys", "b"), "configMap.items.0.keys: no such field; did you mean key?"),
        (path("a").field("items.0.mode", 0o1777), "configMap.items.0.mode: 1023 is not a mode"),
        (path(""), "configMap.items.0.path: must not be empty"),
        (path("/etc/passwd"), "configMap.items.0.path: \"/etc/passwd\" must be a relative path"),
        (path("a/../../b"), "configMap.items.0.path: \"a/../../b\" must not contain \"..\""),
        (path(".."), "configMap.items.0.path: \"..\" must not contain \"..\""),
        (path("..data/x"), "configMap.items.0.path: \"..data/x\" must not begin with \"..\""),
        (path("./..x"), "configMap.items.0.path: \"./..x\" must not begin with \"..\""),
        (path("./."), "configMap.items.0.path: \"./.\" names no file"),
        (path("a\0b"), "configMap.items.0.path: \"a\\u{0}b\" must not contain a NUL"),
        (path(&"x".repeat(256)), "configMap.items.0.path: \"xxxx"),
        (path(&"x/".repeat(2049)), "configMap.items.0.path: \"x/x/"),
    ] {
        let error = host.identify::<ConfigMap>(&volume).unwrap_err();
        assert!(matches!(error, Error::InvalidArgument(_)), "{error}");
        assert!(error.message().starts_with(said), "{said}: {error}");
        assert_eq!(publish(&host, &volume).unwrap_err(), error, "publish returns the same error");
    }
    assert!(host.target("config").is_absent());
}

#[test]
fn a_key_that_is_no_file_name_is_refused() {
    for key in ["../up", "..", ".", "a/b", "..x", "", "a b", &"k".repeat(254)] {
        let host = TestHost::new();
        host.config_map("app", &[("good", b""), (key, b"x")]);
        let error = publish(&host, &app()).unwrap_err();
        assert!(matches!(error, Error::InvalidArgument(_)) && error.message().starts_with("configMap: "), "{error}");
        assert!(host.target("config").is_absent());
    }
}

#[test]
fn paths_that_are_file_and_folder_at_once_are_refused() {
    let host = host();
    let volume = item(item(app(), 0, "colour", "a"), 1, "colour", "a/b");
    assert!(matches!(publish(&host, &volume), Err(Error::InvalidArgument(_))));
    assert!(host.target("config").is_absent());
}

#[test]
fn ten_thousand_keys_and_a_megabyte_are_published() {
    let host = TestHost::new();
    let names: Vec<String> = (0..10_000).map(|index| format!("key-{index}")).collect();
    let mut data: Vec<(&str, &[u8])> = names.iter().map(|name| (name.as_str(), b"v".as_slice())).collect();
    let large = vec![b'x'; 1 << 20];
    data.push(("large", &large));
    host.config_map("app", &data);
    let payload = shown(&host, &app(), &Pod::builder());
    assert_eq!(payload.files.len(), 10_001);
    assert_eq!(payload.files["large"].bytes.len(), 1 << 20);
}

#[test]
fn a_config_map_that_the_volume_does_not_name_is_never_opened() {
    let host = host();
    host.config_map("other", &[("a", b"b")]);
    shown(&host, &app(), &Pod::builder());
    assert!(host.calls().contains(&"config-maps.open"));
    assert!(!host.calls().iter().any(|call| call.starts_with("secrets")));
}

#[test]
fn unpublish_removes_the_folder_and_can_be_repeated() {
    let host = host();
    publish(&host, &app()).unwrap();
    host.unpublish::<ConfigMap>("config").unwrap();
    assert!(host.target("config").is_absent());
    host.unpublish::<ConfigMap>("config").unwrap();
}
