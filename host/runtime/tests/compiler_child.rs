//! The compiler child: powerless, bounded, and nothing it does reaches the host.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::guest::Guest;
use crate::common::host::{Host, config, no_compiler};
use volhost_kernel::Kernel;
use volhost_runtime::{Compiler, Runtime};
use volhost_testing_kernel::InMemoryKernel;

/// A value of `/proc/PID/status`.
fn status(text: &str, key: &str) -> String {
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("no {key} in {text}")).trim().to_owned()
}

fn limit(text: &str, name: &str) -> Vec<String> {
    let line = text.lines().find(|line| line.starts_with(name)).unwrap();
    line[name.len()..].split_whitespace().take(2).map(str::to_owned).collect()
}

#[test]
fn the_compiler_has_no_privileges_when_it_reads_the_plugin() {
    /// More than fits into a pipe: when it is written, the child has begun to read.
    const MORE_THAN_A_PIPE: usize = (64 << 10) + 1;
    let mut child = Command::new(env!("CARGO_BIN_EXE_volhost-compile-helper"))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(&vec![0; MORE_THAN_A_PIPE]).unwrap();
    let proc = PathBuf::from(format!("/proc/{}", child.id()));
    let found = std::fs::read_to_string(proc.join("status")).unwrap();
    let limits = std::fs::read_to_string(proc.join("limits")).unwrap();
    let stat = std::fs::read_to_string(proc.join("stat")).unwrap();
    let oom_score = std::fs::read_to_string(proc.join("oom_score_adj")).unwrap();
    drop(stdin);
    assert!(!child.wait().unwrap().success(), "zeros are no plugin");

    for caps in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
        assert_eq!(status(&found, caps), "0000000000000000", "{caps}");
    }
    assert_eq!(status(&found, "NoNewPrivs"), "1");
    assert_eq!(status(&found, "Seccomp"), "2", "no filter of system calls");
    let me = std::fs::read_to_string("/proc/self/status").unwrap();
    if status(&me, "Uid").starts_with("0\t") {
        assert_eq!(status(&found, "Uid"), "65534\t65534\t65534\t65534");
        assert_eq!(status(&found, "Gid"), "65534\t65534\t65534\t65534");
        assert_eq!(status(&found, "Groups"), "");
    }
    // The 19th field, counted behind the name.
    let nice =
        |stat: &str| -> i32 { stat.rsplit(") ").next().unwrap().split_whitespace().nth(16).unwrap().parse().unwrap() };
    let own = std::fs::read_to_string("/proc/self/stat").unwrap();
    assert_eq!(nice(&stat), nice(&own) + 3, "mounts come first");
    assert_eq!(oom_score.trim(), "1000", "the kernel ends it first when memory runs out");
    assert_eq!(limit(&limits, "Max open files"), ["3", "3"]);
    assert_eq!(limit(&limits, "Max processes"), ["0", "0"]);
    assert_eq!(limit(&limits, "Max file size"), ["0", "0"]);
    assert_eq!(limit(&limits, "Max core file size"), ["0", "0"]);
    assert_ne!(limit(&limits, "Max address space")[1], "unlimited");
}

fn host_with(program: &str, args: &[&str]) -> Host {
    host_within(Duration::from_secs(60), program, args)
}

fn host_within(deadline: Duration, program: &str, args: &[&str]) -> Host {
    let compiler = Compiler { program: program.into(), args: args.iter().map(Into::into).collect() };
    Host::with(|config| {
        config.compiler = compiler;
        config.limits.compile_time = deadline;
    })
}

#[test]
fn a_compiler_that_does_not_end_is_killed() {
    let begun = Instant::now();
    let message =
        host_within(Duration::from_millis(300), "/bin/sleep", &["1000"]).refusal(&Guest::default().component());
    assert!(message.contains("was killed"), "{message}");
    assert!(begun.elapsed() < Duration::from_secs(180));
}

#[test]
fn a_compiler_that_dies_says_so() {
    let message =
        host_with("/bin/sh", &["-c", "echo no memory >&2; kill -9 $$"]).refusal(&Guest::default().component());
    assert!(message.contains("killed by signal 9") && message.contains("no memory"), "{message}");
    let message = host_with("/no/such/compiler", &[]).refusal(&Guest::default().component());
    assert!(message.contains("/no/such/compiler") && message.contains("No such file"), "{message}");
}

