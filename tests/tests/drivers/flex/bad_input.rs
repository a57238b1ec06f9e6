use std::fs;
use std::os::unix::fs::symlink;

use volhost_tests::wait::eventually;

use super::kit::{DRIVER, Flex, builder, write_program};

/// Calls of this driver are killed after three seconds.
const IMPATIENT: &str = "[flex-drivers.\"test/driver\"]\ndeadline = \"3s\"";

/// A process whose id the driver wrote down.
fn is_running(flex: &Flex, file: &str) -> bool {
    let pid = fs::read_to_string(flex.node.folder().join(file)).unwrap();
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().next()).is_some_and(|state| !"ZX".contains(state))
}

#[test]
fn what_cannot_be_a_driver_is_shown_and_takes_nothing_else_down() {
    let flex = Flex::start();
    let program = |name: &str| {
        let program = flex.program(name);
        fs::create_dir_all(program.parent().unwrap()).unwrap();
        program
    };
    fs::create_dir(flex.drivers().join("test~empty")).unwrap();
    write_program(&program("test/plain"), "#!/bin/sh\n", 0o644);
    fs::create_dir(program("test/folder")).unwrap();
    symlink("/bin/true", program("test/link")).unwrap();
    write_program(&program("test/open"), "#!/bin/sh\n", 0o777);
    write_program(&program("test/nothing"), "not a program\n", 0o755);
    write_program(&program("test/silent"), "#!/bin/sh\n", 0o755);
    fs::write(flex.drivers().join("stray"), "").unwrap();
    for (name, words) in [
        ("test/plain", "is not executable"),
        ("test/folder", "is a folder"),
        ("test/link", "outside of the drivers' folder"),
        ("test/open", "every user can write"),
        ("test/nothing", "could not be run"),
        ("test/silent", "answered nothing"),
    ] {
        flex.wait_driver(&[name, "Failed", words]);
    }
    let all = flex.node.ok(&["get", "drivers"]);
    assert!(!all.contains("test/empty") && !all.contains("stray"), "{all}");
    flex.pod("");
    flex.wait_mounted();
    flex.remove_pod();
}

