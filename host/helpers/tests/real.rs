//! Real programs on the real kernel, each test in a mount namespace of its own.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "tests may panic"
)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group, test_kill_process};
use volhost_helpers::{Helpers, Launcher};
use volhost_kernel::namespace::unshare_mounts;
use volhost_kernel::{Detach, Directory, FuseMounts, Kernel, LinuxKernel};
use volhost_runtime::{
    FuseServers, HelperArgument, HelperBounds, HelperDescriptor, HelperError, HelperPart, HelperRights, HelperStart,
    Served,
};

/// Longer than anything takes on a machine that has much else to do.
const PATIENCE: Duration = Duration::from_secs(180);
const COW: &str = "/usr/bin/fuse-overlayfs";

/// A folder to work in, and the helpers of a node.
struct Site {
    kernel: Arc<LinuxKernel>,
    helpers: Helpers,
    folder: tempfile::TempDir,
}

/// Runs on a thread whose mounts nobody else sees.
fn in_private(work: impl FnOnce(Site) + Send) {
    let inside = || {
        unshare_mounts().unwrap();
        let folder = tempfile::tempdir().unwrap();
        for name in ["lower", "upper", "work", "records", "mounts"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        fs::write(folder.path().join("lower/greeting"), "hello").unwrap();
        let kernel = Arc::new(LinuxKernel::new());
        let helpers = helpers(&kernel, folder.path());
        work(Site { kernel, helpers, folder });
    };
    std::thread::scope(|scope| scope.spawn(inside).join()).unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}

fn helpers(kernel: &Arc<LinuxKernel>, folder: &Path) -> Helpers {
    let launcher = Launcher { program: env!("CARGO_BIN_EXE_volhost-run-helper").into(), args: Vec::new() };
    let records = kernel.open_directory(&folder.join("records")).unwrap();
    Helpers::new(kernel.clone(), launcher, Some(records))
}

fn text(text: &str) -> HelperArgument {
    HelperArgument(vec![HelperPart::Text(text.to_owned())])
}

fn start(program: &str, arguments: Vec<HelperArgument>) -> HelperStart {
    HelperStart {
        name: "test".into(),
        program: program.into(),
        arguments,
        environment: BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]),
        rights: HelperRights { user: 65534, group: 65534, ..HelperRights::default() },
        bounds: HelperBounds { start: PATIENCE, stop: PATIENCE },
        descriptors: Vec::new(),
        default_permissions: true,
        read_only: false,
        label: None,
    }
}

fn shell(script: &str) -> HelperStart {
    start("/bin/sh", vec![text("-c"), text(script)])
}

impl Site {
    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A file system that can be written, as root without its other rights.
    fn cow(&self) -> HelperStart {
        let mut descriptors = Vec::new();
        for name in ["lower", "upper", "work"] {
            let source = self.kernel.open_host_path(&self.at(name), &["/".into()]).unwrap();
            descriptors.push(HelperDescriptor::Source(self.kernel.descriptor(&source).unwrap()));
        }
        let part = |text: &str| HelperPart::Text(text.to_owned());
        let options = vec![
            part("lowerdir="),
            HelperPart::Descriptor(1),
            part(",upperdir="),
            HelperPart::Descriptor(2),
            part(",workdir="),
            HelperPart::Descriptor(3),
        ];
        let mount = HelperArgument(vec![HelperPart::Descriptor(0)]);
        let mut start = start(COW, vec![text("-f"), text("-o"), HelperArgument(options), mount]);
        // chown, dac_override, fowner, fsetid
        start.rights = HelperRights { capabilities: 0b11011, ..HelperRights::default() };
        start.descriptors = descriptors;
        start
    }

    fn mounts(&self) -> Directory {
        self.kernel.open_directory(&self.at("mounts")).unwrap()
    }

    fn attach(&self, served: Served) -> PathBuf {
        self.kernel.attach(served.mount, &self.mounts(), "volume".as_ref()).unwrap();
        self.at("mounts/volume")
    }

