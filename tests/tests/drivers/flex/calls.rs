use super::kit::{DRIVER, Flex, builder};

/// The value of a secret that must be seen nowhere but by the driver, and how the driver gets it.
const SECRET: &str = "correct horse \"battery\" staple";
const ENCODED: &str = "Y29ycmVjdCBob3JzZSAiYmF0dGVyeSIgc3RhcGxl";

fn arguments(flex: &Flex, call: &str) -> Vec<String> {
    flex.calls().into_iter().find(|made| made[0] == call).unwrap_or_else(|| panic!("no {call} in {:?}", flex.calls()))
}

#[test]
fn a_driver_that_does_not_attach_gets_the_kubelets_calls() {
    let flex = Flex::start();
    flex.pod("fsType: ext4\noptions:\n  plain: word\n  \"a.b/c\": \"two  words, a \\\"quote\\\", <&>\\na line, ü\"");
    flex.wait_mounted();
    let path = flex.node.volume_inside("uid-1", super::kit::PLUGIN, "data").display().to_string();
    let json = concat!(
        r#"{"a.b/c":"two  words, a \"quote\", \u003c\u0026\u003e\na line, ü","kubernetes.io/fsGroup":"2000","#,
        r#""kubernetes.io/fsType":"ext4","kubernetes.io/mounterArgs.FsGroup":"2000","kubernetes.io/pod.name":"web","#,
        r#""kubernetes.io/pod.namespace":"default","kubernetes.io/pod.uid":"uid-1","kubernetes.io/pvOrVolumeName":"data","#,
        r#""kubernetes.io/readwrite":"rw","kubernetes.io/serviceAccount.name":"robot","plain":"word"}"#
    );
    assert_eq!(arguments(&flex, "mount"), ["mount", path.as_str(), json]);
    assert_eq!(flex.node.pod_mounts()[0].fs_type, "tmpfs");
    let group = std::os::unix::fs::MetadataExt::gid(&std::fs::metadata(flex.volume("data")).unwrap());
    assert_eq!(group, 2000, "the host gives it to the pod's group");
    flex.remove_pod();
    assert_eq!(arguments(&flex, "unmount"), ["unmount", path.as_str()]);
    let made: Vec<String> = flex.calls().into_iter().map(|call| call[0].clone()).collect();
    assert_eq!(made, ["init", "mount", "unmount"]);
    flex.assert_nothing_left();
}

