//! A pod's volumes in containers of the real Podman and Docker, by what `volhost mounts` prints.

use std::process::Command;

use volhost_tests::manifests::{device_pod, loop_volume};

use crate::kit::{Host, fails, succeeds};
use crate::{docker, podman};

const POD: &str = r#"
apiVersion: v1
kind: Pod
metadata: { name: web, uid: uid-web }
spec:
  containers:
  - name: app
    image: bb
    volumeMounts:
    - { name: parts, mountPath: /data/inner, subPath: one }
    - { name: data, mountPath: /data }
    - { name: data, mountPath: /see, readOnly: true, mountPropagation: HostToContainer }
  - name: other
    image: bb
    volumeMounts: [{ name: data, mountPath: /else }]
  volumes:
  - { name: data, emptyDir: {} }
  - { name: parts, emptyDir: { medium: Memory } }
"#;
const WRITE: &str = "echo deep >/data/inner/f; echo hi >/data/f; cat /see/f; cat /data/inner/f";

fn words(text: &str) -> Vec<&str> {
    text.split_whitespace().collect()
}

const RUN: [&str; 4] = ["run", "--rm", "--network", "none"];

/// A node with the pod.
fn host() -> Host {
    let host = Host::start();
    host.node.manifest("web.yaml", POD);
    host
}

/// A file of the pod's volumes.
fn written(host: &Host, file: &str) -> String {
    std::fs::read_to_string(host.node.volume("uid-web", "kubernetes.io~empty-dir", file)).unwrap()
}

#[test]
fn podman_runs_with_a_pods_volumes() {
    let host = host();
    let engine = podman::Engine::start(&host);
    let mounts = |container| host.node.ok(&["mounts", "pod", "default/web", "-c", container]);
    let (app, other) = (mounts("app"), mounts("other"));
    let shell = ["localhost/bb:1", "/bin/sh", "-c"];
    assert_eq!(engine.ok(&[&RUN[..], &words(&app), &shell, &[WRITE]].concat()), "hi\ndeep");
    assert_eq!(engine.ok(&[&RUN[..], &words(&other), &shell, &["cat /else/f"]].concat()), "hi");
    let refused = fails(&mut engine.podman(&[&RUN[..], &words(&app), &shell, &["touch /see/g"]].concat()));
    assert!(refused.contains("Read-only"), "{refused}");
    // In the volume, and in the part of the other that the container has.
    assert_eq!(written(&host, "data/f"), "hi\n");
    assert_eq!(written(&host, "parts/one/f"), "deep\n");
}

#[test]
fn docker_runs_with_a_pods_volumes() {
    let host = host();
    let engine = docker::Engine::start(&host);
    let app = host.node.ok(&["mounts", "pod", "default/web", "-c", "app", "-o", "docker"]);
    let shell = ["bb:1", "/bin/sh", "-c"];
    assert_eq!(succeeds(&mut engine.docker(&[&RUN[..], &words(&app), &shell, &[WRITE]].concat())), "hi\ndeep");
    let refused = fails(&mut engine.docker(&[&RUN[..], &words(&app), &shell, &["touch /see/g"]].concat()));
    assert!(refused.contains("Read-only"), "{refused}");
    assert_eq!(written(&host, "parts/one/f"), "deep\n");
}

/// A pod with a raw block volume of an image file, and a file system beside it.
fn host_with_a_device() -> Host {
    let host = Host::start();
    let image = host.node.folder().join("disk/raw.img");
    assert!(Command::new("truncate").args(["-s", "16M"]).arg(&image).status().unwrap().success());
    let raw = loop_volume("raw", "raw.img", "ext4", "16Mi", "  volumeMode: Block");
    host.node.manifest("raw.yaml", &format!("{raw}---\n{}", device_pod("disk", "uid-disk", "raw-claim")));
    host
}

#[test]
fn containers_of_podman_and_docker_have_a_pods_raw_device() {
    let host = host_with_a_device();
    let mounts = |runtime| host.node.ok(&["mounts", "pod", "default/disk", "-o", runtime]);
    let script = "echo marker >/dev/raw; read line </dev/raw; echo $line";
    let podman = podman::Engine::start(&host);
    let shell = ["localhost/bb:1", "/bin/sh", "-c", script];
    assert_eq!(podman.ok(&[&RUN[..], &words(&mounts("podman")), &shell].concat()), "marker");
    let docker = docker::Engine::start(&host);
    let shell = ["bb:1", "/bin/sh", "-c", "read line </dev/raw; echo $line"];
    let printed = mounts("docker");
    assert_eq!(succeeds(&mut docker.docker(&[&RUN[..], &words(&printed), &shell].concat())), "marker");
    assert!(printed.starts_with("--device=/") && printed.trim_end().ends_with(":/dev/raw:rwm"), "{printed}");
}

#[test]
fn a_raw_device_is_printed_for_runtimes_that_read_a_configuration() {
    let host = host_with_a_device();
    let printed = |runtime| -> serde_json::Value {
        serde_json::from_str(&host.node.ok(&["mounts", "pod", "default/disk", "-o", runtime])).unwrap()
    };
    let cri = printed("crictl");
    let node = cri["devices"][0]["host_path"].as_str().unwrap().to_owned();
    assert_eq!(
        (&cri["devices"][0]["container_path"], &cri["devices"][0]["permissions"]),
        (&"/dev/raw".into(), &"rwm".into())
    );
    let oci = printed("oci");
    let device = &oci["linux"]["devices"][0];
    assert_eq!((device["path"].as_str(), device["type"].as_str()), (Some("/dev/raw"), Some("b")));
    let number = host.node.inside("stat").args(["-c", "%Hr:%Lr"]).arg(&node).output().unwrap().stdout;
    let number = String::from_utf8(number).unwrap();
    assert_eq!(format!("{}:{}", device["major"], device["minor"]), number.trim());
    assert_eq!(oci["linux"]["resources"]["devices"][0]["access"], "rwm");
    assert_eq!(oci["mounts"], serde_json::json!([]));
}

#[test]
fn mounts_of_no_pod_or_of_one_of_several_containers_are_an_error_with_the_way_out() {
    let host = host();
    host.node.wait_mounted("default/web");
    let several = host.node.fails(&["mounts", "pod", "default/web"]);
    assert!(several.contains("name one with -c: app, other"), "{several}");
    let unknown = host.node.fails(&["mounts", "pod", "default/no", "--timeout", "1s"]);
    assert!(unknown.contains("no pod default/no is known"), "{unknown}");
    let waits = POD.replace("web", "late").replace("emptyDir: {}", "persistentVolumeClaim: { claimName: no }");
    host.node.manifest("late.yaml", &waits);
    let late = host.node.fails(&["mounts", "pod", "default/late", "-c", "app", "--timeout", "1s"]);
    assert!(late.contains("is not mounted after 1s") && late.contains("data"), "{late}");
    let oci: serde_json::Value =
        serde_json::from_str(&host.node.ok(&["mounts", "pod", "default/web", "-c", "other", "-o", "oci"])).unwrap();
    assert_eq!(oci["mounts"][0]["destination"], "/else");
    assert!(host.node.path(std::path::Path::new(oci["mounts"][0]["source"].as_str().unwrap())).is_dir());
}
