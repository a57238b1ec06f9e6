//! The alerts: Prometheus' own tool checks them, and each has a test that it fires and that it does
//! not.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;
use volhost_tests::artifacts::workspace;

use crate::observability::figures::{address, node_with_a_driver};
use volhost_tests::http::request;

/// The start of a link to a page of the documentation.
const DOCUMENTATION: &str = "https://github.com/volhost/volhost/blob/main/docs/";

/// An alert.
pub(crate) struct Alert {
    name: String,
    pub(crate) expression: String,
    annotations: Value,
}

fn folder() -> PathBuf {
    workspace().join("deploy/prometheus")
}

fn yaml(file: PathBuf) -> Value {
    let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// The alerts that volhost comes with.
pub(crate) fn alerts() -> Vec<Alert> {
    let rules = yaml(folder().join("volhost.rules.yml"));
    let rules = rules["groups"].as_array().unwrap().iter().flat_map(|group| group["rules"].as_array().unwrap());
    let text = |value: &Value| value.as_str().unwrap().trim().to_owned();
    rules
        .map(|rule| Alert {
            name: text(&rule["alert"]),
            expression: text(&rule["expr"]),
            annotations: rule["annotations"].clone(),
        })
        .collect()
}

/// Runs `promtool`, and returns its output if it found nothing wrong.
fn promtool(arguments: &[&str], input: Option<&str>) -> String {
    let mut child = Command::new("promtool")
        .args(arguments)
        .current_dir(folder())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("promtool cannot be started: {error}; `deploy/setup.sh --tests` installs it"));
    let mut stdin = child.stdin.take().unwrap();
    std::io::Write::write_all(&mut stdin, input.unwrap_or_default().as_bytes()).unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
    assert!(output.status.success(), "promtool {arguments:?}: {said}");
    said
}

#[test]
fn prometheus_accepts_the_rules() {
    let said = promtool(&["check", "rules", "volhost.rules.yml"], None);
    assert!(said.contains(&format!("SUCCESS: {} rules found", alerts().len())), "{said}");
}

#[test]
fn each_alert_fires_and_does_not_fire_in_its_test() {
    let alerts = alerts();
    assert!(alerts.len() >= 8);
    let files: BTreeSet<String> = fs::read_dir(folder().join("tests"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(files, alerts.iter().map(|alert| format!("{}.yml", alert.name)).collect());
    for Alert { name, .. } in alerts {
        let test = yaml(folder().join(format!("tests/{name}.yml")));
        let tests =
            test["tests"].as_array().unwrap().iter().flat_map(|test| test["alert_rule_test"].as_array().unwrap());
        let expected: Vec<bool> = tests
            .map(|test| {
                assert_eq!(test["alertname"], name.as_str());
                !test["exp_alerts"].as_array().unwrap().is_empty()
            })
            .collect();
        assert!(expected.contains(&true) && expected.contains(&false), "{name}: {expected:?}");
        promtool(&["test", "rules", &format!("tests/{name}.yml")], None);
    }
}

#[test]
fn each_alert_says_what_to_do_and_links_to_a_section_of_the_documentation() {
    let listed = fs::read_to_string(workspace().join("docs/observability.md")).unwrap();
    for Alert { name, annotations, .. } in alerts() {
        assert!(listed.contains(&format!("| `{name}` |")), "docs/observability.md does not list {name}");
        let text = |key: &str| annotations[key].as_str().unwrap_or_else(|| panic!("{name} has no {key}")).to_owned();
        assert!(!text("summary").is_empty() && !text("description").is_empty());
        let link = text("runbook_url");
        let section = link.strip_prefix(DOCUMENTATION).and_then(|link| link.split_once('#'));
        let (page, anchor) = section.unwrap_or_else(|| panic!("{name}: {link}"));
        let page = fs::read_to_string(workspace().join("docs").join(page)).unwrap();
        let headings = page.lines().filter_map(|line| line.strip_prefix("## "));
        let anchors: Vec<String> = headings.map(anchor_of).collect();
        assert!(anchors.iter().any(|found| found == anchor), "{name}: {anchor} is none of {anchors:?}");
    }
}

fn anchor_of(heading: &str) -> String {
    let kept = heading.to_lowercase().replace(' ', "-");
    kept.chars().filter(|c| c.is_alphanumeric() || *c == '-').collect()
}

#[test]
fn prometheus_finds_nothing_wrong_with_the_figures() {
    let (node, _driver) = node_with_a_driver(&["--metrics-listen", "127.0.0.1:0"]);
    let served = request(address(&node), "GET", "/metrics").body;
    assert!(served.contains("csi_operations_seconds_count"), "{served}");
    assert_eq!(promtool(&["check", "metrics"], Some(&served)), "");
}
