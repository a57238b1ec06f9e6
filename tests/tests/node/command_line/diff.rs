//! `volhost diff`.

use std::fs;

use volhost_tests::Node;
use volhost_tests::manifests::pod;

use super::file;

const SETTINGS: &str =
    "apiVersion: v1\nkind: ConfigMap\nmetadata: { name: settings }\ndata: { level: info, more: x }\n";

/// What the command printed, its errors, and the exit code.
fn diff(node: &Node, arguments: &[&str]) -> (String, String, Option<i32>) {
    let output = node.cli(&[&["diff"], arguments].concat());
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr), output.status.code())
}

#[test]
fn what_apply_would_change_is_shown_and_nothing_is_changed() {
    let node = Node::start_default();
    let path = file(&node, "settings.yaml", SETTINGS);
    let (new, _, code) = diff(&node, &["-f", &path]);
    assert_eq!(code, Some(1));
    assert!(new.starts_with("--- /dev/null\n+++ applied/ConfigMap/default/settings\n@@ -0,0 +1,"), "{new}");
    assert!(new.contains("\n+  level: info\n"), "{new}");
    // Comparing adds nothing.
    assert_eq!(diff(&node, &["-f", &path]).0, new);

    node.ok(&["apply", "-f", &path]);
    assert_eq!(diff(&node, &["-f", &path]), (String::new(), String::new(), Some(0)));
    fs::write(&path, SETTINGS.replace("info", "debug")).unwrap();
    let (changed, _, code) = diff(&node, &["-f", &path]);
    assert_eq!(code, Some(1));
    assert!(changed.starts_with("--- present/ConfigMap/default/settings\n+++ applied/"), "{changed}");
    assert!(changed.contains("\n-  level: info\n+  level: debug\n   more: x\n"), "{changed}");

    // The form that is compared with survives a restart of the daemon.
    let mut node = node;
    node.kill();
    node.start();
    assert_eq!(diff(&node, &["-f", &path]).0, changed);
    node.ok(&["apply", "-f", &path]);
    assert_eq!(diff(&node, &["-f", &path]).2, Some(0));
}

#[test]
fn a_folder_is_compared_file_by_file_and_pods_are_objects_too() {
    let node = Node::start_default();
    fs::create_dir(node.folder().join("all")).unwrap();
    let web = pod("web", "uid-web", &["name: scratch, emptyDir: {}"]);
    file(&node, "all/b.yaml", &web);
    file(&node, "all/a.yaml", SETTINGS);
    file(&node, "all/notes.txt", "no manifest");
    let folder = node.folder().join("all").display().to_string();
    node.ok(&["apply", "-f", &folder]);
    node.wait_mounted("default/web");
    assert_eq!(diff(&node, &["-f", &folder]), (String::new(), String::new(), Some(0)));
    file(&node, "all/a.yaml", &SETTINGS.replace("x }", "y }"));
    file(&node, "all/b.yaml", &web.replacen("name: web", "labels: { tier: front }, name: web", 1));
    let (text, said, code) = diff(&node, &["-f", &folder]);
    assert_eq!(code, Some(1), "{said}");
    let (first, second) =
        (text.find("+++ applied/ConfigMap/default/settings"), text.find("+++ applied/Pod/default/web"));
    assert!(first.is_some() && first < second, "{text}");
    assert!(text.contains("\n+    tier: front\n"), "{text}");
}

#[test]
fn values_of_secrets_are_never_shown() {
    let node = Node::start_default();
    let secret = |password: &str, more: &str| {
        format!(
            "apiVersion: v1\nkind: Secret\nmetadata:\n  name: login\n  annotations: {{ copy: {password} }}\nstringData: {{ user: HIDDEN-USER, password: {password}{more} }}\n"
        )
    };
    let path = file(&node, "secret.yaml", &secret("HIDDEN-ONE", ""));
    let (new, _, code) = diff(&node, &["-f", &path]);
    assert_eq!(code, Some(1));
    assert!(new.contains("+  password: '*** (after)'") || new.contains("+  password: \"*** (after)\""), "{new}");
    node.ok(&["apply", "-f", &path]);
    assert_eq!(diff(&node, &["-f", &path]).2, Some(0));
    fs::write(&path, secret("HIDDEN-TWO", ", token: HIDDEN-THREE")).unwrap();
    let (changed, said, code) = diff(&node, &["-f", &path]);
    assert_eq!(code, Some(1), "{said}");
    for part in ["(before)", "(after)", "password", "token", "user"] {
        assert!(changed.contains(part), "{part}: {changed}");
    }
    let base64 = ["SElEREVO", "SElERE"];
    for text in [&new, &changed, &said, &node.log()] {
        assert!(!text.contains("HIDDEN") && !base64.iter().any(|part| text.contains(part)), "{text}");
    }
}

#[test]
fn what_apply_would_refuse_is_an_error_and_no_difference() {
    let node = Node::start_default();
    let misspelt = file(&node, "bad.yaml", &SETTINGS.replace("\ndata:", "\ndta:"));
    let (text, said, code) = diff(&node, &["-f", &misspelt]);
    assert_eq!((text.as_str(), code), ("", Some(2)));
    assert!(said.contains("bad.yaml:4: dta: is no field of a ConfigMap; did you mean data?"), "{said}");
    let (_, said, code) = diff(&node, &["-f", &misspelt, "--validate=warn"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("Warning: ") && said.contains("bad.yaml:4"), "{said}");

    // An object of a manifest file, and one whose changed field is immutable.
    node.manifest("settings.yaml", SETTINGS);
    node.manifest("z.yaml", &pod("z", "uid-z", &["name: scratch, emptyDir: {}"]));
    node.wait_mounted("default/z");
    let path = file(&node, "settings.yaml", SETTINGS);
    let (_, said, code) = diff(&node, &["-f", &path]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("settings.yaml"), "{said}");
    // Nothing is printed of a good file beside it.
    let good = file(&node, "good.yaml", &SETTINGS.replace("name: settings", "name: others"));
    assert_eq!(diff(&node, &["-f", &good, "-f", &path]).0, "");

    let (_, said, code) = diff(&node, &["-f", "/no/such/file"]);
    assert_eq!(code, Some(2), "{said}");
    let mut node = node;
    node.terminate();
    assert_eq!(diff(&node, &["-f", &good]).2, Some(3));
}
