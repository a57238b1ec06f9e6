//! Pods and other objects that were added by request: they survive restarts, damaged files, full
//! disks and drains.

use std::fs;
use std::path::PathBuf;

use volhost_tests::manifests::pod;
use volhost_tests::wait::eventually;

use crate::records::power_off;
use crate::site::{CONFIG_MAP, EMPTY_DIR, SECRET, Site};

const FAST: &str = "name: fast, emptyDir: { medium: Memory }";
const SCRATCH: &str = "name: scratch, emptyDir: {}";

/// Writes a file and applies it.
fn apply(site: &Site, text: &str) -> std::process::Output {
    let file = site.node.folder().join("applied.yaml");
    fs::write(&file, text).unwrap();
    site.node.cli(&["apply", "-f", &file.display().to_string()])
}

fn applied(site: &Site, text: &str) {
    let output = apply(site, text);
    assert!(output.status.success(), "{output:?}\n{}", site.log());
}

fn refused(site: &Site, text: &str) -> String {
    let output = apply(site, text);
    assert!(!output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The files that keep what was added.
fn kept(site: &Site) -> Vec<PathBuf> {
    let folder = site.node.path(&site.node.root().join("state/objects"));
    let files = fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path());
    files.filter(|file| !file.ends_with("complete")).collect()
}

/// A pod of a manifest comes and goes: anything that would be unmounted by mistake has been by
/// then.
fn others_come_and_go(site: &Site) {
    site.node.manifest("other.yaml", &pod("other", "uid-other", &[FAST]));
    site.node.wait_mounted("default/other");
    site.node.remove_manifest("other.yaml");
    site.node.wait_unmounted("default/other");
}

#[test]
fn a_damaged_object_of_a_pod_takes_nothing_from_it() {
    let mut site = Site::start();
    let asked = pod("asked", "uid-asked", &[FAST, SCRATCH]);
    applied(&site, &asked);
    site.node.wait_mounted("default/asked");
    let file = |site: &Site, name: &str| site.node.volume("uid-asked", EMPTY_DIR, name).join("file");
    for name in ["fast", "scratch"] {
        fs::write(file(&site, name), "kept").unwrap();
    }
    let mounts = site.node.pod_mounts();
    for damage in [&b""[..], b"{\"apiVersion\":\"v1\",\"ki", b"\xff\xfe\0noise"] {
        site.node.kill();
        let files = kept(&site);
        assert_eq!(files.len(), 1);
        fs::write(&files[0], damage).unwrap();
        site.revive();
        site.node.wait_event(&["RecoveryProblem", "cannot be read", "volhost apply"]);
        others_come_and_go(&site);
        assert_eq!(site.node.pod_mounts(), mounts, "{}", site.log());
        for name in ["fast", "scratch"] {
            assert_eq!(fs::read_to_string(file(&site, name)).unwrap(), "kept", "{name}");
        }
        assert!(site.node.fails(&["wait", "pod", "default/asked", "--timeout", "10ms"]).contains("cannot be read"));
        // Adding it again mends it.
        applied(&site, &asked);
        site.node.wait_mounted("default/asked");
        assert_eq!(site.node.pod_mounts(), mounts, "{}", site.log());
    }
    // And it can be removed as it is.
    site.node.kill();
    fs::write(&kept(&site)[0], "").unwrap();
    site.revive();
    site.node.wait_event(&["RecoveryProblem", "cannot be read"]);
    site.node.ok(&["delete", "pod", "default/asked"]);
    site.node.wait_unmounted("default/asked");
    assert!(eventually(|| site.node.pod_mounts().is_empty() && kept(&site).is_empty()), "{}", site.log());
}

#[test]
fn after_a_restart_of_the_machine_pods_are_kept_until_clients_have_named_theirs() {
    let mut site = Site::start();
    let texts = ["stays", "goes"].map(|name| pod(name, &format!("uid-{name}"), &[SCRATCH]));
    let file = |site: &Site, name: &str| site.node.volume(&format!("uid-{name}"), EMPTY_DIR, "scratch").join("file");
    for (name, text) in ["stays", "goes"].iter().zip(&texts) {
        applied(&site, text);
        site.node.wait_mounted(&format!("default/{name}"));
        fs::write(file(&site, name), "kept").unwrap();
    }
    site.node.kill();
    power_off(&site);
    site.revive();
    site.node.wait_event(&["SourcesNotReady", "SourcesReady"]);
    others_come_and_go(&site);
    for name in ["stays", "goes"] {
        assert_eq!(fs::read_to_string(file(&site, name)).unwrap(), "kept", "{name}: {}", site.log());
    }
    // It waits through another restart, too, and one object says nothing of the others.
    site.node.kill();
    site.revive();
    applied(&site, "apiVersion: v1\nkind: ConfigMap\nmetadata: { name: settings }\n");
    for pod in [None, Some(&texts[0])] {
        if let Some(text) = pod {
            applied(&site, text);
            site.node.wait_mounted("default/stays");
        }
        site.node.kill();
        site.revive();
        site.node.wait_event(&["SourcesNotReady"]);
        others_come_and_go(&site);
        for name in ["stays", "goes"] {
            assert_eq!(fs::read_to_string(file(&site, name)).unwrap(), "kept", "{name}: {}", site.log());
        }
    }

    site.node.ok(&["apply", "--complete"]);
    assert!(eventually(|| !site.node.folder().join("root/pods/uid-goes").exists()), "{}", site.log());
    assert_eq!(fs::read_to_string(file(&site, "stays")).unwrap(), "kept");
    // What clients have said outlives the daemon.
    site.node.kill();
    site.revive();
    site.node.wait_mounted("default/stays");
    assert!(!site.node.ok(&["events"]).contains("SourcesNotReady"), "{}", site.log());
    // A node whose last pod was removed waits for no client.
    site.node.ok(&["delete", "pod", "default/stays"]);
    site.node.wait_unmounted("default/stays");
    let marker = site.node.path(&site.node.root().join("pods-by-request"));
    assert!(eventually(|| !marker.exists()), "{}", site.log());
}

#[test]
fn a_pod_that_was_added_outlives_a_drain_and_a_restart() {
    let mut site = Site::start();
    applied(&site, &pod("asked", "uid-asked", &[FAST]));
    site.node.wait_mounted("default/asked");
    site.node.ok(&["drain"]);
    assert_eq!(site.node.pod_mounts(), []);
    assert!(site.node.terminate().success());
    site.revive();
    site.node.wait_mounted("default/asked");
}

#[test]
fn a_drain_can_be_ended() {
    let site = Site::start();
    assert!(site.node.ok(&["uncordon"]).contains("not drained"));
    site.node.manifest("named.yaml", &pod("named", "uid-named", &[FAST]));
    site.node.wait_mounted("default/named");
    site.node.ok(&["drain"]);
    applied(&site, &pod("asked", "uid-asked", &[FAST]));
    let said = site.node.fails(&["wait", "pod", "default/asked", "--timeout", "10ms"]);
    assert!(said.contains("drain") && said.contains("uncordon"), "{said}");
    assert!(site.node.ok(&["uncordon"]).contains("the drain is over"));
    site.node.wait_mounted("default/named");
    site.node.wait_mounted("default/asked");
}

#[test]
fn a_request_with_two_pods_of_one_uid_adds_nothing() {
    let site = Site::start();
    let said = refused(&site, &format!("{}---\n{}", pod("a", "same", &[FAST]), pod("b", "same", &[FAST])));
    assert!(said.contains("default/a") && said.contains("default/b") && said.contains("uid"), "{said}");
    assert!(!site.node.ok(&["get", "pods"]).contains("default"));
    assert_eq!(kept(&site), Vec::<PathBuf>::new());
}

#[test]
fn a_request_that_cannot_be_kept_adds_nothing() {
    let mut site = Site::start();
    applied(&site, &pod("before", "uid-before", &[FAST]));
    site.node.wait_mounted("default/before");
    let state = site.node.root().join("state");
    let shrunk = site.node.inside("mount").args(["-o", "remount,size=256k"]).arg(&state).status().unwrap();
    assert!(shrunk.success());
    let filler = site.node.path(&state.join("filler"));
    let fill = || fs::write(&filler, vec![0; 1 << 20]).unwrap_err();
    fill();
    // The first one fits into what is left, the second does not.
    let left = fs::metadata(&filler).unwrap().len() - 8 * 1024;
    fs::File::options().write(true).open(&filler).unwrap().set_len(left).unwrap();
    let files = kept(&site);
    let large = pod("b", "uid-b", &[FAST])
        .replace("uid: uid-b", &format!("uid: uid-b, annotations: {{ a: {} }}", "x".repeat(64 << 10)));
    let said = refused(&site, &format!("{}---\n{large}", pod("a", "uid-a", &[FAST])));
    assert!(said.contains("No space left on device") && said.contains("nothing is added"), "{said}");
    assert_eq!(kept(&site), files);
    assert!(!site.node.ok(&["get", "pods"]).contains("default/a"));
    site.node.kill();
    site.revive();
    assert!(!site.node.ok(&["get", "pods"]).contains("default/a"));
    fs::remove_file(&filler).unwrap();
    applied(&site, &format!("{}---\n{large}", pod("a", "uid-a", &[FAST])));
    site.node.wait_mounted("default/a");
    site.node.wait_mounted("default/b");
}

#[test]
fn config_maps_and_secrets_are_added_by_request_and_secrets_are_on_no_disk() {
    const VALUE: &str = "correct-horse-battery-staple";
    let mut site = Site::start();
    let map = |value: &str| {
        format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{ name: settings }}\ndata: {{ level: {value} }}\n")
    };
    let secret = format!("apiVersion: v1\nkind: Secret\nmetadata: {{ name: pin }}\nstringData: {{ value: {VALUE} }}\n");
    let volumes = ["name: map, configMap: { name: settings }", "name: pin, secret: { secretName: pin }"];
    applied(&site, &format!("{}---\n{secret}---\n{}", map("low"), pod("a", "uid-a", &volumes)));
    site.node.wait_mounted("default/a");
    let shown = |site: &Site, plugin: &str, name: &str, key: &str| {
        fs::read_to_string(site.node.volume("uid-a", plugin, name).join(key)).unwrap_or_default()
    };
    assert_eq!(shown(&site, SECRET, "pin", "value"), VALUE);
    applied(&site, &map("high"));
    assert!(eventually(|| shown(&site, CONFIG_MAP, "map", "level") == "high"), "{}", site.log());
    let is_in = |path: &PathBuf| String::from_utf8_lossy(&fs::read(path).unwrap()).contains(VALUE);
    assert!(!kept(&site).iter().any(is_in), "a secret is on disk");
    assert!(!site.log().contains(VALUE));

    site.node.kill();
    site.revive();
    site.node.wait_event(&["default/a", "Secret default/pin is not known", "in memory only", "add it again"]);
    assert_eq!(shown(&site, SECRET, "pin", "value"), VALUE, "the pod keeps what it has");
    assert_eq!(shown(&site, CONFIG_MAP, "map", "level"), "high");
    applied(&site, &secret);
    site.node.wait_mounted("default/a");
    site.node.ok(&["delete", "secret", "default/pin"]);
    assert!(site.node.fails(&["delete", "secret", "default/pin"]).contains("Secret default/pin"));
    assert!(site.node.ok(&["delete", "configmap", "default/settings"]).contains("removed"));
}

