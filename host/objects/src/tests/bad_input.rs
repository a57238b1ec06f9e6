use super::{objects, pod, pod_with, refusal};
use crate::{ObjectContent, parse};

#[test]
fn malformed_yaml_names_file_and_line() {
    let message = refusal("apiVersion: v1\nkind: Pod\nmetadata:\n  name: [a\nspec: {}\n");
    assert!(message.starts_with("test.yaml:"), "{message}");
    let line: u32 = message.split(':').nth(1).unwrap().parse().unwrap();
    assert!((4..=6).contains(&line), "{message}");
}

#[test]
fn a_field_of_the_wrong_type_is_named_with_its_line() {
    let message = refusal(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers:\n  - name: c\n    volumeMounts: 7\n",
    );
    assert!(message.starts_with("test.yaml:7: spec.containers[0].volumeMounts: "), "{message}");
}

#[test]
fn a_size_that_is_no_quantity_is_named_with_its_line() {
    let message = refusal(&pod_with("a", "emptyDir:\n      sizeLimit: 64MB"));
    assert!(
        message.starts_with("test.yaml:12: spec.volumes[0].emptyDir.sizeLimit: \"64MB\" is not a quantity"),
        "{message}"
    );
}

#[test]
fn an_error_in_a_list_says_which_item() {
    let list = "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n- apiVersion: v1\n  kind: Pod\n  metadata: {name: a}\n  spec: {containers: 3}\n";
    let message = refusal(list);
    assert!(message.starts_with("test.yaml:8: items[1].spec.containers: "), "{message}");
}

#[test]
fn hostile_names_are_refused_wherever_they_stand() {
    let long = "x".repeat(10_000);
    for bad in ["..", ".", "a/b", "\"a\\0b\"", "A", "\"\"", long.as_str()] {
        let texts = [
            ("metadata.name", pod(bad)),
            ("metadata.namespace", pod("a").replace("{name: a}", &format!("{{name: a, namespace: {bad}}}"))),
            ("spec.volumes[0].name", pod("a").replace("- name: v\n", &format!("- name: {bad}\n"))),
            ("spec.containers[0].volumeMounts[0].name", pod("a").replace("{name: v,", &format!("{{name: {bad},"))),
            (
                "metadata.name",
                format!("apiVersion: v1\nkind: PersistentVolume\nmetadata: {{name: {bad}}}\nspec: {{}}\n"),
            ),
            (
                "metadata.name",
                format!("apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {{name: {bad}}}\nspec: {{}}\n"),
            ),
        ];
        for (field, text) in texts {
            // An empty namespace is Kubernetes' way to say "the default one".
            if field == "metadata.namespace" && bad == "\"\"" {
                continue;
            }
            let message = refusal(&text);
            assert!(message.contains(field), "{field}: {message}");
            assert!(message.len() < 400, "{message}");
        }
    }
    for bad in ["..", "a/b", "\"a\\0b\""] {
        let message = refusal(&pod("a").replace("{name: a}", &format!("{{name: a, uid: {bad}}}")));
        assert!(message.contains("metadata.uid"), "{message}");
    }
}

#[test]
fn ids_out_of_range_are_named() {
    for (field, yaml) in [
        ("spec.securityContext.fsGroup", "securityContext: {fsGroup: -1}"),
        ("spec.securityContext.fsGroup", "securityContext: {fsGroup: 4294967296}"),
        ("spec.securityContext.runAsUser", "securityContext: {runAsUser: 4294967295}"),
        ("spec.securityContext.supplementalGroups[1]", "securityContext: {supplementalGroups: [1, -2]}"),
    ] {
        let message = refusal(&pod("a").replace("spec:\n", &format!("spec:\n  {yaml}\n")));
        assert!(
            message.starts_with(&format!("test.yaml:5: {field}: ")) && message.contains("out of range"),
            "{message}"
        );
    }
}

#[test]
fn two_volumes_of_one_name_are_refused() {
    let message = refusal(&format!("{}  - name: v\n    emptyDir: {{}}\n", pod("a")));
    assert!(
        message.contains("test.yaml:12: spec.volumes[1].name: the name \"v\" is taken by spec.volumes[0]"),
        "{message}"
    );
}

