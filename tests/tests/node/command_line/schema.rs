//! What is printed as JSON is as the published schema says. The validator is Python's jsonschema.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use serde_json::Value;
use volhost_tests::Node;
use volhost_tests::artifacts::workspace;
use volhost_tests::manifests::pod;
use volhost_tests::wait::eventually;

/// Validates the documents of standard input, one a line. Fields that the schema does not have are
/// refused, too: the next version may have more, and this one has none.
const VALIDATE: &str = r##"
import json, sys
from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

schema = json.load(open(sys.argv[1]))
Draft202012Validator.check_schema(schema)

def close(node):
    if isinstance(node, dict):
        if "properties" in node:
            node["additionalProperties"] = False
        for value in node.values():
            close(value)
    elif isinstance(node, list):
        for value in node:
            close(value)

close(schema)
failed = False
for line in sys.stdin:
    document = json.loads(line)
    kind = "Change" if "object" in document and "apiVersion" not in document else document["kind"]
    chosen = {"$defs": schema["$defs"], "$ref": "#/$defs/" + kind}
    objects = document["items"] if kind == "List" else [document["object"]] if kind == "Change" else []
    for value, one in [(document, chosen)] + [(o, {"$defs": schema["$defs"], "$ref": "#/$defs/" + o["kind"]}) for o in objects]:
        error = best_match(Draft202012Validator(one).iter_errors(value))
        if error:
            failed = True
            print(value.get("kind"), error.json_path, error.message, json.dumps(value)[:2000])
sys.exit(failed)
"##;

/// A FlexVolume driver that answers `init`.
const DRIVER: &str = "#!/bin/sh\necho '{\"status\": \"Success\", \"capabilities\": {\"attach\": false}}'\n";

fn validate(documents: &[Value]) -> (bool, String) {
    let mut command = Command::new("python3");
    command.args(["-c", VALIDATE]).arg(workspace().join("deploy/schema/volhost.io-v1.json"));
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let lines: String = documents.iter().map(|document| format!("{document}\n")).collect();
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    (output.status.success(), said)
}

/// A node with an object of every kind.
fn with_every_kind() -> Node {
    let mut node = Node::builder().build();
    let folder = node.folder().join("flex");
    let driver = folder.join("acme~lun/lun");
    fs::create_dir_all(driver.parent().unwrap()).unwrap();
    fs::write(&driver, DRIVER).unwrap();
    fs::set_permissions(&driver, PermissionsExt::from_mode(0o755)).unwrap();
    node.add_arguments(&["--flex-driver-dir", folder.to_str().unwrap()]);
    node.start();
    let volume = "apiVersion: v1\nkind: PersistentVolume\nmetadata: { name: archive, labels: { app: web } }\nspec: { capacity: { storage: 1Gi }, accessModes: [ReadWriteOnce], storageClassName: manual, local: { path: /x } }\n---\napiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: { name: logs, labels: { app: web } }\nspec: { accessModes: [ReadWriteOnce], storageClassName: manual, resources: { requests: { storage: 1Gi } } }\n";
    let failing = pod("b", "uid-b", &["name: gone, hostPath: { path: /nowhere/at/all, type: Directory }"]);
    let good =
        pod("a", "uid-a", &["name: data, emptyDir: { medium: Memory, sizeLimit: 1Mi }", "name: disk, emptyDir: {}"]);
    node.manifest("all.yaml", &format!("{good}---\n{failing}---\n{volume}"));
    node.manifest("wrong.yaml", "kind: Pod\nmetadata: 7\n");
    node.wait_mounted("default/a");
    node.wait_event(&["FailedMount", "nowhere"]);
    assert!(eventually(|| node.ok(&["get", "drivers"]).contains("acme/lun")), "{}", node.log());
    node
}

fn printed(node: &Node, words: &[&str]) -> Value {
    let output = node.cli(words);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{words:?}: {error}: {output:?}"))
}

#[test]
fn everything_that_is_printed_as_json_is_valid() {
    let node = with_every_kind();
    let mut documents = Vec::new();
    for kind in ["pods", "volumes", "plugins", "drivers", "operations", "pvc", "pv"] {
        let list = printed(&node, &["get", kind, "-o", "json"]);
        assert!(!list["items"].as_array().unwrap().is_empty(), "there are {kind}: {list}");
        documents.push(list);
    }
    documents.push(printed(&node, &["get", "pod/default/a", "-o", "json"]));
    documents.push(printed(&node, &["events", "-o", "json"]));
    let status = printed(&node, &["status", "-o", "json"]);
    assert_eq!(status["healthy"], false, "{status}");
    documents.push(status);
    documents.push(printed(&node, &["version", "-o", "json"]));
    documents.push(printed(&node, &["version", "--client", "-o", "json"]));
    documents
        .push(serde_json::json!({"type": "ADDED", "object": printed(&node, &["get", "pod/default/b", "-o", "json"])}));
    let (valid, said) = validate(&documents);
    assert!(valid, "{said}");
}

#[test]
fn what_is_not_of_the_schema_is_found() {
    let node = Node::start_default();
    let version = printed(&node, &["version", "-o", "json"]);
    for (field, value) in [("kind", "Versions"), ("unknown", "field"), ("apiVersion", "v2")] {
        let mut wrong = version.clone();
        wrong[field] = value.into();
        let (valid, said) = validate(&[wrong]);
        assert!(!valid, "{field}: {said}");
    }
}
