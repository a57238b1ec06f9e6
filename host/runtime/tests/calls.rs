//! Calls of plugins: honest ones, and every way to misbehave.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::guest::{self, Guest, LOOP, MOUNT_TMPFS};
use crate::common::host::{Host, pod, spec};
use volhost_kernel::{Entry, Errno, Step};
use volhost_model::FailureClass;
use volhost_runtime::{CallError, ErrorCase, Function, Identified, LogLevel};

#[test]
fn a_volume_is_set_up_and_torn_down_and_repeating_either_changes_nothing() {
    let host = Host::new();
    let plugin = host.load(&Guest::default());
    for _ in 0..2 {
        host.publish(&plugin, "v").unwrap();
        let mount = host.kernel.mounts().into_iter().find(|mount| mount.point.ends_with("v")).unwrap();
        assert_eq!(mount.fs_type, "tmpfs");
    }
    for _ in 0..2 {
        host.unpublish(&plugin, "v").unwrap();
        assert_eq!(host.entry("v"), Entry::Absent);
    }
}

#[test]
fn an_error_of_the_plugin_keeps_its_case_and_text() {
    let host = Host::new();
    let plugin = host.load(&Guest::setting_up("(call $err (i32.const 0) {guest.size: not a size})", &[]));
    let error = host.publish(&plugin, "v").unwrap_err();
    let CallError::Plugin(plugin_error) = &error else { panic!("{error}") };
    assert_eq!(plugin_error.case, ErrorCase::InvalidArgument);
    assert_eq!(error.message(), "guest.size: not a size");
    assert_eq!(error.class(), FailureClass::Final);
    assert!(!error.is_misbehaviour());
}

#[test]
fn an_uncertain_answer_stays_uncertain() {
    let host = Host::new();
    let plugin = host.load(&Guest::setting_up("(call $err (i32.const 8) {who knows})", &[]));
    assert_eq!(host.publish(&plugin, "v").unwrap_err().class(), FailureClass::Uncertain);
}

#[test]
fn the_kernels_words_reach_the_user() {
    let host = Host::new();
    let plugin = host.load(&Guest::default());
    host.kernel.fail_next(Step::Attach, Errno::NOMEM);
    let error = host.publish(&plugin, "v").unwrap_err();
    assert!(error.message().contains("ENOMEM"), "{}", error.message());
    assert_eq!(host.entry("v"), Entry::Absent);
    assert_eq!(host.kernel.detached_count(), 0);
}

#[test]
fn a_busy_volume_is_busy_and_stays() {
    let host = Host::new();
    let plugin = host.load(&Guest::default());
    host.publish(&plugin, "v").unwrap();
    let _hold = host.kernel.hold("/var/lib/volhost/v").unwrap();
    let error = host.unpublish(&plugin, "v").unwrap_err();
    let CallError::Plugin(plugin_error) = &error else { panic!("{error}") };
    assert_eq!(plugin_error.case, ErrorCase::Busy);
    assert!(matches!(host.entry("v"), Entry::Mount(_)));
}

#[test]
fn a_crash_before_any_change_is_final_and_reports_the_last_words() {
    let host = Host::new();
    let plugin =
        host.load(&Guest::setting_up("(call $log (i32.const 0) {out of luck at line 7}) (unreachable)", &[guest::LOG]));
    let error = host.publish(&plugin, "v").unwrap_err();
    assert!(matches!(error, CallError::Trap { function: Function::Publish, .. }), "{error}");
    assert_eq!(error.class(), FailureClass::Final);
    assert!(error.is_misbehaviour());
    assert!(
        error.message().contains("unreachable") && error.message().contains("out of luck at line 7"),
        "{}",
        error.message()
    );
}

#[test]
fn a_crash_after_a_change_is_uncertain_and_the_plugin_can_be_called_again() {
    let host = Host::new();
    let plugin = host.load(&Guest::setting_up(&format!("{MOUNT_TMPFS} (drop) (unreachable)"), &[]));
    let error = host.publish(&plugin, "v").unwrap_err();
    assert!(matches!(error, CallError::Trap { changed: true, .. }), "{error}");
    assert_eq!(error.class(), FailureClass::Uncertain);
    // It was mounted before the crash: now the plugin finds it so, and is done.
    host.publish(&plugin, "v").unwrap();
    host.unpublish(&plugin, "v").unwrap();
}