#[test]
fn one_object_twice_in_a_file_is_refused() {
    let message = refusal(&format!("{}---\n{}", pod("a"), pod("a")));
    assert!(message.contains("Pod default/a is here a second time; the first is at line 1"), "{message}");
}

#[test]
fn duplicate_keys_are_refused() {
    for text in [
        "apiVersion: v1\nkind: Pod\nkind: Pod\n",
        "{\"apiVersion\": \"v1\", \"apiVersion\": \"v1\"}",
        "1: a\n\"1\": b\n",
    ] {
        let message = refusal(text);
        assert!(message.contains("duplicate key \""), "{message}");
    }
}

#[test]
fn a_yaml_bomb_is_refused_quickly() {
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..12 {
        let below = format!("*a{}, ", level - 1).repeat(10);
        bomb.push_str(&format!("a{level}: &a{level} [{below}]\n"));
    }
    let message = refusal(&bomb);
    assert!(message.contains("its aliases (`*name`) add more than 100000 values"), "{message}");
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    assert!(parse("test.yaml", &deep).is_err());
}

#[test]
fn an_error_in_a_secret_does_not_show_it() {
    let message = refusal("apiVersion: v1\nkind: Secret\nmetadata: {name: s}\ndata:\n  password: hunter2!\n");
    assert!(message.starts_with("test.yaml:5: data.password: ") && !message.contains("hunter2"), "{message}");
    let message = refusal("apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData:\n  password: 12345678\n");
    assert!(!message.contains("12345678"), "{message}");
    let good = objects("apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {password: hunter2}\n");
    assert!(!format!("{good:?}").contains("hunter2"));
}

