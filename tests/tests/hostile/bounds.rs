//! What a grant bounds: memory, time, file systems, options.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::json;
use volhost_kernel::Entry;
use volhost_model::FailureClass;
use volhost_runtime::{Call, CallError, Cancellation, HostCallVerdict, HostCalls};

use super::host::{Host, pod, spec};

const MISBEHAVING: &str = "fixture-misbehaving";

fn granting(lines: &str) -> Host {
    Host::granting(&format!("[\"fixture.volhost/misbehaving\"]\n{lines}\n"))
}

fn refusal(host: &Host, fields: serde_json::Value) -> CallError {
    let plugin = host.fixture(MISBEHAVING);
    let error = host.publish(&plugin, "a", fields).unwrap_err();
    assert_eq!(host.entry("a"), Entry::Absent, "{}", error.message());
    error
}

#[test]
fn a_plugin_gets_the_memory_it_is_granted_less_or_more_than_others() {
    for (granted, printed) in [("2Mi", "more than 2 MiB of memory"), ("128Mi", "more than 128 MiB of memory")] {
        let host = granting(&format!("memory = {granted:?}"));
        let error = refusal(&host, json!({ "at": "publish", "how": "memory" })).message();
        assert!(error.contains(printed), "{error}");
    }
}

#[test]
fn a_plugin_gets_the_time_it_is_granted_and_no_more_where_others_wait() {
    let host = granting("call-time = \"300ms\"");
    let error = refusal(&host, json!({ "at": "publish", "how": "loop" })).message();
    assert!(error.contains("more than 0.3 s in publish"), "{error}");
    let call = Call::bare(Duration::from_millis(50));
    let plugin = host.fixture(MISBEHAVING);
    let error = plugin.identify(&call, &spec(json!({ "at": "identify", "how": "loop" }))).unwrap_err().message();
    assert!(error.contains("more than 0.1 s in identify"), "{error}");
    let error = plugin.publish(&call, &spec(json!({})), &pod(), host.target("b")).map(drop);
    assert!(error.is_ok(), "{error:?}");
}

#[test]
fn file_systems_and_options_that_are_not_granted_are_refused() {
    let host = granting("filesystems = [\"ext4\"]");
    let error = refusal(&host, json!({})).message();
    assert!(error.contains("\"tmpfs\" is not granted to this plugin (granted: ext4)"), "{error}");
    let host = granting("filesystems = [\"tmpfs\"]\nmount-options = []");
    let plugin = host.fixture(MISBEHAVING);
    host.publish(&plugin, "a", json!({})).unwrap();
    let host = Host::granting(&super::trespass::grants("/granted", "mount-options = [\"size\"]"));
    let plugin = host.fixture("fixture-trespassing");
    let error = host.publish(&plugin, "a", json!({ "how": "set-option", "word": "noatime" })).unwrap_err().message();
    assert!(error.contains("\"noatime\" is not granted to this plugin (granted: size)"), "{error}");
    host.publish(&plugin, "a", json!({ "how": "tmpfs-size", "word": "1m" })).unwrap();
}

#[test]
fn folders_that_one_volume_gets_over_many_calls_are_bounded_and_repeating_a_call_costs_nothing() {
    let host = Host::new();
    let plugin = host.fixture(MISBEHAVING);
    let call = host.call();
    let make = |from: u32| {
        let how = format!("attach-then-folders-{from}");
        plugin.publish(&call, &spec(json!({ "at": "publish", "how": how })), &pod(), host.target("a")).map(drop)
    };
    for _ in 0..10 {
        make(0).unwrap();
    }
    for from in [1000, 2000, 3000] {
        make(from).unwrap();
    }
    let error = make(4000).unwrap_err();
    assert!(matches!(error, CallError::LimitExceeded { .. }), "{error:?}");
    assert!(error.message().contains("more than 4096 new folders in one volume"), "{}", error.message());
    // Another volume has an account of its own.
    host.publish(&plugin, "b", json!({ "at": "publish", "how": "attach-then-folders-4000" })).unwrap();
}

#[test]
fn files_that_one_call_writes_are_bounded() {
    let host = Host::granting(&super::trespass::grants("/granted", ""));
    let plugin = host.fixture("fixture-trespassing");
    let error = host.publish(&plugin, "a", json!({ "how": "file-flood" })).unwrap_err();
    assert!(error.message().contains("bytes written in one call"), "{}", error.message());
}

/// Cancels the call at its tenth host call that changes something.
#[derive(Debug)]
struct CancelsSoon {
    seen: AtomicU32,
    cancellation: Arc<Cancellation>,
}

impl HostCalls for CancelsSoon {
    fn begins(&self, _call: &str, changes: bool) -> HostCallVerdict {
        if changes && self.seen.fetch_add(1, Ordering::Relaxed) == 9 {
            self.cancellation.cancel();
        }
        HostCallVerdict::Proceed
    }
}

#[test]
fn a_call_whose_pod_is_deleted_makes_no_further_host_call() {
    let host = Host::new();
    let plugin = host.fixture(MISBEHAVING);
    let cancellation = Arc::new(Cancellation::default());
    let watch = Arc::new(CancelsSoon { seen: AtomicU32::new(0), cancellation: cancellation.clone() });
    let call = host.call().with_cancellation(cancellation).with_host_calls(watch.clone());
    let fields = json!({ "at": "publish", "how": "attach-then-folder-flood" });
    let error = plugin.publish(&call, &spec(fields), &pod(), host.target("a")).unwrap_err();
    assert!(matches!(error, CallError::Cancelled { .. }), "{error:?}");
    assert_eq!(watch.seen.load(Ordering::Relaxed), 10);
    assert_eq!(error.class(), FailureClass::Uncertain, "it had changed something");
    assert!(!error.is_misbehaviour(), "the plugin is not to blame");
}

#[test]
fn loop_devices_are_counted() {
    let host = Host::granting(&super::trespass::grants("/granted", "loop-devices = 1"));
    host.machine().add_folder("/images").unwrap();
    let plugin = host.fixture("fixture-trespassing");
    let act = |how: &str, image: &str| {
        // It reports success with nothing at the target, which is a lie; only its earlier calls
        // matter here.
        match host.publish(&plugin, "a", json!({ "how": how, "word": image })) {
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