    fn detach(&self) {
        self.kernel.detach(&self.mounts(), "volume".as_ref(), Detach::Normal).unwrap();
    }

    /// Sees to its end until it has ended. A process that another test starts has the mount open for a moment, until its program runs.
    fn settle(&self, id: &str) {
        let begun = Instant::now();
        while self.helpers.still_serves(id).is_ok() {
            assert!(begun.elapsed() < PATIENCE, "{id} runs on");
            self.helpers.settle(id);
        }
    }

    /// The process of the one helper on record.
    fn pid(&self) -> Pid {
        let record = fs::read_dir(self.at("records")).unwrap().next().unwrap().unwrap().path();
        let record: serde_json::Value = serde_json::from_str(&fs::read_to_string(record).unwrap()).unwrap();
        Pid::from_raw(record["process"]["pid"].as_i64().unwrap().try_into().unwrap()).unwrap()
    }

    fn refused(&self, start: HelperStart) -> String {
        let error = self.helpers.serve(start).map(|served| served.id).unwrap_err();
        assert!(matches!(error, HelperError::Failed(_)), "{error}");
        self.is_clean();
        error.to_string()
    }

    fn is_clean(&self) {
        let left: Vec<_> = fs::read_dir(self.at("records")).unwrap().collect();
        assert!(self.helpers.running() == 0 && left.is_empty(), "{left:?}");
    }
}

#[test]
fn a_helper_serves_until_nobody_has_its_mount_and_then_ends_by_itself() {
    in_private(|site| {
        let served = site.helpers.serve(site.cow()).unwrap();
        let (id, pid) = (served.id.clone(), site.pid());
        let volume = site.attach(served);
        assert_eq!(fs::read_to_string(volume.join("greeting")).unwrap(), "hello");
        fs::write(volume.join("new"), "written").unwrap();
        assert_eq!(fs::read_to_string(site.at("upper/new")).unwrap(), "written");
        let found = site.kernel.mount_at(&site.mounts(), "volume".as_ref()).unwrap().unwrap();
        assert_eq!((found.fs_type.as_str(), found.source.to_str()), ("fuse.test", Some(id.as_str())));
        for option in ["nosuid", "nodev"] {
            assert!(found.options.iter().any(|word| word == option), "{found:?}");
        }
        // Somebody still has it: nothing happens to it.
        site.helpers.settle(&id);
        site.helpers.still_serves(&id).unwrap();
        test_kill_process(pid).unwrap();
        site.detach();
        site.settle(&id);
        assert!(test_kill_process(pid).is_err(), "it runs on");
        site.is_clean();
    });
}

#[test]
fn what_is_read_only_cannot_be_written_whatever_the_helper_would_do() {
    in_private(|site| {
        let served = site.helpers.serve(HelperStart { read_only: true, ..site.cow() }).unwrap();
        let id = served.id.clone();
        let volume = site.attach(served);
        let error = fs::write(volume.join("new"), "x").unwrap_err();
        assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::ROFS.raw_os_error()));
        site.detach();
        site.settle(&id);
    });
}

#[test]
fn a_mount_that_is_dropped_unseen_ends_its_helper() {
    in_private(|site| {
        let Served { mount, id } = site.helpers.serve(site.cow()).unwrap();
        drop(mount);
        site.settle(&id);
        site.is_clean();
    });
}

#[test]
fn one_that_ends_before_it_serves_is_told_with_its_last_words() {
    in_private(|site| {
        let told = site.refused(shell("echo no such server >&2; exit 7"));
        assert!(told.contains("exit code 7") && told.contains("it said: no such server"), "{told}");
        let told = site.refused(shell("kill -9 $$"));
        assert!(told.contains("signal 9"), "{told}");
    });
}