#[test]
fn what_is_no_object_is_refused() {
    for (text, part) in [
        ("hello\n", "expected an object"),
        ("- 1\n", "expected an object"),
        ("kind: Pod\n", "apiVersion: is missing"),
        ("apiVersion: v1\n", "kind: is missing"),
        ("apiVersion: v2\nkind: Pod\n", "\"v2\" has no Pod that volhost knows; write v1"),
        ("apiVersion: v1\nkind: pod\n", "did you mean Pod?"),
        ("apiVersion: v1\nkind: ConfigMaps\n", "did you mean ConfigMap?"),
        ("apiVersion: storage.k8s.io/v1\nkind: StorageClas\n", "did you mean StorageClass?"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n", "spec: is missing"),
    ] {
        let message = refusal(text);
        assert!(message.contains(part), "{text}: {message}");
    }
}

#[test]
fn a_mount_option_that_a_volume_may_not_ask_for_is_named_with_its_line() {
    let volume = |more: &str| format!("apiVersion: v1\nkind: PersistentVolume\nmetadata:\n  name: pv\n{more}");
    let spec =
        |options: &str| volume(&format!("spec:\n  local: {{path: /x}}\n  mountOptions:\n  - noatime\n  - {options}\n"));
    for (option, says) in [
        ("'ro,context=\"x\"'", "seLinuxOptions"),
        ("bind", "is for the host to say"),
        ("'source=/dev/sda'", "is for the host to say"),
        ("\"a\\nb\"", "control character"),
        ("'a,,b'", "is empty"),
    ] {
        let message = refusal(&spec(option));
        assert!(message.starts_with("test.yaml:9: spec.mountOptions[1]: ") && message.contains(says), "{message}");
    }
    let message = refusal(&volume(
        "  annotations:\n    volume.beta.kubernetes.io/mount-options: ro,remount\nspec: {local: {path: /x}}\n",
    ));
    assert!(message.contains("metadata.annotations.volume.beta.kubernetes.io/mount-options: \"remount\""), "{message}");
}

#[test]
fn mount_options_are_each_by_itself_and_those_of_the_annotation_count_first() {
    let text = "apiVersion: v1\nkind: PersistentVolume\nmetadata: {name: pv, annotations: {volume.beta.kubernetes.io/mount-options: 'hard,ro'}}\nspec: {local: {path: /x}, mountOptions: ['soft, sync', noatime]}\n";
    let options = |text: &str| match &objects(text)[0].content {
        ObjectContent::PersistentVolume(volume) => volume.mount_options.clone(),
        _ => panic!("no PersistentVolume"),
    };
    assert_eq!(options(text), ["hard", "ro"]);
    assert_eq!(options(&text.replace("volume.beta", "other.beta")), ["soft", "sync", "noatime"]);
}

#[test]
fn a_volume_attachment_says_who_where_and_what() {
    let attachment = |spec: &str| {
        "apiVersion: storage.k8s.io/v1\nkind: VolumeAttachment\nmetadata: {name: va}\nspec:\n  SPEC\n"
            .replace("SPEC", spec)
    };
    for (spec, says) in [
        ("{attacher: '', nodeName: n, source: {persistentVolumeName: pv}}", "spec.attacher: is empty"),
        ("{attacher: a, nodeName: '', source: {persistentVolumeName: pv}}", "spec.nodeName: is empty"),
        ("{attacher: a, nodeName: n, source: {}}", "spec.source: names no volume"),
        ("{attacher: a, nodeName: n, source: {persistentVolumeName: ../x}}", "spec.source.persistentVolumeName"),
        ("{attacher: a, nodeName: n, source: {persistentVolumeName: pv, inlineVolumeSpec: {}}}", "one or the other"),
        ("{attacher: a, nodeName: n}", "source"),
    ] {
        let message = refusal(&attachment(spec));
        assert!(message.starts_with("test.yaml:") && message.contains(says), "{says}: {message}");
    }
    let wrong_version = attachment("{}").replace("storage.k8s.io/v1", "v1");
    assert!(refusal(&wrong_version).contains("write storage.k8s.io/v1"));
}

/// A pod with this many volumes and this many mounts of the first of them.
fn pod_of_many(volumes: usize, mounts: usize) -> String {
    use std::fmt::Write;
    let mut text = String::from("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  volumes:\n");
    for volume in 0..volumes {
        writeln!(text, "  - {{name: v{volume}, emptyDir: {{}}}}").unwrap();
    }
    text.push_str("  containers:\n  - name: c\n    volumeMounts:\n");
    for mount in 0..mounts {
        writeln!(text, "    - {{name: v0, mountPath: /m{mount}}}").unwrap();
    }
    text
}

#[test]
fn a_pod_with_more_volumes_or_mounts_than_a_pod_may_have_is_refused() {
    assert_eq!(objects(&pod_of_many(1024, 1024)).len(), 1);
    let message = refusal(&pod_of_many(100_000, 1));
    assert!(message.starts_with("test.yaml:6: spec.volumes: has 100000 volumes, 1024 at most"), "{message}");
    let message = refusal(&pod_of_many(1, 1025));
    assert!(message.contains("spec.containers[0].volumeMounts: has 1025 volume mounts, 1024 at most"), "{message}");
    let containers: String = (0..9)
        .map(|index| format!("  - name: c{index}{}", pod_of_many(0, 1000).split_once("  - name: c").unwrap().1))
        .collect();
    let head = pod_of_many(1, 0).split_once("  - name: c").unwrap().0.to_owned();
    let message = refusal(&format!("{head}{containers}"));
    assert!(message.contains("has 9000 volume mounts and devices in all its containers, 8192 at most"), "{message}");
    let containers: String = (0..257).map(|container| format!("  - {{name: c{container}}}\n")).collect();
    let message = refusal(&format!("{head}{containers}"));
    assert!(message.contains("spec.containers: has 257 containers, 256 at most"), "{message}");
}

#[test]
fn a_file_with_too_many_objects_is_refused() {
    let map = |n: usize| format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: m{n}}}\n---\n");
    let message = refusal(&(0..20_001).map(map).collect::<String>());
    assert!(message.contains("more than 20000 objects in one file"), "{message}");
}

#[test]
fn a_uid_that_is_no_uid_is_refused() {
    for bad in ["..", "a/b", "-a", "a b", "\"a\\u202eb\"", "\"a\\u200bb\"", &"x".repeat(129)] {
        let message = refusal(&pod("a").replace("{name: a}", &format!("{{name: a, uid: {bad}}}")));
        assert!(message.contains("metadata.uid: "), "{bad}: {message}");
    }
}
