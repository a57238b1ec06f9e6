//! FUSE servers on the real kernel, each test in a mount namespace of its own.
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
use volhost_fuse_servers::FuseServerProcesses;
use volhost_kernel::namespace::unshare_mounts;
use volhost_kernel::{Detach, Directory, FuseMounts, Kernel, LinuxKernel};
use volhost_process::{Launcher, linux_kernel};
use volhost_runtime::{
    FuseServerArgument, FuseServerBounds, FuseServerDescriptor, FuseServerError, FuseServerPart, FuseServerRights,
    FuseServerStart, FuseServers, Served, SettledServer,
};

/// Longer than anything takes on a machine that has much else to do.
const TIMEOUT: Duration = Duration::from_secs(180);
const COW: &str = "/usr/bin/fuse-overlayfs";

/// A folder to work in, and the FUSE servers of a node.
struct Site {
    kernel: Arc<LinuxKernel>,
    servers: FuseServerProcesses,
    folder: tempfile::TempDir,
}

/// Runs on a thread with a mount namespace of its own.
fn in_private(work: impl FnOnce(Site) + Send) {
    let inside = || {
        unshare_mounts().unwrap();
        let folder = tempfile::tempdir().unwrap();
        for name in ["lower", "upper", "work", "records", "mounts"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        fs::write(folder.path().join("lower/greeting"), "hello").unwrap();
        let kernel = Arc::new(linux_kernel());
        let servers = servers(&kernel, folder.path());
        work(Site { kernel, servers, folder });
    };
    std::thread::scope(|scope| scope.spawn(inside).join()).unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}

fn servers(kernel: &Arc<LinuxKernel>, folder: &Path) -> FuseServerProcesses {
    let launcher = Launcher::new(env!("CARGO_BIN_EXE_volhost-run-program"), []);
    let records = kernel.open_directory(&folder.join("records")).unwrap();
    FuseServerProcesses::new(kernel.clone(), launcher, Some(records))
}

fn text(text: &str) -> FuseServerArgument {
    FuseServerArgument(vec![FuseServerPart::Text(text.to_owned())])
}

fn start(program: &str, arguments: Vec<FuseServerArgument>) -> FuseServerStart {
    FuseServerStart {
        name: "test".into(),
        program: program.into(),
        arguments,
        environment: BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]),
        rights: FuseServerRights { user: 65534, group: 65534, ..FuseServerRights::default() },
        bounds: FuseServerBounds { start: TIMEOUT, stop: TIMEOUT },
        descriptors: Vec::new(),
        secrets: Vec::new(),
        default_permissions: true,
        read_only: false,
        label: None,
    }
}

fn shell(script: &str) -> FuseServerStart {
    start("/bin/sh", vec![text("-c"), text(script)])
}

