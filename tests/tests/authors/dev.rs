//! `volhost plugin dev`: what an author sees from save to save.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};

use volhost_tests::artifacts;
use volhost_tests::wait::eventually;

use super::plugin_author::Desk;

/// A running `volhost plugin dev`.
struct Dev {
    child: Child,
    /// All that it has printed, on both streams.
    printed: Arc<Mutex<String>>,
    /// How much of it the test has read.
    read: usize,
    /// Where it makes temporary folders.
    temporary: tempfile::TempDir,
}

impl Dev {
    fn start(desk: &Desk, folder: &Path, words: &[&str]) -> Self {
        let temporary = tempfile::tempdir().unwrap();
        let mut command = desk.command(folder, artifacts::volhost(), &["plugin", "dev"]);
        command.args(words).env("TMPDIR", temporary.path()).stdin(Stdio::null());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let printed = Arc::new(Mutex::new(String::new()));
        collect(child.stdout.take().unwrap(), &printed);
        collect(child.stderr.take().unwrap(), &printed);
        Self { child, printed, read: 0, temporary }
    }

    /// Waits until it has printed this after what was awaited before, and returns the text up to
    /// there.
    fn says(&mut self, words: &str) -> String {
        let find = || self.printed.lock().unwrap()[self.read..].find(words);
        let is_found = eventually(|| find().is_some());
        let printed = self.printed.lock().unwrap()[self.read..].to_owned();
        assert!(is_found, "{words:?} is not printed: {printed}");
        let end = printed.find(words).unwrap() + words.len();
        self.read += end;
        printed[..end].to_owned()
    }

    /// Where the volume is mounted, by the line that says so.
    fn volume(&mut self) -> PathBuf {
        self.says("the volume is mounted");
        self.says(" at ");
        PathBuf::from(self.says("\n").trim())
    }

    /// The processes that it has started for its folder, its daemon among them.
    fn processes(&self) -> usize {
        let folder = self.temporary.path().to_str().unwrap();
        let words = fs::read_dir("/proc").unwrap().flatten().map(|entry| fs::read(entry.path().join("cmdline")));
        words.flatten().filter(|words| String::from_utf8_lossy(words).contains(folder)).count()
    }

    fn is_mounted(&self, volume: &Path) -> bool {
        let mounts = fs::read_to_string(format!("/proc/{}/mountinfo", self.child.id())).unwrap();
        mounts.lines().any(|line| line.split(' ').nth(4) == volume.to_str())
    }

    /// Presses Ctrl-C.
    fn interrupt(self) -> ExitStatus {
        assert!(self.processes() > 0, "the daemon's arguments name the folder");
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
        self.wait()
    }

    /// Waits for the end, and checks that nothing is left.
    fn wait(mut self) -> ExitStatus {
        let status = self.child.wait().unwrap();
        let left: Vec<_> = fs::read_dir(self.temporary.path()).unwrap().flatten().map(|entry| entry.path()).collect();
        assert!(left.is_empty(), "{left:?}: {}", self.printed.lock().unwrap());
        assert_eq!(self.processes(), 0, "a process is left");
        status
    }
}

fn collect(mut from: impl Read + Send + 'static, into: &Arc<Mutex<String>>) {
    let into = Arc::clone(into);
    std::thread::spawn(move || {
        let mut part = [0; 4096];
        while let Ok(length @ 1..) = from.read(&mut part) {
            into.lock().unwrap().push_str(&String::from_utf8_lossy(&part[..length]));
        }
    });
}