#[test]
fn a_compiler_that_talks_without_end_is_cut_off() {
    let compiler = Compiler { program: "/bin/cat".into(), args: vec!["/dev/zero".into()] };
    let host = Host::with(|config| {
        config.compiler = compiler;
        config.limits.compiled_bytes = 1 << 20;
    });
    let message = host.refusal(&Guest::default().component());
    assert!(message.contains("larger than 1048576 bytes"), "{message}");
}

#[test]
fn rubbish_from_the_compiler_is_not_run() {
    let message = host_with("/bin/echo", &["rubbish"]).refusal(&Guest::default().component());
    assert!(message.contains("cannot be mapped"), "{message}");
}

#[test]
fn in_a_user_namespace_with_one_user_the_compiler_still_works() {
    let helper = env!("CARGO_BIN_EXE_volhost-compile-helper");
    let host = host_with("/usr/bin/unshare", &["--user", "--map-root-user", helper]);
    host.load(&Guest::default());
}

/// A plugin whose code is `depth` nested loops, over which the compiler broods: its effort grows
/// much faster than the file.
fn nested_loops(depth: usize) -> Guest {
    let turn = "(loop (local.set $n (i32.add (local.get $n) (i32.const 1)))";
    let again = "(br_if 0 (local.get $n)))";
    let body = format!("(local $n i32) {} {} (call $ok)", turn.repeat(depth), again.repeat(depth));
    Guest { name: "test.io/nested".into(), publish: body, ..Guest::default() }
}

#[test]
fn a_small_plugin_that_takes_the_compiler_long_is_refused_within_its_processor_time() {
    let begun = Instant::now();
    let host = Host::with(|config| config.limits.compile_cpu_base = Duration::from_secs(1));
    let message = host.refusal(&nested_loops(1500).component());
    assert!(message.contains("more than 1 s of processor time"), "{message}");
    assert!(begun.elapsed() < Duration::from_secs(180), "{:?}", begun.elapsed());
}

#[test]
fn bytes_that_are_no_code_buy_no_processor_time() {
    const PADDING: u32 = 32 << 20;
    let host = Host::with(|config| config.limits.compile_cpu_base = Duration::from_secs(1));
    let mut bomb = nested_loops(1500).component();
    // A custom section with an empty name.
    bomb.push(0);
    let length = PADDING + 1;
    bomb.extend([0, 7, 14].map(|shift| u8::try_from((length >> shift) & 0x7f).unwrap() | 0x80));
    bomb.push(u8::try_from(length >> 21).unwrap());
    bomb.push(0);
    bomb.resize(bomb.len() + PADDING as usize, 0);
    let begun = Instant::now();
    let message = host.refusal(&bomb);
    assert!(message.contains("more than 1 s of processor time"), "{message}");
    assert!(begun.elapsed() < Duration::from_secs(180), "{:?}", begun.elapsed());
}

#[test]
fn a_refused_plugin_is_not_compiled_again_until_requested() {
    let limited = |folder: &std::path::Path| {
        let mut config = config(folder);
        config.limits.compile_cpu_base = Duration::from_secs(1);
        config
    };
    let host = Host::with(|config| config.limits.compile_cpu_base = Duration::from_secs(1));
    let bomb = nested_loops(1500).component();
    host.refusal(&bomb);
    let file = host.folder.path().join("bad.wasm");
    let start = |config| Runtime::new(config, Arc::new(InMemoryKernel::new()) as Arc<dyn Kernel>).unwrap();
    // A later start, with a compiler that would say something else.
    let mut later = limited(host.folder.path());
    later.compiler = no_compiler();
    let later = start(later);
    for _ in 0..2 {
        let message = later.load(&file).unwrap_err().message();
        assert!(message.contains("refused before") && message.contains("more than 1 s"), "{message}");
    }
    // It is tried again under another limit, and on request.
    let mut other = config(host.folder.path());
    other.compiler = no_compiler();
    let message = start(other).load(&file).unwrap_err().message();
    assert!(message.contains("the compiler failed"), "{message}");
    later.forget_refusals();
    let message = later.load(&file).unwrap_err().message();
    assert!(message.contains("the compiler failed"), "{message}");
}

#[test]
fn a_host_that_stops_kills_its_compiler() {
    let compiler = Compiler { program: "/bin/sleep".into(), args: vec!["1000".into()] };
    let host = Host::with(|config| config.compiler = compiler);
    let file = host.folder.path().join("guest.wasm");
    std::fs::write(&file, Guest::default().component()).unwrap();
    let message = std::thread::scope(|scope| {
        let loading = scope.spawn(|| host.runtime.load(&file).unwrap_err().message());
        host.runtime.stop_compiling();
        loading.join().unwrap()
    });
    assert!(message.contains("volhost stopped"), "{message}");
}
