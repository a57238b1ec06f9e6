use volhost_plugin_sdk::testing::{TestHost, TestPayload, TestPod, TestVolume};

use super::*;

fn info() -> TestVolume {
    Volume::builder("downwardAPI").named("info")
}

fn field(volume: TestVolume, index: usize, path: &str, of: &str) -> TestVolume {
    volume.field(&format!("items.{index}.path"), path).field(&format!("items.{index}.fieldRef.fieldPath"), of)
}

fn resource(path: &str, name: &str) -> TestVolume {
    info()
        .field("items.0.path", path)
        .field("items.0.resourceFieldRef.containerName", "main")
        .field("items.0.resourceFieldRef.resource", name)
}

fn pod() -> TestPod {
    Pod::builder().named("shop", "web").label("tier", "front").label("app", "web").annotation("note", "hello")
}

fn shown(host: &TestHost, volume: &TestVolume, pod: &TestPod) -> TestPayload {
    host.publish::<DownwardApi>(volume, pod).unwrap();
    host.target("info").payload().unwrap()
}

#[test]
fn it_serves_downward_api_and_follows_the_pod() {
    let about = TestHost::new().describe::<DownwardApi>();
    assert_eq!(about.name, "kubernetes.io/downward-api");
    assert_eq!(about.serves, ["downwardAPI"]);
    assert!(about.read_only && about.follows_its_source);
}

#[test]
fn fields_of_the_pod_are_files() {
    for (of, text) in [
        ("metadata.name", "web"),
        ("metadata.namespace", "shop"),
        ("metadata.uid", "uid-1"),
        ("metadata.labels", "app=\"web\"\ntier=\"front\""),
        ("metadata.annotations", "note=\"hello\""),
        ("metadata.labels['tier']", "front"),
        ("metadata.annotations['missing']", ""),
    ] {
        let host = TestHost::new();
        let payload = shown(&host, &field(info(), 0, "deep/er/file", of), &pod());
        assert_eq!(payload.files["deep/er/file"].text(), text, "{of}");
        assert_eq!(payload.files["deep/er/file"].mode, 0o644);
    }
}

#[test]
fn resources_are_files_divided_by_their_divisor() {
    let host = TestHost::new();
    let pod = pod().resource_value("main", "limits.cpu", "1", "2").resource_value("main", "limits.cpu", "1m", "1500");
    assert_eq!(shown(&host, &resource("cpu", "limits.cpu"), &pod).files["cpu"].text(), "2");
    let divided = resource("cpu", "limits.cpu").field("items.0.resourceFieldRef.divisor", "1m");
    assert_eq!(shown(&host, &divided, &pod).files["cpu"].text(), "1500");
}

#[test]
fn modes_and_fs_group_apply() {
    let host = TestHost::new();
    let volume = field(field(info(), 0, "a", "metadata.name"), 1, "b", "metadata.uid")
        .field("items.1.mode", 0o400)
        .field("defaultMode", 0o600);
    let plain = shown(&host, &volume, &pod());
    assert_eq!((plain.files["a"].mode, plain.files["b"].mode), (0o600, 0o400));
    let grouped = shown(&host, &volume, &pod().fs_group(7));
    assert_eq!((grouped.files["a"].mode, grouped.files["b"].mode, grouped.group), (0o640, 0o440, Some(7)));
}

#[test]
fn a_changed_label_changes_its_file_only() {
    let host = TestHost::new();
    let volume = field(info(), 0, "labels", "metadata.labels");
    let before = shown(&host, &volume, &pod());
    assert_eq!(shown(&host, &volume, &pod()), before);
    assert_eq!(
        shown(&host, &volume, &pod().label("tier", "back")).files["labels"].text(),
        "app=\"web\"\ntier=\"back\""
    );
}

#[test]
fn a_volume_without_items_is_empty() {
    assert!(shown(&TestHost::new(), &info(), &pod()).files.is_empty());
}

#[test]
fn an_unknown_field_or_resource_is_named_and_changes_nothing() {
    let host = TestHost::new();
    let good = field(info(), 0, "name", "metadata.name");
    let before = shown(&host, &good, &pod());
    for (volume, said) in [
        (field(good.clone(), 1, "ip", "status.podIP"), "downwardAPI.items.1.fieldRef.fieldPath: \"status.podIP\""),
        (resource("cpu", "limits.gpu"), "downwardAPI.items.0.resourceFieldRef: \"limits.gpu\""),
    ] {
        let error = host.publish::<DownwardApi>(&volume, &pod()).unwrap_err();
        assert!(matches!(error, Error::InvalidArgument(_)) && error.message().starts_with(said), "{said}: {error}");
        assert_eq!(host.target("info").payload(), Some(before.clone()));
    }
}

#[test]
fn bad_fields_are_named() {
    let host = TestHost::new();
    for (volume, said) in [
        (info().field("defaultMode", 512), "downwardAPI.defaultMode: 512 is not a mode"),
        (info().field("optional", true), "downwardAPI.optional: no such field"),
        (info().field("items.0.path", "a"), "downwardAPI.items.0: has neither fieldRef nor resourceFieldRef"),
        (
            field(resource("a", "limits.cpu"), 0, "a", "metadata.name"),
            "downwardAPI.items.0: has both fieldRef and resourceFieldRef",
        ),
        (field(info(), 0, "/a", "metadata.name"), "downwardAPI.items.0.path: \"/a\" must be a relative path"),
        (field(info(), 0, "../a", "metadata.name"), "downwardAPI.items.0.path: \"../a\" must not contain"),
        (
            info().field("items.0.path", "a").field("items.0.fieldRef.path", "metadata.name"),
            "downwardAPI.items.0.fieldRef.path: no such field",
        ),
        (
            field(info(), 0, "a", "metadata.name").field("items.0.fieldRef.apiVersion", "v2"),
            "downwardAPI.items.0.fieldRef.apiVersion: \"v2\" is not known",
        ),
        (
            resource("a", "limits.cpu").without("items.0.resourceFieldRef.containerName"),
            "downwardAPI.items.0.resourceFieldRef.containerName: is missing",
        ),
    ] {
        let error = host.identify::<DownwardApi>(&volume).unwrap_err();
        assert!(matches!(error, Error::InvalidArgument(_)) && error.message().starts_with(said), "{said}: {error}");
    }
}
