//! A pod's manifest, unchanged, in the real `podman kube play`, on the volumes that volhost has
//! mounted for it.

use std::fs;
use std::process::{Command, Stdio};

use volhost_tests::manifests::loop_volume;
use volhost_tests::wait::eventually;

use crate::kit::{Host, succeeds};
use crate::podman::{Engine, PAUSE};

/// The claim of the pod is a raw device in an image file.
fn manifest(host: &Host) -> String {
    let image = host.node.folder().join("disk/raw.img");
    assert!(Command::new("truncate").args(["-s", "16M"]).arg(&image).status().unwrap().success());
    let raw = loop_volume("raw", "raw.img", "ext4", "16Mi", "  volumeMode: Block");
    format!(
        r#"
apiVersion: v1
kind: Secret
metadata: {{ name: login }}
stringData: {{ password: SESAME-SECRET }}
---
{raw}
---
apiVersion: v1
kind: Pod
metadata: {{ name: web, uid: uid-web, labels: {{ app: web }} }}
spec:
  restartPolicy: Never
  containers:
  - name: app
    image: localhost/bb:1
    command: [/bin/sh, -c]
    args:
    - |
      echo deep >/data/inner/f; echo hi >/data/f
      cat /login/password >/data/password
      touch /see/g || echo refused >/data/refused
      echo marker >/dev/raw; read line </dev/raw; echo $line >/data/raw
      echo done >/data/done; sleep 1000
    volumeMounts:
    - {{ name: parts, mountPath: /data/inner, subPath: one/two }}
    - {{ name: data, mountPath: /data }}
    - {{ name: data, mountPath: /see, readOnly: true, mountPropagation: HostToContainer }}
    - {{ name: login, mountPath: /login }}
    volumeDevices:
    - {{ name: raw, devicePath: /dev/raw }}
  - name: other
    image: localhost/bb:1
    command: [/bin/sleep, "1000"]
    volumeMounts: [{{ name: data, mountPath: /else, subPath: other }}]
  volumes:
  - {{ name: data, emptyDir: {{}} }}
  - {{ name: parts, emptyDir: {{ medium: Memory }} }}
  - {{ name: login, secret: {{ secretName: login }} }}
  - {{ name: raw, persistentVolumeClaim: {{ claimName: raw-claim }} }}
"#
    )
}

#[test]
fn podman_kube_play_runs_an_unchanged_manifest_on_volhosts_volumes() {
    let host = Host::start();
    let engine = Engine::start(&host);
    let waits = ["import", "--change", "CMD [\"/bin/sleep\", \"1000\"]"];
    succeeds(engine.podman(&waits).arg(host.image_file()).arg(PAUSE));
    let file = host.node.folder().join("web.yaml");
    fs::write(&file, manifest(&host)).unwrap();
    let file = file.to_str().unwrap();
    host.node.ok(&["apply", "-f", file]);
    host.node.wait_mounted("default/web");
    let data = host.node.volume("uid-web", "kubernetes.io~empty-dir", "data");
    let printed = host.node.ok(&["mounts", "pod", "default/web", "-o", "kube", "-f", file]);
    assert!(!printed.contains("SESAME"), "{printed}");

    let mut play = engine.podman(&["kube", "play", "--network", "none", "-"]);
    let mut child = play.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), printed.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{printed}\n{}", String::from_utf8_lossy(&output.stderr));

    let read = |name: &str| fs::read_to_string(data.join(name)).unwrap_or_default();
    assert!(eventually(|| read("done") == "done\n"), "{}", engine.ok(&["logs", "web-app"]));
    assert_eq!(
        (read("f"), read("password"), read("refused")),
        ("hi\n".into(), "SESAME-SECRET".into(), "refused\n".into())
    );
    assert_eq!(read("raw"), "marker\n", "{}", engine.ok(&["logs", "web-app"]));
    let part = host.node.volume("uid-web", "kubernetes.io~empty-dir", "parts").join("one/two/f");
    assert_eq!(fs::read_to_string(part).unwrap(), "deep\n");
    succeeds(&mut engine.podman(&["exec", "web-other", "/bin/touch", "/else/from-other"]));
    succeeds(&mut engine.podman(&["pod", "rm", "-f", "-t", "0", "web"]));
    host.node.ok(&["delete", "-f", file]);
    host.node.wait_unmounted("default/web");
    fs::remove_file(host.node.folder().join("disk/raw.img")).unwrap();
    host.assert_clean();
}