#[test]
fn a_driver_that_attaches_is_called_for_the_node_and_then_for_the_pod() {
    let flex = Flex::doing(&[
        ("init", "answer Success"),
        ("getvolumename", r#"echo '{"status":"Success","volumeName":"its own"}'; exit"#),
        ("attach", r#"echo '{"status":"Success","device":"word"}'; exit"#),
        ("waitforattach", r#"echo '{"status":"Success","device":"other word"}'; exit"#),
        ("mountdevice", r#"mount -t tmpfs driver "$2"; echo of-the-node >"$2/file"; answer Success"#),
        ("mount", "answer 'Not supported'"),
        ("unmount", "answer 'Not supported'"),
        ("unmountdevice", r#"umount "$2"; answer Success"#),
        ("detach", "answer Success"),
    ]);
    flex.claimed("options: { lun: \"7\" }\nreadOnly: true");
    flex.wait_mounted();
    assert_eq!(std::fs::read_to_string(flex.volume("lun-1").join("file")).unwrap(), "of-the-node\n");
    assert!(std::fs::write(flex.volume("lun-1").join("new"), "").is_err(), "it is read-only");
    flex.remove_pod();
    assert!(volhost_tests::wait::eventually(|| flex.count("detach") > 0), "{}", flex.node.log());
    let json = r#"{"kubernetes.io/fsType":"","kubernetes.io/pvOrVolumeName":"lun-1","kubernetes.io/readwrite":"ro","lun":"7"}"#;
    assert_eq!(arguments(&flex, "getvolumename"), ["getvolumename", json]);
    assert_eq!(arguments(&flex, "attach"), ["attach", json, "test-node"]);
    assert_eq!(arguments(&flex, "isattached"), ["isattached", json, "test-node"]);
    assert_eq!(arguments(&flex, "waitforattach"), ["waitforattach", "word", json]);
    let mounted = arguments(&flex, "mountdevice");
    assert_eq!([mounted[2].as_str(), mounted[3].as_str()], ["other word", json]);
    assert!(mounted[1].ends_with("/mounts/test~driver~2Flun-1/globalmount"), "{}", mounted[1]);
    assert_eq!(arguments(&flex, "unmountdevice"), ["unmountdevice", mounted[1].as_str()]);
    assert_eq!(arguments(&flex, "detach"), ["detach", "lun-1", "test-node"]);
    assert!(volhost_tests::wait::eventually(|| flex
        .node
        .all_mounts()
        .iter()
        .all(|mount| mount.fs_type != "tmpfs" || !mount.point.ends_with("globalmount"))));
    flex.assert_nothing_left();
}

#[test]
fn a_secret_reaches_the_driver_and_nothing_else() {
    let config = "log-level = \"info,volhost=trace\"";
    let flex = Flex::with(
        builder().config(config),
        &[(
            "mount",
            r#"if [ ! -e "$here/tried" ]; then touch "$here/tried"; echo "junk $3"; answer Failure "$3" 1; fi"#,
        )],
    );
    let secret = |name: &str, kind: &str| {
        format!(
            "apiVersion: v1\nkind: Secret\nmetadata: {{ name: {name} }}\ntype: {kind}\ndata: {{ password: {ENCODED}, user: cm9vdA== }}\n"
        )
    };
    flex.node.manifest("secrets.yaml", &format!("{}---\n{}", secret("key", DRIVER), secret("other", "Opaque")));
    flex.claimed("secretRef: { name: other, namespace: default }");
    flex.wait_described("is of type \"Opaque\"");
    assert_eq!(flex.count("mount"), 0, "a secret that is not for the driver is not handed over");
    flex.node.remove_manifest("pod.yaml");
    flex.claimed("secretRef: { name: key, namespace: default }");
    flex.wait_mounted();
    let made = arguments(&flex, "mount");
    assert!(made[2].contains(&format!("\"kubernetes.io/secret/password\":\"{ENCODED}\"")), "{made:?}");
    assert!(made[2].contains("\"kubernetes.io/secret/user\":\"cm9vdA==\""), "{made:?}");
    flex.node.wait_event(&["FailedMount", "[redacted]"]);
    let printed =
        flex.node.ok(&["events", "-o", "json"]) + &flex.node.ok(&["get", "pods", "-o", "json"]) + &flex.node.log();
    assert!(printed.contains("secret default/key was used, 2 of its keys"), "it is audited");
    for form in [ENCODED, SECRET, "battery", "cm9vdA=="] {
        assert!(!printed.contains(form), "{form:?} was logged");
    }
    flex.remove_pod();
}

#[test]
fn expandvolume_is_called_once_for_each_growth_and_never_else() {
    let mut flex = Flex::doing(&[("expandvolume", "answer Success"), ("expandfs", "answer Success")]);
    flex.claimed("");
    flex.wait_mounted();
    assert_eq!(flex.count("expandvolume"), 0, "the volume has the size that it was made with");
    flex.claimed_of("2Mi", "");
    // A host that dies before it knows of the growth asks again.
    flex.node.wait_event(&["FileSystemResizeSuccessful"]);
    assert_eq!(arguments(&flex, "expandvolume")[3..], ["2097152", "0"]);
    flex.node.kill();
    flex.node.start();
    flex.wait_mounted();
    flex.remove_pod();
    flex.claimed_of("2Mi", "");
    flex.wait_mounted();
    assert_eq!((flex.count("expandvolume"), flex.count("expandfs")), (1, 1));
    flex.remove_pod();
}