#[test]
fn a_plugin_is_edited_broken_and_repaired_under_a_mounted_volume() {
    let desk = Desk::new();
    let folder = desk.new_plugin(&["acme.org/edited"]);
    let source = folder.join("src/lib.rs");
    let good = fs::read_to_string(&source).unwrap();
    let save = |from: &str, to: &str| {
        assert!(good.contains(from));
        fs::write(&source, good.replace(from, to)).unwrap();
    };
    let mut dev = Dev::start(&desk, &folder, &[]);
    dev.says("swapped to sha256:");
    let volume = dev.volume();
    assert!(dev.is_mounted(&volume));
    dev.says(" passed, 0 failed");

    // It does not compile: the compiler's own words, and the plugin before it still serves.
    save("target.attach(mount)", "target.attach(mount");
    let printed = dev.says("the plugin built before keeps serving");
    assert!(printed.contains("src/lib.rs:") && printed.contains("unclosed delimiter"), "{printed}");

    // It breaks the contract: the case and its sentence.
    save("if volume.read_only() {", "if true {");
    dev.says("swapped to sha256:");
    dev.says("; the volume stays mounted");
    let printed = dev.says("\nconformance: ");
    assert!(printed.contains("FAILED          publish/is-mounted\n    contract M1: "), "{printed}");
    assert!(dev.is_mounted(&volume));

    // The daemon refuses it: its reason, with the way out.
    save(".serves(\"edited\")", ".serves(\"nfs\")");
    let printed = dev.says("the plugin before it keeps serving: ");
    assert!(printed.contains("refused by the daemon"), "{printed}");

    fs::write(&source, &good).unwrap();
    dev.says("; the volume stays mounted");
    dev.says(" passed, 0 failed");
    // An editor that saves the same text again.
    fs::write(&source, &good).unwrap();
    assert!(dev.is_mounted(&volume));
    assert!(dev.interrupt().success());
}

#[test]
fn with_remount_each_plugin_mounts_the_volume_anew_and_a_command_ends_it() {
    let desk = Desk::new();
    let folder = desk.new_plugin(&["acme.org/remounted"]);
    let script = "\
        until findmnt -no OPTIONS -T \"$VOLUME\" | grep mode=777; do :; done\n\
        sed -i s/0o777/0o750/ src/lib.rs\n\
        until findmnt -no OPTIONS -T \"$VOLUME\" | grep mode=750; do :; done\n\
        until [ -e .seen ]; do :; done\n\
        exit 7";
    let mut dev = Dev::start(&desk, &folder, &["--remount", "--no-conformance", "--", "sh", "-c", script]);
    let volume = dev.volume();
    dev.says("the volume is mounted again");
    fs::write(folder.join(".seen"), "").unwrap();
    dev.says("no volume is left on this node");
    assert!(!volume.exists());
    assert_eq!(dev.wait().code(), Some(1), "the command's failure is reported");
}

#[test]
fn a_build_of_another_language_runs_once_at_a_time_and_of_the_newest_save() {
    let desk = Desk::new();
    let folder = desk.path().join("other");
    fs::create_dir(&folder).unwrap();
    let log = desk.path().join("log");
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: try}\nspec:\n  containers: [{name: c, image: i, volumeMounts: [{name: a, mountPath: /a}]}]\n  volumes: [{name: a, emptyDir: {}}]\n";
    fs::write(folder.join("volume.yaml"), pod).unwrap();
    fs::write(folder.join("source"), "0\n").unwrap();
    // Fails if another is running.
    let build = format!(
        "mkdir ../lock || exit 9; cat source >> {}; cp {} out.wasm && rmdir ../lock",
        log.display(),
        artifacts::plugin("empty-dir").display()
    );
    let words = ["--build", &build, "--out", "out.wasm", "--no-conformance", "--no-shell"];
    let mut dev = Dev::start(&desk, &folder, &words);
    dev.volume();
    for save in 1..=50 {
        fs::write(folder.join("source"), format!("{save}\n")).unwrap();
    }
    assert!(eventually(|| fs::read_to_string(&log).unwrap().ends_with("\n50\n")), "the newest save is not built");
    dev.says("unchanged; the volume stays mounted");
    let builds = fs::read_to_string(&log).unwrap();
    assert!(builds.lines().count() < 50, "each save was built: {builds}");
    fs::write(folder.join("source"), "end\n").unwrap();
    assert!(eventually(|| fs::read_to_string(&log).unwrap().ends_with("\nend\n")));
    assert!(!dev.printed.lock().unwrap().contains("failed"), "{}", dev.printed.lock().unwrap());
    assert!(dev.interrupt().success());
}
