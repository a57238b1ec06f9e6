//! A start whose plugins have to be compiled first: the daemon serves, hears, and takes nothing
//! away meanwhile.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use volhost_tests::manifests::pod;
use volhost_tests::wait::eventually;
use volhost_tests::{Node, artifacts};

/// Bytes of code that do nothing and compile in no time. They give the compiler 16 s more of the
/// processor, in which other plugins are ready on a busy machine, too.
const FILLING: usize = 1 << 20;
/// A compiler may take this long by the clock. On a busy machine it takes minutes to use up its
/// processor time, because it makes room for everything else.
const COMPILED_WITHIN: Duration = Duration::from_secs(900);

/// A component with 42 KB of code that takes the compiler minutes: loops within loops. It
/// is no plugin, which only shows afterwards.
fn slow_to_compile(filling: usize) -> Vec<u8> {
    const DEPTH: usize = 3000;
    // A core module: one type, one function, and its code with one local. Each loop adds 1 to the
    // local, and goes on while it is not 0.
    let mut body = vec![1, 1, 0x7f];
    body.extend([0x03, 0x40, 0x20, 0, 0x41, 1, 0x6a, 0x21, 0].repeat(DEPTH));
    body.extend([0x20, 0, 0x0d, 0, 0x0b].repeat(DEPTH));
    body.resize(body.len() + filling, 0x01);
    body.push(0x0b);
    let mut code = vec![1];
    code.extend(number(body.len()));
    code.extend(body);
    let mut module = b"\0asm\x01\0\0\0".to_vec();
    for (section, content) in [(1, vec![1, 0x60, 0, 0]), (3, vec![1, 0]), (7, vec![1, 1, b'f', 0, 0]), (10, code)] {
        module.push(section);
        module.extend(number(content.len()));
        module.extend(content);
    }
    // A component with that module in it.
    let mut component = b"\0asm\x0d\0\x01\0".to_vec();
    component.push(1);
    component.extend(number(module.len()));
    component.extend(module);
    component
}

/// A number as WebAssembly writes it: seven bits a byte, the lowest first.
fn number(mut number: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let low = u8::try_from(number & 0x7f).unwrap();
        number >>= 7;
        if number == 0 {
            bytes.push(low);
            return bytes;
        }
        bytes.push(low | 0x80);
    }
}

/// Puts a file that is slow to compile among the node's plugins.
fn add_slow_plugin(node: &Node, name: &str, filling: usize) {
    // Each has a digest of its own.
    let mut bytes = slow_to_compile(filling);
    let mut custom = number(name.len());
    custom.extend(name.as_bytes());
    bytes.push(0);
    bytes.extend(number(custom.len()));
    bytes.extend(custom);
    fs::write(node.folder().join(format!("plugins/{name}.wasm")), bytes).unwrap();
}

fn with_slow_plugins(count: usize) -> Node {
    let node = Node::builder().cold().build();
    for index in 0..count {
        add_slow_plugin(&node, &format!("slow-{index}"), FILLING);
    }
    node
}

/// Whether a line of `get plugins` has all of these words.
fn listed(node: &Node, words: &[&str]) -> bool {
    node.ok(&["get", "plugins", "-o", "wide"]).lines().any(|line| words.iter().all(|word| line.contains(word)))
}

/// The compiler children of the node's daemon.
fn compilers(node: &Node) -> Vec<PathBuf> {
    let tasks = fs::read_dir(format!("/proc/{}/task", node.pid())).unwrap();
    let of_thread = |task: PathBuf| fs::read_to_string(task.join("children")).unwrap_or_default();
    let all: String = tasks.map(|task| of_thread(task.unwrap().path())).collect();
    all.split_whitespace().map(|pid| PathBuf::from("/proc").join(pid)).collect()
}

/// Whether SIGKILL is on its way to the process with this status.
fn is_killed(status: &str) -> bool {
    const SIGKILL: u64 = 1 << 8;
    let pending = status.lines().find_map(|line| line.strip_prefix("ShdPnd:\t"));
    pending.is_some_and(|signals| u64::from_str_radix(signals, 16).unwrap() & SIGKILL != 0)
}

#[test]
fn a_daemon_serves_while_plugins_are_compiled_and_says_so() {
    let mut node = with_slow_plugins(1);
    assert!(node.try_start(), "{}", node.log());
    node.wait_event(&["PluginCompiling", "slow-0.wasm"]);
    let listed = node.ok(&["get", "plugins"]);
    assert!(listed.lines().any(|line| line.contains("slow-0") && line.contains("Compiling")), "{listed}");
    // Other plugins do not wait for it.
    node.manifest("a.yaml", &pod("a", "uid-a", &["name: scratch, emptyDir: {}"]));
    node.wait_mounted("default/a");
    let listed = node.ok(&["get", "plugins"]);
    assert!(listed.lines().any(|line| line.contains("slow-0") && line.contains("Compiling")), "{listed}");
    // It is refused in the end, within its processor time.
    node.wait_event_within(COMPILED_WITHIN, &["PluginNotLoaded", "slow-0.wasm", "processor time"]);
    // And the next start does not pay for it again.
    node.terminate();
    node.start();
    let listed = node.ok(&["get", "plugins", "-o", "wide"]);
    assert!(listed.contains("refused before") && !listed.contains("Compiling"), "{listed}");
}