#[test]
fn unknown_kinds_and_fields_are_never_ignored_silently() {
    let site = Site::start();
    let deployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata: { name: d }\n";
    let both = format!("{}---\n{deployment}", pod("a", "uid-a", &[FAST]));
    assert!(refused(&site, &both).contains("kind Deployment"), "by request");
    assert!(!site.node.ok(&["get", "pods"]).contains("default/a"));
    site.node.manifest("both.yaml", &both);
    site.node.wait_event(&["IgnoredInManifest", "both.yaml", "kind Deployment"]);
    site.node.wait_mounted("default/a");
    let slip = pod("b", "uid-b", &[FAST]).replace("spec:\n", "spec:\n  securityContexts: { fsGroup: 5 }\n");
    assert!(refused(&site, &slip).contains("spec.securityContexts: is no field of a Pod"), "by request");
    site.node.manifest("slip.yaml", &slip);
    site.node.wait_event(&["IgnoredInManifest", "slip.yaml", "spec.securityContexts"]);
    site.node.wait_mounted("default/b");
}

#[test]
fn the_reclaim_policy_is_shown_as_the_persistent_volume_has_it() {
    let site = Site::start();
    for policy in ["Delete", "Retain", ""] {
        let field =
            if policy.is_empty() { String::new() } else { format!(", persistentVolumeReclaimPolicy: {policy}") };
        let name = format!("disk{}", policy.to_lowercase());
        applied(
            &site,
            &format!(
                "apiVersion: v1\nkind: PersistentVolume\nmetadata: {{ name: {name} }}\nspec: {{ capacity: {{ storage: 1Gi }}, accessModes: [ReadWriteOnce], local: {{ path: /x }}{field} }}\n"
            ),
        );
        let shown: serde_json::Value =
            serde_json::from_str(&site.node.ok(&["get", "pv", &name, "-o", "json"])).unwrap();
        let wanted = if policy.is_empty() { "Retain" } else { policy };
        assert!(shown.to_string().contains(&format!("\"{wanted}\"")), "{policy}: {shown}");
    }
}