/// The number of a process ends what was told. Killed with its parent, it dies when it gets to run.
fn wait_for_the_end_of_the_last_one_told(told: &str) {
    let child: i32 = told.rsplit(' ').next().unwrap().parse().unwrap();
    let gone = || fs::read_to_string(format!("/proc/{child}/stat")).map_or(true, |stat| stat.contains(") Z"));
    while !gone() {
        std::thread::yield_now();
    }
}

#[test]
fn one_that_never_serves_is_killed_at_its_deadline_with_its_children() {
    in_private(|site| {
        let stop = Duration::from_millis(100);
        // A busy machine may not have come far at a short deadline.
        let told = [(300, "0.3 s"), (2_000, "2 s"), (30_000, "30 s")].into_iter().find_map(|(start, within)| {
            let bounds = HelperBounds { start: Duration::from_millis(start), stop };
            let told = site.refused(HelperStart { bounds, ..shell("trap '' TERM; sleep 1000 & echo $! >&2; wait") });
            assert!(told.contains(&format!("did not serve within {within}")), "{told}");
            told.contains("it said: ").then_some(told)
        });
        wait_for_the_end_of_the_last_one_told(&told.unwrap());
    });
}

#[test]
fn one_that_leaves_its_work_to_a_child_is_refused() {
    in_private(|site| {
        let told = site.refused(shell("sleep 1000 & echo $! >&2; exit 0"));
        assert!(told.contains("exit code 0") && told.contains("must stay in the foreground"), "{told}");
        wait_for_the_end_of_the_last_one_told(&told);
    });
}

#[test]
fn one_that_writes_without_end_neither_waits_nor_fills_anything() {
    in_private(|site| {
        let told = site.refused(shell("head -c 10000000 /dev/zero | tr '\\0' x >&2; echo; echo the end >&2; exit 3"));
        assert!(told.len() < 2000 && told.contains("exit code 3"), "{} bytes", told.len());
    });
}

#[test]
fn a_helper_has_no_right_and_nothing_of_the_hosts() {
    in_private(|site| {
        let words = |script: &str| site.refused(shell(&format!("{{ {script}; }} >&2; exit 1")));
        let told = words("grep -E '^(Uid|Gid|Groups|CapBnd|CapPrm|CapEff|NoNewPrivs):' /proc/self/status");
        for word in ["Uid:65534655346553465534", "CapBnd:0000000000000000", "CapEff:0000000000000000", "NoNewPrivs:1"] {
            let told: String = told.chars().filter(|c| !c.is_whitespace()).collect();
            assert!(told.contains(word), "{word}: {told}");
        }
        let told = words("ls /proc/self/fd | tr '\\n' ' '");
        assert!(told.ends_with("it said: 0 1 2 3 4"), "its outputs, the connection, and the folder it lists: {told}");
        let told = words("env | sort | tr '\\n' ' '");
        assert!(told.ends_with("it said: PATH=/usr/bin:/bin PWD=/"), "{told}");
    });
}

#[test]
fn a_helper_and_its_children_make_and_enter_no_namespace() {
    in_private(|site| {
        let script = "for kind in user mount net pid ipc uts cgroup; do
                          unshare --map-root-user --$kind true 2>/dev/null && echo made-$kind
                          sh -c \"unshare --user --$kind true\" 2>/dev/null && echo child-made-$kind
                      done
                      nsenter --uts=/proc/self/ns/uts true 2>/dev/null && echo entered
                      unshare --user true 2>&1
                      echo the end";
        let told = site.refused(shell(&format!("{{ {script}; }} >&2; exit 1")));
        assert!(told.contains("the end") && told.contains("Operation not permitted"), "{told}");
        assert!(!told.contains("made-") && !told.contains("entered"), "{told}");
    });
}