#[test]
fn a_mount_of_a_crashed_plugin_is_discarded() {
    let host = Host::new();
    let take = "(call $tmpfs (i32.const 0) (i32.const 0) (global.get $answer))";
    let plugin = host.load(&Guest::setting_up(&format!("{take} {take} {take} (unreachable)"), &[]));
    let error = host.publish(&plugin, "v").unwrap_err();
    assert_eq!(error.class(), FailureClass::Final, "a mount that was never visible is no change");
    assert_eq!(host.kernel.detached_count(), 0);
}

#[test]
fn mounts_that_a_plugin_forgets_to_drop_are_discarded_too() {
    let host = Host::new();
    let take = "(call $tmpfs (i32.const 0) (i32.const 0) (global.get $answer))";
    let plugin = host.load(&Guest::setting_up(&format!("{take} {take} {MOUNT_TMPFS}"), &[]));
    host.publish(&plugin, "v").unwrap();
    assert_eq!(host.kernel.detached_count(), 0);
}

#[test]
fn an_endless_loop_ends_at_its_deadline_and_hurts_no_other_call() {
    let host = Host::new();
    let looping = host.load(&Guest::setting_up(LOOP, &[]));
    let honest = host.load(&Guest { name: "test.io/honest".into(), ..Guest::default() });
    let call = host.call().with_plugin_time(Duration::from_millis(200));
    let begun = Instant::now();
    let error = std::thread::scope(|scope| {
        let stuck = scope.spawn(|| looping.publish(&call, &spec(serde_json::json!({})), &pod(), host.target("stuck")));
        host.publish(&honest, "v").unwrap();
        stuck.join().unwrap().unwrap_err()
    });
    assert!(matches!(error, CallError::Deadline { .. }), "{error}");
    assert_eq!(error.class(), FailureClass::Final);
    assert!(begun.elapsed() >= Duration::from_millis(200));
    // Generous, for a busy machine: it would loop for ever.
    assert!(begun.elapsed() < Duration::from_secs(120), "{:?}", begun.elapsed());
}

#[test]
fn a_loop_around_host_calls_ends_too() {
    let host = Host::new();
    let body = "(loop $more (drop (call $memory)) (br $more)) (unreachable)";
    let plugin = host.load(&Guest::setting_up(body, &[guest::MEMORY]));
    let error = host.publish(&plugin, "v").unwrap_err();
    assert!(matches!(error, CallError::LimitExceeded { .. }), "{error}");
    assert!(error.message().contains("host calls"), "{}", error.message());
}

#[test]
fn a_memory_flood_ends_the_call_with_the_limit_named() {
    let host = Host::new();
    let plugin =
        host.load(&Guest::setting_up("(loop $more (drop (memory.grow (i32.const 16))) (br $more)) (unreachable)", &[]));
    let error = host.publish(&plugin, "v").unwrap_err();
    assert!(matches!(error, CallError::LimitExceeded { .. }), "{error}");
    assert!(error.message().contains("64 MiB of memory"), "{}", error.message());
}

#[test]
fn a_handle_flood_ends_the_call_and_leaves_nothing() {
    let host = Host::new();
    let body = "(loop $more (call $tmpfs (i32.const 0) (i32.const 0) (global.get $answer)) (br $more)) (unreachable)";
    let plugin = host.load(&Guest::setting_up(body, &[]));
    let error = host.publish(&plugin, "v").unwrap_err();
    assert!(error.message().contains("more handles"), "{}", error.message());
    assert_eq!(host.kernel.detached_count(), 0);
}

#[test]
fn a_stack_overflow_is_a_crash() {
    let host = Host::new();
    let mut guest = Guest::setting_up("(call $deeper (i32.const 0))", &[]);
    guest.functions =
        "(func $deeper (param i32) (result i32) (i32.add (call $deeper (local.get 0)) (i32.const 1)))".into();
    let error = host.publish(&host.load(&guest), "v").unwrap_err();
    assert!(error.message().contains("stack"), "{}", error.message());
}