impl Site {
    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A file system that can be written, as root without its other rights.
    fn cow(&self) -> FuseServerStart {
        let mut descriptors = Vec::new();
        for name in ["lower", "upper", "work"] {
            let source = self.kernel.open_host_path(&self.at(name), &["/".into()]).unwrap();
            descriptors.push(FuseServerDescriptor::Source(self.kernel.descriptor(&source).unwrap()));
        }
        let part = |text: &str| FuseServerPart::Text(text.to_owned());
        let options = vec![
            part("lowerdir="),
            FuseServerPart::Descriptor(1),
            part(",upperdir="),
            FuseServerPart::Descriptor(2),
            part(",workdir="),
            FuseServerPart::Descriptor(3),
        ];
        let mount = FuseServerArgument(vec![FuseServerPart::Descriptor(0)]);
        let mut start = start(COW, vec![text("-f"), text("-o"), FuseServerArgument(options), mount]);
        // chown, dac_override, fowner, fsetid
        start.rights = FuseServerRights { capabilities: 0b11011, ..FuseServerRights::default() };
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

    /// Settles a server until it has ended. A child that another test starts has the mount open for
    /// a moment, until its program runs.
    fn settle(&self, id: &str) {
        let begun = Instant::now();
        while self.servers.still_serves(id).is_ok() {
            assert!(begun.elapsed() < TIMEOUT, "{id} runs on");
            self.servers.settle(id);
        }
    }

    /// The process of the one server on record.
    fn pid(&self) -> Pid {
        let record = fs::read_dir(self.at("records")).unwrap().next().unwrap().unwrap().path();
        let record: serde_json::Value = serde_json::from_str(&fs::read_to_string(record).unwrap()).unwrap();
        Pid::from_raw(record["process"]["pid"].as_i64().unwrap().try_into().unwrap()).unwrap()
    }

    /// Serves, unmounts, and settles once no process has the mount any more.
    fn end_of(&self, start: FuseServerStart) -> SettledServer {
        let served = self.servers.serve(start).unwrap();
        let id = served.id.clone();
        self.attach(served);
        self.detach();
        loop {
            match self.servers.settle(&id) {
                // A child that another test starts has the mount open, until its program runs.
                SettledServer::Runs => std::thread::yield_now(),
                settled => return settled,
            }
        }
    }

    /// The server of [`Self::cow`], by a shell that does something else after it.
    fn cow_and_then(&self, script: &str) -> FuseServerStart {
        let mut start = self.cow();
        let words = std::mem::take(&mut start.arguments);
        start.arguments = vec![text("-c"), text(&format!("{COW} \"$@\"; {script}")), text("sh")];
        start.arguments.extend(words);
        start.program = "/bin/sh".into();
        start
    }

    fn refused(&self, start: FuseServerStart) -> String {
        let error = self.servers.serve(start).map(|served| served.id).unwrap_err();
        assert!(matches!(error, FuseServerError::Failed(_)), "{error}");
        self.is_clean();
        error.to_string()
    }

    fn is_clean(&self) {
        let left: Vec<_> = fs::read_dir(self.at("records")).unwrap().collect();
        assert!(self.servers.running() == 0 && left.is_empty(), "{left:?}");
    }
}

#[test]
fn a_server_runs_until_it_is_unmounted_and_then_ends_by_itself() {
    in_private(|site| {
        let served = site.servers.serve(site.cow()).unwrap();
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
        // It is still mounted, and runs on.
        site.servers.settle(&id);
        site.servers.still_serves(&id).unwrap();
        test_kill_process(pid).unwrap();
        site.detach();
        site.settle(&id);
        assert!(test_kill_process(pid).is_err(), "it runs on");
        site.is_clean();
    });
}

#[test]
fn a_read_only_mount_cannot_be_written_whatever_the_server_allows() {
    in_private(|site| {
        let served = site.servers.serve(FuseServerStart { read_only: true, ..site.cow() }).unwrap();
        let id = served.id.clone();
        let volume = site.attach(served);
        let error = fs::write(volume.join("new"), "x").unwrap_err();
        assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::ROFS.raw_os_error()));
        site.detach();
        site.settle(&id);
    });
}

#[test]
fn a_detached_mount_that_is_dropped_ends_its_server() {
    in_private(|site| {
        let Served { mount, id } = site.servers.serve(site.cow()).unwrap();
        drop(mount);
        site.settle(&id);
        site.is_clean();
    });
}

#[test]
fn a_server_that_ends_before_it_serves_is_reported_with_its_last_output() {
    in_private(|site| {
        let message = site.refused(shell("echo no such server >&2; exit 7"));
        assert!(message.contains("exit code 7") && message.contains("it said: no such server"), "{message}");
        let message = site.refused(shell("kill -9 $$"));
        assert!(message.contains("signal 9"), "{message}");
    });
}

/// A message ends with the id of a process. Killed with its parent, it dies when it gets to run.
fn wait_for_the_end_of_the_child_in(message: &str) {
    let child: i32 = message.rsplit(' ').next().unwrap().parse().unwrap();
    let gone = || fs::read_to_string(format!("/proc/{child}/stat")).map_or(true, |stat| stat.contains(") Z"));
    while !gone() {
        std::thread::yield_now();
    }
}

#[test]
fn a_server_that_never_serves_is_killed_at_its_deadline_with_its_children() {
    in_private(|site| {
        let stop = Duration::from_millis(100);
        // A busy machine may not have come far at a short deadline.
        let message = [(300, "0.3 s"), (2_000, "2 s"), (30_000, "30 s")].into_iter().find_map(|(start, within)| {
            let bounds = FuseServerBounds { start: Duration::from_millis(start), stop };
            let message =
                site.refused(FuseServerStart { bounds, ..shell("trap '' TERM; sleep 1000 & echo $! >&2; wait") });
            assert!(message.contains(&format!("did not serve within {within}")), "{message}");
            message.contains("it said: ").then_some(message)
        });
        wait_for_the_end_of_the_child_in(&message.unwrap());
    });
}

