//! Components that no compiler would write: forged and stale handles, addresses outside of memory,
//! allocators that lie, start functions, values that their types do not have. Each ends its own
//! call, leaves nothing, and the plugin can be called again.

use crate::common::guest::{EVENT, Guest, LOG, LOOP, OPEN, TMPFS};
use crate::common::host::Host;
use volhost_kernel::Entry;
use volhost_runtime::CallError;

/// What is tried, the body of `publish`, what it imports besides the usual, and the words of the
/// refusal.
struct Row {
    tries: &'static str,
    body: &'static str,
    imports: &'static [&'static str],
    realloc: Option<&'static str>,
    refused: &'static str,
}

const fn row(tries: &'static str, body: &'static str, refused: &'static str) -> Row {
    Row { tries, body, imports: &[], realloc: None, refused }
}

const DROP_TARGET: &str =
    r#"(import "volhost:plugin/mounts@V" "[resource-drop]detached-mount" (func $drop_mount (param i32)))"#;
const ALLOCATES: &str =
    r#"(import "volhost:plugin/mounts@V" "[method]mount-target.spec-name" (func $spec_name (param i32 i32)))"#;
const NAMED: &str = "(call $spec_name (local.get $target) (global.get $answer)) (call $ok)";

const fn allocating(tries: &'static str, realloc: &'static str, refused: &'static str) -> Row {
    Row { tries, body: NAMED, imports: &[ALLOCATES], realloc: Some(realloc), refused }
}

const ROWS: &[Row] = &[
    row("a forged handle", "(call $state (i32.const 4711) (global.get $answer)) (call $ok)", "handle"),
    row("the handle 0", "(call $state (i32.const 0) (global.get $answer)) (call $ok)", "handle"),
    row("a negative handle", "(call $state (i32.const -1) (global.get $answer)) (call $ok)", "handle"),
    row("a volume as the target", "(call $state (local.get $volume) (global.get $answer)) (call $ok)", "handle"),
    row(
        "a pod as a mount",
        "(call $attach (local.get $target) (local.get $pod) (global.get $answer)) (call $ok)",
        "handle",
    ),
    row(
        "a mount that never was",
        "(call $attach (local.get $target) (i32.const 99) (global.get $answer)) (call $ok)",
        "handle",
    ),
    row(
        "a stale target",
        "(call $drop_target (local.get $target)) (call $state (local.get $target) (global.get $answer)) (call $ok)",
        "handle",
    ),
    row(
        "a handle dropped twice",
        "(call $drop_target (local.get $target)) (call $drop_target (local.get $target)) (call $ok)",
        "handle",
    ),
    row(
        "a mount used twice",
        "(call $tmpfs (i32.const 0) (i32.const 0) (global.get $answer))
         (call $attach (local.get $target) (i32.load offset=4 (global.get $answer)) (i32.const 1024))
         (call $detach (local.get $target) (i32.const 1024))
         (call $attach (local.get $target) (i32.load offset=4 (global.get $answer)) (i32.const 1024))
         (call $ok)",
        "handle",
    ),
    Row {
        tries: "a dropped mount",
        body: "(call $tmpfs (i32.const 0) (i32.const 0) (global.get $answer))
               (call $drop_mount (i32.load offset=4 (global.get $answer)))
               (call $attach (local.get $target) (i32.load offset=4 (global.get $answer)) (i32.const 1024))
               (call $ok)",
        imports: &[DROP_TARGET],
        realloc: None,
        refused: "handle",
    },
    row("an answer outside of memory", "(i32.const -8)", ""),
    row("an answer that is not aligned", "(i32.const 513)", ""),
    row(
        "an answer of a case that is none",
        "(drop (call $err (i32.const 200) (i32.const 16) (i32.const 0))) (i32.const 512)",
        "",
    ),
    row("an error text outside of memory", "(call $err (i32.const 0) (i32.const 65000) (i32.const 65000))", ""),
    row("an error text of 2 GB", "(call $err (i32.const 0) (i32.const 0) (i32.const 0x7fffffff))", ""),
    row(
        "an error text that is no UTF-8",
        "(i32.store (i32.const 1024) (i32.const -1)) (call $err (i32.const 0) (i32.const 1024) (i32.const 4))",
        "",
    ),
    Row {
        tries: "a log line of 2 GB",
        body: "(call $log (i32.const 0) (i32.const 0) (i32.const 0x7fffffff)) (call $ok)",
        imports: &[LOG],
        realloc: None,
        refused: "",
    },
    Row {
        tries: "a log level that is none",
        body: "(call $log (i32.const 77) (i32.const 0) (i32.const 1)) (call $ok)",
        imports: &[LOG],
        realloc: None,
        refused: "",
    },
    Row {
        tries: "an event outside of memory",
        body: "(call $event (i32.const -4) (i32.const 16) (i32.const 0) (i32.const 0)) (call $ok)",
        imports: &[EVENT],
        realloc: None,
        refused: "",
    },
    row("an answer of the host outside of memory", "(call $state (local.get $target) (i32.const -4)) (call $ok)", ""),
    row(
        "a list of options that ends nowhere",
        "(call $tmpfs (i32.const 65000) (i32.const 65000) (global.get $answer)) (call $ok)",
        "",
    ),
    row(
        "more memory than there is",
        "(loop $more (br_if $more (i32.ne (memory.grow (i32.const 16)) (i32.const -1)))) (unreachable)",
        "MiB of memory",
    ),
    row("to divide by zero", "(i32.div_u (i32.const 1) (i32.const 0))", "divide by zero"),
    row("an endless loop", LOOP, "ran for more than"),
    allocating("an allocator that runs for ever", LOOP, "ran for more than"),
    allocating("an allocator that crashes", "(unreachable)", "crashed"),
    allocating("an allocator that hands out what is not there", "(i32.const -16)", ""),
    allocating("an allocator that hands out what lies beyond memory", "(i32.const 0x7fffffff)", ""),
    Row {
        tries: "to call the host from its allocator",
        body: NAMED,
        imports: &[ALLOCATES],
        realloc: Some("(call $state (i32.const 1) (global.get $answer)) (i32.const 1024)"),
        refused: "",
    },
    allocating(
        "to call itself from its allocator",
        "(drop (call $publish (i32.const 1) (i32.const 2) (i32.const 3))) (i32.const 1024)",
        "",
    ),
];