#[test]
fn a_log_flood_is_cut_and_the_rest_counted() {
    let host = Host::new();
    let body = "(local $i i32) (loop $more (call $log (i32.const 2) {again})
        (br_if $more (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 1000)))) (call $ok)";
    let mut guest = Guest::setting_up(MOUNT_TMPFS, &[guest::LOG]);
    guest.functions = format!("(func $flood (result i32) {body})");
    guest.publish = format!("(drop (call $flood)) {MOUNT_TMPFS}");
    host.publish(&host.load(&guest), "v").unwrap();
    let lines = host.lines();
    assert_eq!(lines.iter().filter(|(_, line)| line == "again").count(), 200);
    assert_eq!(lines.last().unwrap().0, LogLevel::Warn);
    assert!(lines.last().unwrap().1.starts_with("800 more log lines"), "{lines:?}");
}

#[test]
fn log_lines_and_events_are_tamed() {
    let host = Host::new();
    let body = format!("(call $log (i32.const 1) {{\u{1b}[2Jboo}}) (call $event {{Bad Word!}} {{a\tb}}) {MOUNT_TMPFS}");
    host.publish(&host.load(&Guest::setting_up(&body, &[guest::LOG, guest::EVENT])), "v").unwrap();
    assert_eq!(host.lines()[0].1, "\\u{1b}[2Jboo");
    let events = host.said.events.lock().unwrap();
    assert_eq!((events[0].1.as_str(), events[0].2.as_str()), ("BadWord", "a\\tb"));
}

#[test]
fn a_huge_answer_is_refused_unread() {
    let host = Host::new();
    let mut guest = Guest::setting_up("(call $err (i32.const 0) (i32.const 0) (i32.const 4194304))", &[]);
    guest.memory_pages = 65;
    let error = host.publish(&host.load(&guest), "v").unwrap_err();
    assert!(matches!(error, CallError::OversizedAnswer { .. }), "{error}");
    assert!(error.message().contains("1048576 bytes"), "{}", error.message());
}

#[test]
fn a_long_error_is_cut() {
    let host = Host::new();
    let mut guest = Guest::setting_up("(call $err (i32.const 0) (i32.const 0) (i32.const 65536))", &[]);
    guest.memory_pages = 2;
    let error = host.publish(&host.load(&guest), "v").unwrap_err();
    assert!(error.message().len() < 5000, "{}", error.message().len());
}

#[test]
fn an_address_outside_of_memory_is_the_plugins_fault() {
    let host = Host::new();
    let error = host.publish(&host.load(&Guest::setting_up("(i32.const -8)", &[])), "v").unwrap_err();
    assert!(error.is_misbehaviour(), "{error}");
}

#[test]
fn set_up_that_only_says_so_is_found_out() {
    let host = Host::new();
    let error = host.publish(&host.load(&Guest::setting_up(guest::OK, &[])), "v").unwrap_err();
    assert!(matches!(error, CallError::Lied { .. }), "{error}");
    assert_eq!(error.message(), "the plugin reported publish as done, but nothing is at the target");
    assert_eq!(error.class(), FailureClass::Final);
}

#[test]
fn tear_down_that_only_says_so_is_found_out_and_uncertain() {
    let host = Host::new();
    let plugin = host.load(&Guest { unpublish: guest::OK.into(), ..Guest::default() });
    host.publish(&plugin, "v").unwrap();
    let error = host.unpublish(&plugin, "v").unwrap_err();
    assert_eq!(error.message(), "the plugin reported unpublish as done, but a mount is still at the target");
    assert_eq!(error.class(), FailureClass::Uncertain);
}

#[test]
fn a_borrowed_handle_cannot_be_kept() {
    let host = Host::new();
    // The wrapper drops what it was lent; a second drop is a handle that does not exist.
    let error = host
        .publish(&host.load(&Guest::setting_up("(call $drop_target (local.get $target)) (call $ok)", &[])), "v")
        .unwrap_err();
    assert!(error.is_misbehaviour(), "{error}");
}

