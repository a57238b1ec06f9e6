//! What a grant bounds: memory, time, file systems, options.

use std::time::Duration;

use serde_json::json;
use volhost_kernel::Entry;
use volhost_runtime::{CallContext, CallError};

use super::host::{Host, pod, spec};

const MISBEHAVING: &str = "fixture-misbehaving";

fn granting(lines: &str) -> Host {
    Host::granting(&format!("[\"fixture.volhost/misbehaving\"]\n{lines}\n"))
}

fn refusal(host: &Host, fields: serde_json::Value) -> CallError {
    let plugin = host.fixture(MISBEHAVING);
    let error = host.set_up(&plugin, "a", fields).unwrap_err();
    assert_eq!(host.entry("a"), Entry::Absent, "{}", error.message());
    error
}

#[test]
fn a_plugin_gets_the_memory_it_is_granted_less_or_more_than_others() {
    for (granted, told) in [("2Mi", "more than 2 MiB of memory"), ("128Mi", "more than 128 MiB of memory")] {
        let host = granting(&format!("memory = {granted:?}"));
        let error = refusal(&host, json!({ "at": "set-up", "how": "memory" })).message();
        assert!(error.contains(told), "{error}");
    }
}

#[test]
fn a_plugin_gets_the_time_it_is_granted_and_no_more_where_others_wait() {
    let host = granting("call-time = \"300ms\"");
    let error = refusal(&host, json!({ "at": "set-up", "how": "loop" })).message();
    assert!(error.contains("more than 0.3 s in set-up"), "{error}");
    let call = CallContext::quiet(Duration::from_millis(50));
    let plugin = host.fixture(MISBEHAVING);
    let error = plugin.identify(&call, &spec(json!({ "at": "identify", "how": "loop" }))).unwrap_err().message();
    assert!(error.contains("more than 0.1 s in identify"), "{error}");
    let error = plugin.set_up(&call, &spec(json!({})), &pod(), host.target("b")).map(drop);
    assert!(error.is_ok(), "{error:?}");
}

#[test]
fn file_systems_and_options_that_are_not_granted_are_refused() {
    let host = granting("filesystems = [\"ext4\"]");
    let error = refusal(&host, json!({})).message();
    assert!(error.contains("\"tmpfs\" is not granted to this plugin (granted: ext4)"), "{error}");
    let host = granting("filesystems = [\"tmpfs\"]\nmount-options = []");
    let plugin = host.fixture(MISBEHAVING);
    host.set_up(&plugin, "a", json!({})).unwrap();
    let host = Host::granting(&super::trespass::grants("/granted", "mount-options = [\"size\"]"));
    let plugin = host.fixture("fixture-trespassing");
    let error = host.set_up(&plugin, "a", json!({ "how": "set-option", "word": "noatime" })).unwrap_err().message();
    assert!(error.contains("\"noatime\" is not granted to this plugin (granted: size)"), "{error}");
    host.set_up(&plugin, "a", json!({ "how": "tmpfs-size", "word": "1m" })).unwrap();
}

#[test]
fn loop_devices_are_counted() {
    let host = Host::granting(&super::trespass::grants("/granted", "loop-devices = 1"));
    host.twin().add_folder("/images").unwrap();
    let plugin = host.fixture("fixture-trespassing");
    let act = |how: &str, image: &str| {
        // Done, it has nothing at the target, which is a lie; what matters here is what it was told before.
        match host.set_up(&plugin, "a", json!({ "how": how, "word": image })) {
            Err(CallError::Lied { .. }) => Ok(()),
            other => other.map_err(|error| error.message()),
        }
    };
    for image in ["/images/one", "/images/two"] {
        act("image", image).unwrap();
    }
    act("loop", "/images/one").unwrap();
    act("loop", "/images/one").unwrap();
    let refused = act("loop", "/images/two").unwrap_err();
    assert!(refused.contains("has 1 loop devices, and 1 are granted"), "{refused}");
    act("remove-loop", "/images/one").unwrap();
    act("loop", "/images/two").unwrap();
    act("remove-loop", "/images/two").unwrap();
}