#[test]
fn a_server_that_leaves_its_work_to_a_child_is_refused() {
    in_private(|site| {
        let message = site.refused(shell("sleep 1000 & echo $! >&2; exit 0"));
        assert!(message.contains("exit code 0") && message.contains("must stay in the foreground"), "{message}");
        wait_for_the_end_of_the_child_in(&message);
    });
}

#[test]
fn a_server_that_writes_without_end_neither_waits_nor_fills_memory() {
    in_private(|site| {
        let message =
            site.refused(shell("head -c 10000000 /dev/zero | tr '\\0' x >&2; echo; echo the end >&2; exit 3"));
        assert!(message.len() < 2000 && message.contains("exit code 3"), "{} bytes", message.len());
    });
}

#[test]
fn a_server_has_no_privilege_and_nothing_of_the_hosts() {
    in_private(|site| {
        let words = |script: &str| site.refused(shell(&format!("{{ {script}; }} >&2; exit 1")));
        let message = words("grep -E '^(Uid|Gid|Groups|CapBnd|CapPrm|CapEff|NoNewPrivs):' /proc/self/status");
        for word in ["Uid:65534655346553465534", "CapBnd:0000000000000000", "CapEff:0000000000000000", "NoNewPrivs:1"] {
            let message: String = message.chars().filter(|c| !c.is_whitespace()).collect();
            assert!(message.contains(word), "{word}: {message}");
        }
        let message = words("ls /proc/self/fd | tr '\\n' ' '");
        assert!(
            message.ends_with("it said: 0 1 2 3 4"),
            "its outputs, the connection, and the folder it lists: {message}"
        );
        let message = words("env | sort | tr '\\n' ' '");
        assert!(message.ends_with("it said: PATH=/usr/bin:/bin PWD=/"), "{message}");
    });
}

#[test]
fn a_server_and_its_children_make_and_enter_no_namespace() {
    in_private(|site| {
        let script = "for kind in user mount net pid ipc uts cgroup; do
                          unshare --map-root-user --$kind true 2>/dev/null && echo made-$kind
                          sh -c \"unshare --user --$kind true\" 2>/dev/null && echo child-made-$kind
                      done
                      nsenter --uts=/proc/self/ns/uts true 2>/dev/null && echo entered
                      unshare --user true 2>&1
                      echo the end";
        let message = site.refused(shell(&format!("{{ {script}; }} >&2; exit 1")));
        assert!(message.contains("the end") && message.contains("Operation not permitted"), "{message}");
        assert!(!message.contains("made-") && !message.contains("entered"), "{message}");
    });
}

#[test]
fn a_secret_reaches_the_server_and_no_message() {
    in_private(|site| {
        let script = "cat \"$1\" >&2; stat -L -c ' %a %u' \"$1\" >&2; cat \"$1\" | wc -c >&2; exit 1";
        let secret = FuseServerArgument(vec![FuseServerPart::Descriptor(1)]);
        let mut start = start("/bin/sh", vec![text("-c"), text(script), text("sh"), secret]);
        // A part of a file of the host's, as a password in a configuration.
        start.descriptors = vec![FuseServerDescriptor::Secret(b"pw=hunter2hunter2"[..].into())];
        start.secrets = vec![b"hunter2hunter2"[..].into()];
        let message = site.refused(start);
        assert!(message.contains("(secret)") && !message.contains("hunter2"), "{message}");
        assert!(message.contains("400 65534") && message.contains("17"), "{message}");
    });
}

#[test]
fn a_killed_server_is_reported_and_its_users_do_not_wait() {
    in_private(|site| {
        let (ended, endings) = channel();
        site.servers.on_end(move |server| drop(ended.send(server)));
        let served = site.servers.serve(site.cow()).unwrap();
        let id = served.id.clone();
        let volume = site.attach(served);
        kill_process(site.pid(), Signal::KILL).unwrap();
        let server = endings.recv_timeout(TIMEOUT).unwrap();
        assert_eq!(server.id, id);
        assert!(server.why.contains("signal 9"), "{}", server.why);
        let error = fs::read_dir(&volume).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::NOTCONN.raw_os_error()));
        site.detach();
    });
}