#[test]
fn a_stop_is_heard_while_plugins_are_compiled_and_ends_the_compilers() {
    let mut node = with_slow_plugins(3);
    assert!(node.try_start(), "{}", node.log());
    node.wait_event(&["PluginCompiling", "slow-0.wasm"]);
    // The event comes before the child that compiles.
    let mut running = Vec::new();
    let is_compiled = eventually(|| {
        running = compilers(&node);
        !running.is_empty()
    });
    assert!(is_compiled, "no compiler runs");
    assert!(node.terminate().success(), "{}", node.log());
    for process in running {
        let status = fs::read_to_string(process.join("status")).unwrap_or_default();
        assert!(
            status.is_empty() || status.contains("State:\tZ") || is_killed(&status),
            "a compiler still runs: {status}"
        );
    }
}

#[test]
fn a_live_pod_keeps_its_volumes_while_their_plugin_is_compiled_again() {
    let mut node = Node::builder().cold().start();
    let memory = "name: scratch, emptyDir: {medium: Memory}";
    node.manifest("a.yaml", &pod("a", "uid-a", &[memory]));
    node.wait_mounted("default/a");
    let volume = node.volume("uid-a", "kubernetes.io~empty-dir", "scratch");
    fs::write(volume.join("kept"), "kept").unwrap();
    node.kill();
    // As after an update of volhost: nothing of the cache can be used.
    fs::remove_dir_all(node.folder().join("cache")).unwrap();
    assert!(node.try_start(), "{}", node.log());
    assert_eq!(fs::read_to_string(volume.join("kept")).unwrap(), "kept");
    node.wait_event(&["PluginsLoaded"]);
    node.wait_mounted("default/a");
    assert_eq!(fs::read_to_string(volume.join("kept")).unwrap(), "kept");
}

#[test]
fn files_of_strangers_that_take_long_do_not_delay_the_plugins_that_come_with_volhost() {
    let mut node = Node::builder().cold().build();
    // They sort first, and there is one for each processor and one more.
    let count = std::thread::available_parallelism().unwrap().get() + 1;
    for index in 0..count {
        add_slow_plugin(&node, &format!("a-slow-{index}"), FILLING);
    }
    assert!(node.try_start(), "{}", node.log());
    node.manifest("a.yaml", &pod("a", "uid-a", &["name: scratch, emptyDir: {}"]));
    node.wait_mounted("default/a");
    let compiling = |index| listed(&node, &[&format!("a-slow-{index}"), "Compiling"]);
    assert!((0..count).all(compiling), "{}", node.ok(&["get", "plugins"]));
}

#[test]
fn a_grant_that_is_taken_back_while_other_files_compile_is_gone() {
    const NAME: &str = "fixture.volhost/ungranted";
    let mut node = Node::builder()
        .cold()
        .config(&format!("[grants.{NAME:?}]\nhost-paths = [\"/srv\"]\n"))
        .plugin(artifacts::fixture("fixture-ungranted"))
        .build();
    // Not filled: the compiler gives up as early as it may.
    add_slow_plugin(&node, "slow", 0);
    assert!(node.try_start(), "{}", node.log());
    let is_waiting = || listed(&node, &[NAME, "Waiting", "being compiled: slow.wasm"]);
    assert!(eventually(is_waiting), "{}", node.ok(&["get", "plugins", "-o", "wide"]));
    // A pod that needs it is given the reason.
    node.manifest("a.yaml", &pod("a", "uid-a", &["name: data, ungranted: {}"]));
    node.wait_blocked("a", &[&format!("plugin {NAME} of file fixture-ungranted.wasm waits")]);

    let config = node.folder().join("volhost.toml");
    let grant = ["plugin", "grant", NAME, "--config", config.to_str().unwrap(), "--host-path", "/srv"];
    node.ok(&[&grant[..], &["--remove"]].concat());
    node.wait_event(&["PluginNotLoaded", "fixture-ungranted.wasm", "not granted"]);
    assert!(listed(&node, &["slow", "Compiling"]), "{}", node.ok(&["get", "plugins"]));
    node.wait_event_within(COMPILED_WITHIN, &["PluginNotLoaded", "slow.wasm", "processor time"]);
    node.wait_event(&["PluginsLoaded"]);
    assert!(!listed(&node, &[NAME, "Ready"]), "{}", node.ok(&["get", "plugins"]));
}