#[test]
fn a_secret_is_read_by_the_helper_and_told_to_nobody() {
    in_private(|site| {
        let script = "cat \"$1\" >&2; stat -L -c ' %a %u' \"$1\" >&2; cat \"$1\" | wc -c >&2; exit 1";
        let secret = HelperArgument(vec![HelperPart::Descriptor(1)]);
        let mut start = start("/bin/sh", vec![text("-c"), text(script), text("sh"), secret]);
        start.descriptors = vec![HelperDescriptor::Secret(b"hunter2hunter2"[..].into())];
        let told = site.refused(start);
        assert!(told.contains("(secret)") && !told.contains("hunter2"), "{told}");
        assert!(told.contains("400 65534") && told.contains("14"), "{told}");
    });
}

#[test]
fn one_that_is_killed_is_heard_of_and_its_users_are_not_kept_waiting() {
    in_private(|site| {
        let (ended, endings) = channel();
        site.helpers.on_end(move |helper| drop(ended.send(helper)));
        let served = site.helpers.serve(site.cow()).unwrap();
        let id = served.id.clone();
        let volume = site.attach(served);
        kill_process(site.pid(), Signal::KILL).unwrap();
        let helper = endings.recv_timeout(PATIENCE).unwrap();
        assert_eq!(helper.id, id);
        assert!(helper.why.contains("signal 9"), "{}", helper.why);
        let error = fs::read_dir(&volume).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::NOTCONN.raw_os_error()));
        site.detach();
    });
}

#[test]
fn one_that_is_stopped_is_ended_once_nobody_has_its_mount() {
    in_private(|site| {
        let bounds = HelperBounds { start: PATIENCE, stop: Duration::from_millis(100) };
        let served = site.helpers.serve(HelperStart { bounds, ..site.cow() }).unwrap();
        let id = served.id.clone();
        site.attach(served);
        let pid = site.pid();
        kill_process_group(pid, Signal::STOP).unwrap();
        site.detach();
        site.settle(&id);
        assert!(test_kill_process(pid).is_err(), "it is stopped still");
        site.is_clean();
    });
}

#[test]
fn whoever_comes_later_finds_those_that_run_and_hears_of_those_that_do_not() {
    in_private(|site| {
        let served = site.helpers.serve(site.cow()).unwrap();
        let id = served.id.clone();
        site.attach(served);
        let pid = site.pid();
        // As a crash leaves it: told to begin it was not.
        let never = "{\"id\":\"never\",\"name\":\"n\",\"program\":\"/p\",\"connection\":1,\"process\":null,\"bounds\":{\"start\":{\"secs\":1,\"nanos\":0},\"stop\":{\"secs\":1,\"nanos\":0}}}";
        fs::write(site.at("records/never.json"), never).unwrap();
        // And a number that another process has by now.
        let other = never.replace("never", "other").replace("null", "{\"pid\":1,\"started\":3}");
        fs::write(site.at("records/other.json"), other).unwrap();
        fs::write(site.at("records/broken.json"), "{").unwrap();

        let later = helpers(&site.kernel, site.folder.path());
        let (ended, endings) = channel();
        later.resume();
        later.on_end(move |helper| drop(ended.send(helper.id)));
        assert_eq!(later.running(), 1);
        later.still_serves(&id).unwrap();
        let mut gone = [endings.recv_timeout(PATIENCE).unwrap(), endings.recv_timeout(PATIENCE).unwrap()];
        gone.sort();
        assert_eq!(gone, ["never", "other"]);
        kill_process(pid, Signal::KILL).unwrap();
        assert_eq!(endings.recv_timeout(PATIENCE).unwrap(), id);
        assert_eq!(later.running(), 0);
        site.detach();
    });
}

#[test]
fn a_program_that_is_not_there_is_named_and_nothing_is_made() {
    in_private(|site| {
        let error = site.helpers.serve(start("/nowhere/fs", Vec::new())).map(|served| served.id).unwrap_err();
        assert!(matches!(&error, HelperError::Unusable(text) if text.contains("/nowhere/fs")), "{error}");
        site.is_clean();
    });
}
