//! Attaching and detaching: what is wanted stays attached, and `detach` reaches the volume that it
//! is for.

use std::fs;

use volhost_tests::wait::eventually;

use super::kit::{DRIVER, Flex, PLUGIN, pod};

/// Keeps a folder for each attached volume, under the only name that `detach` gets.
const ATTACH: &str = r#"name=$(printf '%s' "$2" | sed 's/.*"kubernetes.io\/pvOrVolumeName":"\([^"]*\)".*/\1/')
mkdir -p "$here/attached"
mkdir "$here/attached/$name" || answer Failure "$name is attached already" 1
printf '{"status":"Success","device":"word of %s"}\n' "$name"; exit"#;
const DETACH: &str = r#"rmdir "$here/attached/$2" && answer Success; answer Failure "$2 is not attached" 1"#;
/// Volumes are attached, and mounted for the node and the pod.
const ATTACHING: [(&str, &str); 5] = [
    ("init", "answer Success"),
    ("attach", ATTACH),
    ("detach", DETACH),
    ("mountdevice", r#"mount -t tmpfs "$3" "$2"; answer Success"#),
    ("unmountdevice", r#"umount "$2"; answer Success"#),
];

fn attached(flex: &Flex) -> Vec<String> {
    let entries = fs::read_dir(flex.node.folder().join("attached")).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn records(flex: &Flex) -> usize {
    let folder = flex.node.root().join("state/devices");
    fs::read_dir(flex.node.path(&folder)).map(|entries| entries.count()).unwrap_or(0)
}

/// Another pod with a volume `data` of the driver.
fn second_pod(flex: &Flex, options: &str) {
    let source = format!("      flexVolume: {{ driver: {DRIVER}, options: {options} }}\n");
    let text = pod(&source).replace("name: web, uid: uid-1", "name: second, uid: uid-2");
    flex.node.manifest("second.yaml", &text);
}

#[test]
fn a_wanted_volume_that_is_attached_and_not_mounted_yet_stays_attached_over_restarts() {
    // As the kubelet, volhost attaches again what it cannot know to be attached.
    let attach = ATTACH.replace("mkdir \"$here/attached/$name\"", "mkdir -p \"$here/attached/$name\"");
    let mut flex = Flex::doing(&[
        ("init", "answer Success"),
        ("attach", attach.as_str()),
        ("detach", DETACH),
        ("mountdevice", "answer Failure 'no path to the storage yet' 1"),
    ]);
    flex.claimed("");
    flex.node.wait_event(&["FailedMount", "no path to the storage yet"]);
    for _ in 0..2 {
        let before = flex.count("mountdevice");
        flex.node.kill();
        // The driver answers to `init` some time after the host has begun, so that the volume
        // cannot be resolved at first.
        flex.does(
            "init",
            "if [ ! -e \"$here/go\" ]; then touch \"$here/asked\"; answer Failure 'not yet' 1; fi; answer Success",
        );
        flex.node.start();
        assert!(eventually(|| flex.node.folder().join("asked").exists()));
        flex.wait_driver(&[DRIVER, "Failed", "not yet"]);
        fs::write(flex.node.folder().join("go"), "").unwrap();
        assert!(eventually(|| flex.count("mountdevice") > before), "{}", flex.node.log());
        fs::remove_file(flex.node.folder().join("go")).unwrap();
        fs::remove_file(flex.node.folder().join("asked")).unwrap();
    }
    assert_eq!(flex.count("detach"), 0, "the pod wants it all the time");
    flex.node.remove_manifest("pod.yaml");
    assert!(eventually(|| attached(&flex).is_empty()), "{}", flex.node.log());
}

#[test]
fn volumes_of_one_name_in_two_pods_are_detached_each_by_itself() {
    let flex = Flex::doing(&ATTACHING);
    flex.pod("options: { lun: \"1\" }");
    flex.wait_mounted();
    second_pod(&flex, "{ lun: \"2\" }");
    flex.node.wait_mounted("default/second");
    let both = attached(&flex);
    assert_eq!(both.len(), 2, "{both:?}");
    assert!(both.iter().all(|name| name.starts_with("data_")), "{both:?}");
    let of_second =
        flex.node.pod_mounts().iter().filter(|mount| mount.point.to_string_lossy().contains("uid-2")).count();
    assert_eq!(of_second, 1);
    flex.remove_pod_but_not_others();
    assert!(eventually(|| attached(&flex).len() == 1), "{}", flex.node.log());
    let volume = flex.node.volume("uid-2", PLUGIN, "data");
    fs::write(volume.join("file"), "still there").unwrap();
    let second = &attached(&flex)[0];
    let of_second = flex.calls().into_iter().filter(|call| call[0] == "attach").nth(1).unwrap();
    assert!(of_second[1].contains(second.as_str()), "the second pod's volume is attached: {second}");
    flex.node.remove_manifest("second.yaml");
    assert!(eventually(|| attached(&flex).is_empty()), "{}", flex.node.log());
}

#[test]
fn a_volume_whose_attach_only_ever_failed_leaves_no_record_and_is_not_detached() {
    let mut flex = Flex::doing(&[
        ("init", "answer Success"),
        ("attach", "answer Failure 'no such lun' 1"),
        ("detach", "touch \"$here/detached\"; answer Success"),
    ]);
    flex.claimed("");
    flex.node.wait_event(&["FailedAttachVolume", "no such lun"]);
    assert!(eventually(|| records(&flex) == 0), "nothing is attached, so nothing is recorded");
    flex.node.kill();
    flex.node.remove_manifest("pod.yaml");
    flex.node.start();
    // Once another volume was mounted and unmounted, the start is over.
    flex.does("attach", ATTACH);
    flex.does("mountdevice", r#"mount -t tmpfs whole "$2"; answer Success"#);
    second_pod(&flex, "{ lun: \"2\" }");
    flex.node.wait_mounted("default/second");
    assert_eq!(flex.count("detach"), 0);
    assert_eq!(records(&flex), 1);
}

#[test]
fn a_device_that_is_an_image_file_is_the_drivers_own_affair() {
    let flex = Flex::doing(&[
        ("init", "answer Success"),
        (
            "attach",
            "touch \"$here/lun.img\"; printf '{\"status\":\"Success\",\"device\":\"%s/lun.img\"}\\n' \"$here\"; exit",
        ),
        ("mountdevice", r#"[ -f "$3" ] || answer Failure "no image $3" 1; mount -t tmpfs whole "$2"; answer Success"#),
        ("unmountdevice", r#"umount "$2"; answer Success"#),
        ("expandvolume", "answer Success"),
        ("expandfs", r#"[ -f "$3" ] || answer Failure "no image $3" 1; answer Success"#),
    ]);
    flex.claimed("");
    flex.wait_mounted();
    flex.claimed_of("2Mi", "");
    flex.node.wait_event(&["FileSystemResizeSuccessful"]);
    flex.remove_pod();
    assert!(eventually(|| flex.count("detach") == 1), "{}", flex.node.log());
}