#[test]
fn a_program_that_another_user_could_replace_is_not_run() {
    let flex = Flex::start();
    flex.wait_driver(&[DRIVER, "Ready"]);
    flex.install("test/foreign");
    let folder = flex.program("test/foreign").parent().unwrap().to_path_buf();
    flex.wait_driver(&["test/foreign", "Ready"]);
    for (path, uid) in [(flex.program("test/foreign"), 1000), (folder.clone(), 1000)] {
        std::os::unix::fs::chown(&path, Some(uid), None).unwrap();
        flex.wait_driver(&["test/foreign", "Failed", "belongs to user 1000"]);
        std::os::unix::fs::chown(&path, Some(0), None).unwrap();
        flex.wait_driver(&["test/foreign", "Ready"]);
    }
    fs::set_permissions(&folder, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    flex.wait_driver(&["test/foreign", "Failed", "every user can write"]);
    // Whatever was seen when the folder was looked at: what counts is how it is when the program is
    // run.
    fs::set_permissions(flex.node.folder(), std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    flex.pod("");
    flex.node.wait_event(&["default/web", "test/driver", "every user can write"]);
    assert_eq!(flex.count("mount"), 0);
    fs::set_permissions(flex.node.folder(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    flex.wait_mounted();
    flex.remove_pod();
}

#[test]
fn a_driver_that_never_ends_is_killed_with_all_that_it_started() {
    let script = "trap '' TERM INT HUP; sleep 1000 & echo $! >\"$here/child\"; echo $$ >\"$here/self\"; wait; wait";
    let flex = Flex::with(builder().config(IMPATIENT), &[("mount", script)]);
    flex.pod("");
    flex.node.wait_event(&["FailedMount", "took more than 3 s in mount and was killed with its children"]);
    assert!(eventually(|| !is_running(&flex, "child") && !is_running(&flex, "self")));
    flex.is_honest("mount");
    flex.wait_mounted();
    flex.remove_pod();
}

#[test]
fn a_driver_that_writes_without_end_is_killed() {
    let flex = Flex::doing(&[("mount", "exec dd if=/dev/zero bs=1M count=1024")]);
    flex.pod("");
    flex.node.wait_event(&["FailedMount", "wrote more than 256 KiB in mount and was killed"]);
    flex.is_honest("mount");
    flex.wait_mounted();
    flex.remove_pod();
}

#[test]
fn a_child_that_keeps_the_output_open_delays_nothing() {
    let flex = Flex::doing(&[("mount", "sleep 1000 & echo $! >\"$here/child\"")]);
    flex.pod("");
    flex.wait_mounted();
    assert!(is_running(&flex, "child"), "it may serve a file system");
    let pid: i32 = fs::read_to_string(flex.node.folder().join("child")).unwrap().trim().parse().unwrap();
    rustix::process::kill_process(rustix::process::Pid::from_raw(pid).unwrap(), rustix::process::Signal::KILL).unwrap();
    flex.remove_pod();
}

#[test]
fn what_is_no_utf_8_is_replaced() {
    let flex = Flex::doing(&[(
        "mount",
        r#"if [ ! -e "$here/once" ]; then touch "$here/once"; printf '\377\376{"status":"Failure","message":"bad \200 byte"}'; exit 1; fi"#,
    )]);
    flex.pod("");
    flex.node.wait_event(&["FailedMount", "bad \u{fffd} byte"]);
    flex.wait_mounted();
    flex.remove_pod();
}

#[test]
fn a_driver_that_is_removed_during_a_call_ends_that_call() {
    let script = "rm -rf \"$(dirname \"$0\")\"";
    let flex = Flex::doing(&[("mount", script)]);
    flex.pod("");
    flex.wait_mounted();
    assert!(eventually(|| flex.node.ok(&["get", "drivers"]).is_empty()));
    flex.remove_pod();
    flex.node.wait_event(&["DriverMissing"]);
}

#[test]
fn options_that_are_no_text_are_reported_before_anything_runs() {
    let flex = Flex::start();
    flex.wait_driver(&[DRIVER, "Ready"]);
    for (source, words) in
        [("options: { size: 5 }", "flexVolume.options.size"), ("readOnly: maybe", "flexVolume.readOnly")]
    {
        flex.pod(source);
        flex.node.wait_event(&["InvalidManifest", words]);
    }
    flex.pod("options: { kubernetes.io/pod.namespace: kube-system }");
    flex.wait_described("keys of kubernetes.io and k8s.io are set by volhost");
    flex.pod_of("a/b/c", "");
    flex.wait_described("must be VENDOR/DRIVER");
    flex.pod_of("\"../../bin/sh\"", "");
    flex.wait_described("must be VENDOR/DRIVER");
    assert_eq!(flex.count("mount"), 0);
}

#[test]
fn a_driver_that_is_not_granted_is_not_run() {
    let grant = "[grants.\"volhost.io/flex-volume\"]\nflex-drivers = [\"test/other\"]\ninterfaces = [\"driver-mounts\"]\nblock-devices = [\"/dev\"]";
    let flex = Flex::with(builder().config(grant), &[]);
    flex.pod("");
    flex.wait_described("driver test/driver is not granted to this plugin");
    flex.install("test/other");
    flex.pod_of("test/other", "");
    flex.wait_mounted();
    flex.remove_pod();
}

#[test]
fn a_sandbox_takes_what_the_operator_says() {
    let config = "[flex-drivers.\"test/driver\".sandbox]\nuser = 65534\nno-new-privileges = true\nopen-files = 33";
    let script = "{ id -u; id -G; ulimit -n; grep NoNewPrivs /proc/self/status; env | sort | cut -d= -f1 | tr '\\n' ' '; } >\"$here/about\" 2>&1; answer Failure";
    let flex = Flex::empty(builder().config(config));
    flex.install(DRIVER);
    flex.does("mount", script);
    for open in [flex.node.folder().to_path_buf(), flex.node.folder().join("do")] {
        // Sticky: in a folder where every user could replace the drivers none is run.
        fs::set_permissions(&open, std::os::unix::fs::PermissionsExt::from_mode(0o1777)).unwrap();
    }
    let mut flex = flex;
    flex.node.start();
    flex.pod("");
    let about = flex.node.folder().join("about");
    let lines = || fs::read_to_string(&about).unwrap_or_default();
    assert!(eventually(|| lines().contains("PATH")), "{}\n{}", lines(), flex.node.log());
    let text = lines();
    let about: Vec<&str> = text.lines().collect();
    assert_eq!(about[..3], ["65534", "65534", "33"], "{text}");
    assert!(
        about[3].ends_with('1') && about[4].split(' ').all(|name| ["", "PATH", "PWD", "_"].contains(&name)),
        "{text}"
    );
}

#[test]
fn no_more_calls_run_at_once_than_the_operator_says() {
    let config = "[flex-drivers.\"*\"]\nconcurrency = 1";
    let script = "mkdir \"$here/alone\" || answer Failure 'not alone' 1; mount -t tmpfs driver \"$2\"; rmdir \"$here/alone\"; answer Success";
    let flex = Flex::with(builder().config(config), &[("mount", script)]);
    for number in 0..8 {
        let pod = super::kit::pod("      flexVolume: { driver: test/driver }\n");
        let pod = pod.replace("name: web, uid: uid-1", &format!("name: web-{number}, uid: uid-{number}"));
        flex.node.manifest(&format!("pod-{number}.yaml"), &pod);
    }
    for number in 0..8 {
        flex.node.wait_mounted(&format!("default/web-{number}"));
    }
    assert_eq!(flex.count("mount"), 8, "none failed");
    flex.node.ok(&["drain"]);
}
