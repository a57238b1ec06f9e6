//! A plugin that has WASI finds an empty machine.

use serde_json::json;
use volhost_kernel::Entry;
use volhost_runtime::LogLevel;

use super::host::Host;

const FIXTURE: &str = "fixture-wants-wasi";

/// What the plugin found, by what it looked for.
fn findings(host: &Host) -> Vec<(String, String)> {
    let split = |line: &String| {
        line.strip_prefix("probe ")?.split_once(": ").map(|(what, found)| (what.to_owned(), found.to_owned()))
    };
    host.lines().iter().filter_map(split).collect()
}

#[test]
fn through_wasi_nothing_of_the_host_is_reached() {
    let host = Host::new();
    let plugin = host.fixture(FIXTURE);
    host.publish(&plugin, "a", json!({})).unwrap();
    assert_eq!(host.entry("a"), Entry::Folder);
    let first = findings(&host);
    for (what, expected) in [
        ("variables", "[]"),
        ("arguments", "[]"),
        ("folder", "None"),
        ("preopened", "0"),
        ("terminal", "false"),
        ("input", "ended"),
        ("socket", "denied"),
        ("name", "no resolver"),
        ("clock", "1000 2000 1000"),
        ("time", "0"),
    ] {
        let found = first.iter().find(|(name, _)| name == what).map(|(_, found)| found.as_str());
        assert_eq!(found, Some(expected), "{what}: {first:?}");
    }
    host.publish(&plugin, "b", json!({})).unwrap();
    let second = findings(&host);
    let differ: Vec<_> = first.iter().zip(&second).filter(|(a, b)| a != b).map(|((what, _), _)| what).collect();
    assert_eq!(differ, ["random"], "a call passes nothing to another but by the kernel's random bytes");
}

#[test]
fn what_a_plugin_writes_to_its_output_is_logged_by_line_and_bounded() {
    let host = Host::new();
    let plugin = host.fixture(FIXTURE);
    host.publish(&plugin, "a", json!({})).unwrap();
    let said = host.said.lines.lock().unwrap().clone();
    for line in [
        (LogLevel::Info, "written to standard output"),
        (LogLevel::Info, "and no end"),
        (LogLevel::Warn, "written to standard error"),
    ] {
        assert!(said.iter().any(|(level, text)| (*level, text.as_str()) == line), "{line:?}: {said:?}");
    }
    host.lines();
    host.publish(&plugin, "b", json!({ "do": "write" })).unwrap();
    let lines = host.lines();
    assert!(lines.len() <= 201, "{} lines", lines.len());
    assert!(lines.last().unwrap().contains("more log lines of the plugin were dropped"), "{lines:?}");
}

#[test]
fn a_plugin_that_exits_is_reported_with_its_last_output() {
    let host = Host::new();
    let plugin = host.fixture(FIXTURE);
    let error = host.publish(&plugin, "a", json!({ "do": "exit" })).unwrap_err();
    assert!(error.is_misbehaviour());
    assert!(
        error.message().contains("called exit instead of returning; its last words: gave up:; no such thing"),
        "{}",
        error.message()
    );
    assert_eq!(host.entry("a"), Entry::Absent);
}

#[test]
fn random_bytes_and_handles_have_bounds() {
    let host = Host::new();
    let plugin = host.fixture(FIXTURE);
    let error = host.publish(&plugin, "a", json!({ "do": "random" })).unwrap_err().message();
    assert!(error.contains("exceeds limit 65536"), "{error}");
    let error = host.publish(&plugin, "a", json!({ "do": "handles" })).unwrap_err().message();
    assert!(error.contains("more handles at once than it may have"), "{error}");
}

#[test]
fn a_plugin_that_imports_http_loads_and_the_call_that_uses_it_ends() {
    let host = Host::new();
    let plugin = host.fixture(FIXTURE);
    host.publish(&plugin, "a", json!({})).unwrap();
    let error = host.publish(&plugin, "b", json!({ "do": "http" })).unwrap_err();
    assert!(error.is_misbehaviour());
    let expected = "it called [constructor]fields of wasi:http/types@0.2.6, and a plugin has no network";
    assert!(error.message().contains(expected), "{}", error.message());
    assert_eq!(host.entry("b"), Entry::Absent);
}

#[test]
fn a_sleep_returns_at_once_a_year_later() {
    let host = Host::new();
    let plugin = host.fixture(FIXTURE);
    host.publish(&plugin, "a", json!({ "do": "sleep" })).unwrap();
    assert_eq!(host.lines(), ["slept a year: true, first: [1]"]);
}