#[test]
fn a_plugin_that_is_only_asked_reaches_nothing() {
    let host = Host::new();
    let make = "(call $tmpfs (i32.const 0) (i32.const 0) (global.get $answer))";
    let reaching = Guest { identify: format!("{make} (call $ok)"), ..Guest::default() };
    let error = host.load(&reaching).identify(&host.call(), &spec(serde_json::json!({}))).unwrap_err();
    assert!(error.is_misbehaviour(), "{error}");
    let message = error.message();
    assert!(message.contains("it called tmpfs.create in identify"), "{message}");
    assert_eq!(host.kernel.detached_count(), 0);
    let describing = Guest { describe: make.into(), ..Guest::default() };
    let message = host.refusal(&describing.component());
    assert!(message.contains("it called tmpfs.create in describe"), "{message}");
}

#[test]
fn a_volume_is_identified_or_refused() {
    let host = Host::new();
    let naming = Guest {
        identify: "(call $identity_name (local.get $form) {disk-7}) (call $ok)".into(),
        imports: [Guest::default().imports, vec![guest::IDENTITY_NAME]].concat(),
        ..Guest::default()
    };
    let volume = spec(serde_json::json!({}));
    assert_eq!(host.load(&naming).identify(&host.call(), &volume).unwrap().name.as_deref(), Some("disk-7"));
    assert_eq!(host.load(&Guest::default()).identify(&host.call(), &volume).unwrap(), Identified::default());
    let bad = Guest { identify: naming.identify.replace("disk-7", "disk\n7"), ..naming };
    let error = host.load(&bad).identify(&host.call(), &volume).unwrap_err();
    assert!(matches!(error, CallError::BrokeContract { .. }), "{error}");
}

#[test]
fn calls_run_in_parallel_on_threads() {
    let host = Host::new();
    let plugin = host.load(&Guest::default());
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (host, plugin) = (&host, Arc::clone(&plugin));
            scope.spawn(move || {
                for round in 0..20 {
                    let name = format!("v{thread}-{round}");
                    host.publish(&plugin, &name).unwrap();
                    host.unpublish(&plugin, &name).unwrap();
                }
            });
        }
    });
    assert_eq!(host.kernel.detached_count(), 0);
}

#[test]
fn host_paths_are_bounded_by_the_grant() {
    let host = Host::with(|config| {
        config.grants = toml::from_str("[\"test.io/guest\"]\nhost-paths = [\"/srv\"]").unwrap();
    });
    host.kernel.add_folder("/srv/data").unwrap();
    host.kernel.add_folder("/etc").unwrap();
    let body = |path: &str| {
        format!(
            "(call $open {{{path}}} (global.get $answer))
             (if (i32.load8_u (global.get $answer)) (then (return (global.get $answer))))
             (call $bind (i32.load offset=4 (global.get $answer)) (i32.const 0) (global.get $answer))
             (if (i32.load8_u (global.get $answer)) (then (return (global.get $answer))))
             (call $attach (local.get $target) (i32.load offset=4 (global.get $answer)) (global.get $answer))
             (global.get $answer)"
        )
    };
    let imports = &[guest::OPEN, guest::BIND];
    host.publish(&host.load(&Guest::setting_up(&body("/srv/data"), imports)), "v").unwrap();
    assert!(matches!(host.entry("v"), Entry::Mount(_)));
    let error = host.publish(&host.load(&Guest::setting_up(&body("/etc"), imports)), "w").unwrap_err();
    let CallError::Plugin(refused) = &error else { panic!("{error}") };
    assert_eq!(refused.case, ErrorCase::PermissionDenied);
}

#[test]
fn the_progress_names_the_step_of_a_call() {
    let host = Host::new();
    let plugin = host.load(&Guest::setting_up(LOOP, &[]));
    let call = host.call().with_plugin_time(Duration::from_secs(180));
    assert_eq!(call.progress().current().what, "not started");
    std::thread::scope(|scope| {
        let stuck = scope.spawn(|| plugin.publish(&call, &spec(serde_json::json!({})), &pod(), host.target("v")));
        while call.progress().current().what != "plugin code" {
            assert!(!stuck.is_finished(), "it ended without reporting its step");
            std::thread::yield_now();
        }
        call.cancellation().cancel();
        stuck.join().unwrap().unwrap_err();
    });
}