#[test]
fn what_no_compiler_would_write_ends_its_own_call_and_leaves_nothing() {
    let mut wrong = Vec::new();
    for Row { tries, body, imports, realloc, refused } in ROWS {
        let host = Host::new();
        let mut guest = Guest::setting_up(body, imports);
        if let Some(realloc) = realloc {
            guest.realloc = realloc;
        }
        let plugin = match host.try_load(&guest) {
            Ok(plugin) => plugin,
            Err(error) => {
                wrong.push(format!("{tries}: it is not even loaded: {}", error.message()));
                continue;
            }
        };
        let mounts = host.kernel.mounts().len();
        match host.publish(&plugin, "volume") {
            Err(error) if error.is_misbehaviour() && error.message().contains(refused) => {}
            other => wrong.push(format!("{tries}: {:?}", other.map_err(|error| error.message()))),
        }
        if host.kernel.mounts().len() != mounts
            || host.kernel.detached_count() != 0
            || host.entry("volume") != Entry::Absent
        {
            wrong.push(format!("{tries}: it left something"));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), ROWS.len(), wrong.join("\n"));
}

/// Returns what is at the level of the module, beside its functions.
#[test]
fn what_runs_or_is_asked_for_before_any_call_keeps_a_plugin_out() {
    for (tries, functions, message) in [
        ("a start function that never ends", "(func $begin (loop $on (br $on))) (start $begin)", "ran for more than"),
        ("a start function that crashes", "(func $begin (unreachable)) (start $begin)", "crashed"),
        ("a table without end", "(table 30000000 funcref)", ""),
        (
            "a table that grows without end",
            "(table $t 1 funcref) (func $begin (loop $on (br_if $on (i32.ne (table.grow $t (ref.null func) (i32.const 5000)) (i32.const -1))))) (start $begin)",
            "table of more than",
        ),
        (
            "a start function that takes all memory",
            "(func $begin (loop $on (br_if $on (i32.ne (memory.grow (i32.const 64)) (i32.const -1))))) (start $begin)",
            "of memory",
        ),
        ("a stack without end", "(func $begin (call $begin)) (start $begin)", "crashed"),
    ] {
        let host = Host::new();
        let guest = Guest { functions: functions.into(), ..Guest::default() };
        let error = host.try_load(&guest).expect_err(tries).message();
        assert!(error.contains(message), "{tries}: {error}");
        // The next one is none the worse for it.
        let plugin = host.load(&Guest::default());
        host.publish(&plugin, "volume").unwrap();
        assert!(matches!(host.entry("volume"), Entry::Mount(_)), "{tries}");
    }
    let host = Host::new();
    let error = host.try_load(&Guest { memory_pages: 2_000, ..Guest::default() }).expect_err("too much").message();
    assert!(error.contains("memory"), "{error}");
}

#[test]
fn a_handle_does_not_outlive_its_call() {
    let host = Host::new();
    let body = "(if (i32.eqz (global.get $kept)) (then (global.set $kept (local.get $target)) (return (call $ok))))
                (call $state (global.get $kept) (global.get $answer)) (call $ok)";
    let mut guest = Guest::setting_up(body, &[TMPFS, OPEN]);
    guest.imports.truncate(4);
    guest.functions = "(global $kept (mut i32) (i32.const 0))".into();
    let plugin = host.load(&guest);
    for _ in 0..3 {
        // Each call begins with nothing kept: it says that it is done, and nothing is there.
        assert!(matches!(host.publish(&plugin, "volume"), Err(CallError::Lied { .. })));
    }
}