#[test]
fn a_stopped_server_is_killed_once_it_is_unmounted() {
    in_private(|site| {
        let bounds = FuseServerBounds { start: TIMEOUT, stop: Duration::from_millis(100) };
        let served = site.servers.serve(FuseServerStart { bounds, ..site.cow() }).unwrap();
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
fn a_stopped_server_is_ended_when_the_last_user_of_its_lazily_unmounted_file_system_goes() {
    in_private(|site| {
        let bounds = FuseServerBounds { start: TIMEOUT, stop: Duration::from_millis(100) };
        let served = site.servers.serve(FuseServerStart { bounds, ..site.cow() }).unwrap();
        let volume = site.attach(served);
        let (ended, endings) = channel();
        site.servers.on_end(move |server| drop(ended.send(server)));
        let user = fs::File::open(&volume).unwrap();
        let pid = site.pid();
        kill_process_group(pid, Signal::STOP).unwrap();
        site.kernel.detach(&site.mounts(), "volume".as_ref(), Detach::Lazy).unwrap();
        site.servers.settle_every(Duration::from_millis(50)).unwrap();
        site.servers.settle_all();
        test_kill_process(pid).unwrap();
        // From here on nothing is called and no mount changes.
        drop(user);
        let server = endings.recv_timeout(TIMEOUT).unwrap();
        assert!(server.why.contains("signal 9"), "{}", server.why);
        site.is_clean();
    });
}

#[test]
fn the_next_run_adopts_the_servers_that_run_and_reports_those_that_do_not() {
    in_private(|site| {
        let served = site.servers.serve(site.cow()).unwrap();
        let id = served.id.clone();
        site.attach(served);
        let pid = site.pid();
        // As a crash leaves it: nothing was written to the launcher.
        let never = "{\"id\":\"never\",\"name\":\"n\",\"program\":\"/p\",\"connection\":1,\"process\":null,\"bounds\":{\"start\":{\"secs\":1,\"nanos\":0},\"stop\":{\"secs\":1,\"nanos\":0}}}";
        fs::write(site.at("records/never.json"), never).unwrap();
        // And an id that another process has by now.
        let other = never.replace("never", "other").replace("null", "{\"pid\":1,\"started\":3}");
        fs::write(site.at("records/other.json"), other).unwrap();
        fs::write(site.at("records/broken.json"), "{").unwrap();

        let later = servers(&site.kernel, site.folder.path());
        let (ended, endings) = channel();
        later.adopt();
        later.on_end(move |server| drop(ended.send(server.id)));
        assert_eq!(later.running(), 1);
        later.still_serves(&id).unwrap();
        let mut gone = [endings.recv_timeout(TIMEOUT).unwrap(), endings.recv_timeout(TIMEOUT).unwrap()];
        gone.sort();
        assert_eq!(gone, ["never", "other"]);
        kill_process(pid, Signal::KILL).unwrap();
        assert_eq!(endings.recv_timeout(TIMEOUT).unwrap(), id);
        assert_eq!(later.running(), 0);
        site.detach();
    });
}

#[test]
fn settling_waits_until_the_server_has_written_out_what_it_has() {
    in_private(|site| {
        let out = site.at("upper/late");
        let late = format!("sleep 1; echo late >{}", out.display());
        assert_eq!(site.end_of(site.cow_and_then(&late)), SettledServer::Ended);
        assert_eq!(fs::read_to_string(out).unwrap(), "late\n");
        site.is_clean();
    });
}

#[test]
fn a_server_that_ends_with_an_error_or_not_by_itself_may_have_lost_what_was_written() {
    in_private(|site| {
        let SettledServer::Failed(why) = site.end_of(site.cow_and_then("echo no space left >&2; exit 5")) else {
            panic!("its error is not reported");
        };
        assert!(why.contains("FUSE server test (/bin/sh)") && why.contains("exit code 5"), "{why}");
        assert!(why.contains("it said: ") && why.ends_with("no space left"), "{why}");
        let bounds = FuseServerBounds { start: TIMEOUT, stop: Duration::from_millis(100) };
        let slow = FuseServerStart { bounds, ..site.cow_and_then("sleep 1000") };
        let SettledServer::Failed(why) = site.end_of(slow) else { panic!("it was not killed") };
        assert!(why.contains("did not end by itself within 0.1 s of its unmount"), "{why}");
        site.is_clean();
    });
}

#[test]
fn a_missing_program_is_named_and_nothing_is_made() {
    in_private(|site| {
        let error = site.servers.serve(start("/nowhere/fs", Vec::new())).map(|served| served.id).unwrap_err();
        assert!(matches!(&error, FuseServerError::Unusable(text) if text.contains("/nowhere/fs")), "{error}");
        site.is_clean();
    });
}
