use volhost_plugin_sdk::testing::{TestHost, TestVolume};

use super::*;

const TAGGED: &str = "r.example/app:1";
const LATEST: &str = "r.example/app";

fn host() -> TestHost {
    let host = TestHost::new();
    host.grant_image_registry("r.example").registry_image(TAGGED, 4096).registry_image(LATEST, 8192);
    host
}

fn volume(reference: &str) -> TestVolume {
    Volume::builder("image").field("reference", reference)
}

fn reasons(host: &TestHost) -> Vec<String> {
    host.events().into_iter().map(|event| event.reason).collect()
}

#[test]
fn it_serves_image_volumes_for_reading_alone() {
    let about = TestHost::new().describe::<ImageVolume>();
    assert!(about.serves == ["image"] && about.read_only && !about.accepts_mount_options);
}

#[test]
fn the_files_of_an_image_are_mounted_without_programs_and_devices() {
    let host = host();
    let volume = volume(TAGGED);
    assert_eq!(host.identify::<ImageVolume>(&volume), Ok(None));
    for _ in 0..2 {
        host.publish::<ImageVolume>(&volume, &Pod::builder()).unwrap();
    }
    let mount = host.target(volume.name()).mount().unwrap();
    assert_eq!(mount.source.as_deref(), Some(TAGGED));
    assert_eq!(mount.flags.into_iter().collect::<Vec<_>>(), ["nodev", "noexec", "nosuid", "ro"]);
    assert_eq!(reasons(&host), ["Pulling", "Pulled"]);
    assert!(host.events()[1].message.contains("Image size: 4096 bytes"));
    for _ in 0..2 {
        host.unpublish::<ImageVolume>(volume.name()).unwrap();
    }
    assert!(host.target(volume.name()).is_absent() && host.detached_mounts() == 0);
}

#[test]
fn the_pull_policy_is_followed_and_its_default_depends_on_the_tag() {
    // Reference, policy, and the calls of a second pod.
    for (reference, policy, pulls) in [
        (TAGGED, None, false),
        (LATEST, None, true),
        (TAGGED, Some("Always"), true),
        (LATEST, Some("IfNotPresent"), false),
        (LATEST, Some("Never"), false),
    ] {
        let host = host();
        host.publish::<ImageVolume>(&volume(reference), &Pod::builder()).unwrap();
        let before = host.calls().len();
        let second = Pod::builder().with_uid("second");
        let volume = policy.map_or(volume(reference), |policy| volume(reference).field("pullPolicy", policy));
        host.publish::<ImageVolume>(&volume, &second).unwrap();
        assert_eq!(host.calls()[before..].contains(&"oci-images.pull"), pulls, "{reference} {policy:?}");
        assert_eq!(reasons(&host).last().unwrap(), "Pulled");
    }
}

#[test]
fn an_image_that_is_never_pulled_has_to_be_there() {
    let host = host();
    let never = volume(TAGGED).field("pullPolicy", "Never");
    let error = host.publish::<ImageVolume>(&never, &Pod::builder()).unwrap_err();
    assert!(matches!(&error, Error::Precondition(text) if text.contains("pull policy of Never")), "{error}");
    assert_eq!(reasons(&host), ["ErrImageNeverPull"]);
    assert!(!host.calls().contains(&"oci-images.pull"));
}

#[test]
fn a_failed_pull_is_an_event_with_its_cause() {
    let host = host();
    let error = host.publish::<ImageVolume>(&volume("r.example/gone:1"), &Pod::builder()).unwrap_err();
    assert!(matches!(error, Error::NotFound(_)), "{error}");
    assert_eq!(reasons(&host), ["Pulling", "Failed"]);
    let event = &host.events()[1];
    assert!(event.warning && event.message.starts_with("Failed to pull image \"r.example/gone:1\": "), "{event:?}");
    // What the node has does not need the registry.
    host.publish::<ImageVolume>(&volume(TAGGED), &Pod::builder()).unwrap();
    host.fail_always("oci-images.pull", Error::retryable("no connection"));
    host.publish::<ImageVolume>(&volume(TAGGED), &Pod::builder().with_uid("second")).unwrap();
}

#[test]
fn a_step_that_fails_leaves_no_mount() {
    for call in ["oci-images.find", "oci-images.pull", "image.mount", "set-options", "attach", "state"] {
        let host = host();
        host.fail(call, Error::retryable("injected"));
        assert!(host.publish::<ImageVolume>(&volume(TAGGED), &Pod::builder()).is_err(), "{call}");
        assert!(host.target("data").is_absent() && host.detached_mounts() == 0, "{call}");
    }
}

#[test]
fn every_field_is_checked() {
    let host = host();
    let refused = |volume: TestVolume| host.identify::<ImageVolume>(&volume).unwrap_err().to_string();
    for (volume, said) in [
        (Volume::builder("image"), "image.reference: is missing"),
        (volume(""), "image.reference: must not be empty"),
        (volume("r.example/a b"), "image.reference: "),
        (volume("other.example/app:1"), "is not granted"),
        (volume(TAGGED).field("pullPolicy", "Sometimes"), "image.pullPolicy: "),
        (volume(TAGGED).field("refrence", "x"), "did you mean reference"),
    ] {
        let text = refused(volume);
        assert!(text.contains(said), "{text} should contain {said}");
    }
}
