use volhost_plugin_sdk::prelude::*;
use volhost_plugin_sdk::testing::{TestDriver, TestHost, TestMount, TestReply, TestRun, TestVolume};

use super::FlexVolume;
use super::source::driver_and_name;

const DRIVER: &str = "acme/lun";

fn volume() -> TestVolume {
    lun("seven")
}

fn lun(number: &str) -> TestVolume {
    let options = format!("{{\"lun\":\"{number}\"}}");
    Volume::builder("flexVolume").field("driver", DRIVER).field("options", options).field("options.lun", number)
}

/// A host whose driver mounts and unmounts as it should.
fn honest(init: &[(&str, &str)]) -> TestHost {
    let host = TestHost::new();
    host.flex_driver(DRIVER, init).flex_script(|run: &TestRun| match run.arguments[0].as_str() {
        "mount" | "mountdevice" if TestDriver::mount(&run.arguments[1], TestMount::of_type("fuse")) => {
            TestReply::status("Success")
        }
        "unmount" | "unmountdevice" if TestDriver::unmount(&run.arguments[1]) => TestReply::status("Success"),
        "mount" | "mountdevice" | "unmount" | "unmountdevice" => TestReply::status("Failure").exit(1),
        _ => TestReply::status("Not supported"),
    });
    host
}

fn calls(host: &TestHost) -> Vec<String> {
    host.flex_runs().into_iter().map(|run| run.arguments[0].clone()).collect()
}

#[test]
fn a_driver_mounts_once_however_often_the_host_calls() {
    let host = honest(&[("capabilities.attach", "false")]);
    let (volume, pod) = (volume(), Pod::builder().fs_group(2000));
    for _ in 0..2 {
        host.publish::<FlexVolume>(&volume, &pod).unwrap();
    }
    let run = &host.flex_runs()[0];
    assert_eq!(run.options["lun"], "seven");
    assert_eq!(run.options["kubernetes.io/fsGroup"], "2000");
    assert_eq!(run.options["kubernetes.io/mounterArgs.FsGroup"], "2000");
    assert_eq!(host.target(volume.name()).group(), Some(2000));
    for _ in 0..2 {
        host.unpublish::<FlexVolume>(volume.name()).unwrap();
    }
    assert!(host.target(volume.name()).is_absent());
    assert_eq!(calls(&host), ["mount", "unmount"]);
}

#[test]
fn the_answer_to_init_decides_whether_a_volume_is_attached() {
    let said = |init: &[(&str, &str)]| honest(init).identity::<FlexVolume>(&volume()).unwrap();
    let (plain, attached) = (said(&[("capabilities.attach", "false")]), said(&[]));
    assert_eq!((plain.attachable, plain.stageable), (Some(false), Some(false)));
    assert_eq!((attached.attachable, attached.stageable), (Some(true), Some(true)), "the kubelet's default");
}

#[test]
fn a_volumes_name_identifies_its_storage() {
    let host = honest(&[]);
    let name = |volume: &TestVolume| host.identify::<FlexVolume>(volume).unwrap().unwrap();
    let first = name(&volume());
    assert_ne!(first, name(&lun("eight")), "pods choose the same names for other storage");
    let (driver, own) = driver_and_name(&first).unwrap();
    assert!(driver == DRIVER && own.starts_with(&format!("{}_", volume().name())), "{own}");
    assert_eq!(name(&volume().persistent_volume("pv-1")), "acme~lun/pv-1");
    assert!(driver_and_name("nonsense").is_err());
}

#[test]
fn a_failure_leaves_nothing_and_an_uncertain_call_is_left_alone() {
    let host = honest(&[("capabilities.attach", "false")]);
    host.flex_script(|run| {
        TestDriver::mount(&run.arguments[1], TestMount::tmpfs());
        TestReply::status("Failure").field("message", "half done")
    });
    let error = host.publish::<FlexVolume>(&volume(), &Pod::builder()).unwrap_err();
    assert!(matches!(&error, Error::Retryable(text) if text.contains("half done")), "{error:?}");
    assert!(host.target(volume().name()).is_absent());
    host.flex_script(|run| {
        TestDriver::mount(&run.arguments[1], TestMount::tmpfs());
        TestReply::words("usage").exit(2)
    });
    let error = host.publish::<FlexVolume>(&volume(), &Pod::builder()).unwrap_err();
    assert!(matches!(&error, Error::Uncertain(text) if text.contains("usage")), "{error:?}");
    assert!(host.target(volume().name()).mount().is_some());
}

#[test]
fn an_uncertain_call_is_rolled_back_before_the_driver_is_called_again() {
    let host = honest(&[("capabilities.attach", "false")]);
    host.flex_script(|run| {
        TestDriver::mount(&run.arguments[1], TestMount::tmpfs());
        TestReply::words("killed").exit(2)
    });
    host.publish::<FlexVolume>(&volume(), &Pod::builder()).unwrap_err();
    host.flex_script(|run| match run.arguments[0].as_str() {
        "mount" => {
            assert!(TestDriver::mount(&run.arguments[1], TestMount::of_type("fuse")), "nothing is mounted there");
            TestReply::status("Success")
        }
        _ => TestReply::status("Failure").field("message", "it knows of no mount").exit(1),
    });
    for _ in 0..2 {
        host.publish::<FlexVolume>(&volume(), &Pod::builder()).unwrap();
    }
    assert_eq!(calls(&host), ["mount", "unmount", "mount"]);
    assert_eq!(host.events()[0].reason, "UncertainMountUndone");
}

#[test]
fn a_driver_may_fill_the_folder_without_a_mount() {
    let host = honest(&[("capabilities.attach", "false")]);
    host.flex_script(|run| {
        TestDriver::fill(&run.arguments[1], "file", b"content");
        TestReply::status("Success")
    });
    host.publish::<FlexVolume>(&volume(), &Pod::builder()).unwrap();
    assert!(host.target(volume().name()).mount().is_none());
    let error = host.unpublish::<FlexVolume>(volume().name()).unwrap_err();
    assert!(error.to_string().contains("left files in its folder"), "{error:?}");
}

#[test]
fn options_in_the_namespaces_of_kubernetes_are_refused() {
    for key in ["kubernetes.io/pod.namespace", "a.kubernetes.io/b", "K8S.IO/x", "kubernetes.io"] {
        assert!(crate::source::is_reserved(key), "{key}");
    }
    for key in ["lun", "mykubernetes.io/x", "example.com/kubernetes.io"] {
        assert!(!crate::source::is_reserved(key), "{key}");
    }
}

#[test]
fn a_volume_is_unmounted_though_its_driver_is_gone() {
    let host = honest(&[("capabilities.attach", "false")]);
    host.publish::<FlexVolume>(&volume(), &Pod::builder()).unwrap();
    host.remove_flex_driver(DRIVER);
    host.unpublish::<FlexVolume>(volume().name()).unwrap();
    assert!(host.target(volume().name()).is_absent());
    assert_eq!(host.events()[0].reason, "DriverMissing");
}

#[test]
fn a_pod_gets_the_staging_mount_where_the_driver_leaves_it_to_the_host() {
    let host = honest(&[]);
    host.flex_script(|run| match run.arguments[0].as_str() {
        "attach" => TestReply::status("Success").field("device", "word"),
        "mountdevice" => {
            TestDriver::mount(&run.arguments[1], TestMount::of_type("fuse"));
            TestReply::status("Success")
        }
        _ => TestReply::status("Not supported"),
    });
    let attached = host.attach::<FlexVolume>(&volume()).unwrap();
    let attached = host.wait_for_attach::<FlexVolume>(&volume(), &attached).unwrap();
    host.stage::<FlexVolume>(&volume(), Some(&attached)).unwrap();
    host.publish::<FlexVolume>(&volume().read_only(), &Pod::builder()).unwrap();
    assert!(host.target(volume().name()).mount().unwrap().is_read_only());
    let run = host.flex_runs().into_iter().find(|run| run.arguments[0] == "mountdevice").unwrap();
    assert_eq!(run.arguments[2], "word");
}

#[test]
fn fields_are_checked_by_name() {
    let host = honest(&[]);
    for (path, value, words) in [
        ("driver", "a/b/c", "VENDOR/DRIVER"),
        ("driver", "../x", "VENDOR/DRIVER"),
        ("optoins.a", "b", "optoins"),
        ("readOnly", "maybe", "readOnly"),
    ] {
        let error = host.identify::<FlexVolume>(&volume().field(path, value)).unwrap_err();
        assert!(matches!(&error, Error::InvalidArgument(text) if text.contains(words)), "{error:?}");
    }
}
