//! The commands of a plugin author: `plugin new`, `cargo test`, `plugin build`, `plugin run`. The
//! crates are really written and compiled, and their volumes mounted.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use volhost_tests::artifacts;
use volhost_tests::node::Node;
use volhost_tests::wait::eventually;

/// A folder for a new crate, with the lock file of this workspace, so that no version is resolved.
pub(super) struct Desk(tempfile::TempDir);

impl Desk {
    pub(super) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(super) fn path(&self) -> &Path {
        self.0.path()
    }

    /// A command in this folder. It builds into the target folder of this test, where its
    /// dependencies may be compiled already.
    pub(super) fn command(&self, folder: &Path, program: impl AsRef<std::ffi::OsStr>, words: &[&str]) -> Command {
        let mut command = Command::new(program);
        // The variables that cargo sets for this test do not concern the new crate.
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("CARGO_")) {
            if name != "CARGO_HOME" && name != "CARGO_NET_OFFLINE" {
                command.env_remove(name);
            }
        }
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
        command.args(words).current_dir(folder).env("CARGO_TARGET_DIR", target).env_remove("RUSTFLAGS");
        command
    }

    /// Runs such a command.
    fn run(&self, folder: &Path, program: impl AsRef<std::ffi::OsStr>, words: &[&str]) -> Output {
        self.command(folder, program, words).output().unwrap()
    }

    fn volhost(&self, folder: &Path, words: &[&str]) -> String {
        said(self.run(folder, artifacts::volhost(), words))
    }

    /// Writes a crate that uses the SDK of the checkout, and returns its folder.
    pub(super) fn new_plugin(&self, words: &[&str]) -> PathBuf {
        self.new_plugin_with(&artifacts::workspace().join("plugin-sdk"), words)
    }

    /// Writes such a crate, and returns the text of its Cargo.toml.
    fn new_plugin_text(&self, words: &[&str]) -> String {
        std::fs::read_to_string(self.new_plugin(words).join("Cargo.toml")).unwrap()
    }

    /// Packs the SDK as crates.io gets it, and returns the folder of what authors get from there.
    fn published_sdk(&self) -> PathBuf {
        let packed = self.path().join("packed");
        let words =
            ["package", "--offline", "--locked", "--no-verify", "--allow-dirty", "--package", "volhost-plugin-sdk"];
        let target = ["--target-dir", packed.to_str().unwrap()];
        said(self.run(&artifacts::workspace(), "cargo", &[&words[..], &target].concat()));
        let packages = packed.join("package");
        let mut files = std::fs::read_dir(&packages).unwrap().map(|file| file.unwrap().path());
        let package = files.find(|path| path.extension().is_some_and(|ending| ending == "crate")).unwrap();
        said(self.run(&packages, "tar", &["-xzf", package.to_str().unwrap()]));
        package.with_extension("")
    }

    fn new_plugin_with(&self, sdk: &Path, words: &[&str]) -> PathBuf {
        let folder = self.path().join("crate");
        let mut all = vec!["plugin", "new", "--sdk", sdk.to_str().unwrap(), "--path", folder.to_str().unwrap()];
        all.extend(words);
        let printed = self.volhost(self.path(), &all);
        assert!(printed.contains("Cargo.toml") && printed.contains("Next:"), "{printed}");
        std::fs::copy(artifacts::workspace().join("Cargo.lock"), folder.join("Cargo.lock")).unwrap();
        folder
    }

    /// Checks the component against the contract, with the crate's own case file.
    fn conform(&self, folder: &Path, component: &Path) {
        let words = ["conformance", component.to_str().unwrap(), "--config", "conformance.yaml"];
        let printed = self.volhost(folder, &words);
        assert!(printed.contains(" 0 failed"), "{printed}");
    }

    /// Its own tests, its component.
    fn test_and_build(&self, folder: &Path) -> PathBuf {
        let tested = said(self.run(folder, "cargo", &["test", "--lib"]));
        assert!(tested.contains("test result: ok") && !tested.contains("running 0 tests"), "{tested}");
        let out = self.path().join("out");
        let built = self.volhost(folder, &["plugin", "build", "--out", out.to_str().unwrap()]);
        assert!(built.contains("exports:      "), "{built}");
        let component = std::fs::read_dir(&out).unwrap().next().unwrap().unwrap().path();
        assert!(built.contains(component.to_str().unwrap()), "{built}");
        component
    }
}

fn said(output: Output) -> String {
    let (out, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}\n{out}\n{errors}", output.status);
    out.into_owned()
}

#[test]
fn a_plugin_from_the_smallest_template_works_unchanged_with_the_published_sdk() {
    let desk = Desk::new();
    let folder = desk.new_plugin_with(&desk.published_sdk(), &["acme.org/scratch-pad"]);
    let component = desk.test_and_build(&folder);
    assert_eq!(component.file_name().unwrap(), "scratch-pad.wasm");
    desk.conform(&folder, &component);
    let words = [
        "plugin",
        "run",
        component.to_str().unwrap(),
        "--",
        "sh",
        "-c",
        "findmnt -n -o FSTYPE,SIZE -T \"$VOLUME\" && pwd",
    ];
    let printed = desk.volhost(&folder, &words);
    assert!(printed.contains("tmpfs") && printed.contains("64M"), "{printed}");
    assert!(printed.contains("/volumes/acme.org~scratch-pad/work\n"), "the command runs in the volume: {printed}");
    assert!(printed.contains("no volume is left on this node"), "{printed}");
}

#[test]
fn a_plugin_from_the_block_template_attaches_formats_mounts_and_unmounts() {
    let desk = Desk::new();
    let folder = desk.new_plugin(&["acme.org/disks", "--template", "block"]);
    let component = desk.test_and_build(&folder);
    desk.conform(&folder, &component);
    let words = ["plugin", "run", component.to_str().unwrap(), "--", "findmnt", "-n", "-o", "FSTYPE,SOURCE", "-T", "."];
    let printed = desk.volhost(&folder, &words);
    assert!(printed.contains("ext4") && printed.contains("/dev/loop"), "{printed}");
    assert!(printed.contains("no volume is left on this node"), "{printed}");
}

#[test]
fn a_plugin_from_the_fuse_template_serves_what_can_be_written() {
    let desk = Desk::new();
    let folder = desk.new_plugin(&["acme.org/copies", "--template", "fuse"]);
    let component = desk.test_and_build(&folder);
    desk.conform(&folder, &component);
    let script = "findmnt -n -o FSTYPE -T . && echo written > new && cat new";
    let printed = desk.volhost(&folder, &["plugin", "run", component.to_str().unwrap(), "--", "sh", "-c", script]);
    assert!(printed.contains("fuse.cow\nwritten\n"), "{printed}");
    assert!(printed.contains("no volume is left on this node"), "{printed}");
}

#[test]
fn a_plugin_from_the_network_template_passes_conformance_over_a_real_ssh() {
    let desk = Desk::new();
    let folder = desk.new_plugin(&["acme.org/files", "--template", "network"]);
    let component = desk.test_and_build(&folder);
    desk.conform(&folder, &component);
    let inspected =
        desk.volhost(&folder, &["plugin", "inspect", component.to_str().unwrap(), "--config", "volhost.toml"]);
    for word in ["fuse-servers", "secrets", "stager"] {
        assert!(inspected.contains(word), "{word}: {inspected}");
    }
    assert!(!inspected.contains("Not granted: f"), "{inspected}");
}

#[test]
fn one_command_runs_all_of_an_authors_tests() {
    let desk = Desk::new();
    let folder = desk.new_plugin(&["acme.org/tested"]);
    let printed = desk.volhost(&folder, &["plugin", "test"]);
    assert!(printed.contains("test result: ok") && printed.contains("0 failed"), "{printed}");

    // A plugin that is broken in one place: its own tests do not see it, the contract does.
    let source = folder.join("src/lib.rs");
    let text = std::fs::read_to_string(&source).unwrap();
    std::fs::write(&source, text.replace("if volume.read_only() {", "if true {")).unwrap();
    let failed = desk.run(&folder, artifacts::volhost(), &["plugin", "test"]);
    let printed = String::from_utf8_lossy(&failed.stdout).into_owned();
    assert!(failed.status.code() == Some(1) && printed.contains("publish/is-mounted"), "{printed}");
}

#[test]
fn a_command_that_fails_in_the_volume_is_reported_and_the_volume_is_still_unmounted() {
    let desk = Desk::new();
    let component = artifacts::plugin("empty-dir");
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: try}\nspec:\n  containers: [{name: c, image: i, volumeMounts: [{name: a, mountPath: /a}]}]\n  volumes: [{name: a, emptyDir: {}}]\n";
    std::fs::write(desk.path().join("volume.yaml"), pod).unwrap();
    let run = |words: &[&str]| {
        let all: Vec<&str> = ["plugin", "run", component.to_str().unwrap()].iter().chain(words).copied().collect();
        desk.run(desk.path(), artifacts::volhost(), &all)
    };
    let failed = run(&["--", "sh", "-c", "exit 7"]);
    assert_eq!(failed.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&failed.stderr).contains("exit status: 7"), "{failed:?}");
    assert!(String::from_utf8_lossy(&failed.stdout).contains("no volume is left"), "{failed:?}");

    let interrupted = said(run(&["--", "sh", "-c", "kill -INT $PPID"]));
    assert!(interrupted.contains("no volume is left"), "{interrupted}");

    std::fs::write(desk.path().join("volume.yaml"), pod.replace("emptyDir: {}", "emptyDir: {medium: Moon}")).unwrap();
    let says_why = eventually(|| {
        let refused = run(&["--timeout", "1s", "--", "true"]);
        assert_eq!(refused.status.code(), Some(1), "{refused:?}");
        String::from_utf8_lossy(&refused.stderr).contains("Moon")
    });
    assert!(says_why, "the refused medium is not named");

    std::fs::write(desk.path().join("volhost.toml"), "grants = 3\n").unwrap();
    let bad = run(&["--", "true"]);
    assert!(String::from_utf8_lossy(&bad.stderr).contains("the daemon did not start"), "{bad:?}");
}

#[test]
fn an_invalid_or_existing_name_is_refused() {
    let desk = Desk::new();
    for (words, code, why) in [
        (&["plugin", "new", "Scratch"][..], 2, "can't be a plugin's name"),
        (&["plugin", "new", "acme/x/y"], 2, "can't be a plugin's name"),
        (&["plugin", "new"], 2, "required"),
        (&["plugin", "new", "x", "--path", "."], 1, "exists already"),
        (&["plugin", "new", "x", "--sdk", "."], 1, "is not the crate volhost-plugin-sdk"),
        (&["plugin", "new", "--from-flex", "acme/none"], 1, "acme~none/none does not exist"),
    ] {
        let refused = desk.run(desk.path(), artifacts::volhost(), words);
        let errors = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(code), "{words:?}: {errors}");
        assert!(errors.contains(why), "{words:?}: {errors}");
    }
    assert_eq!(std::fs::read_dir(desk.path()).unwrap().count(), 0, "something was written");
}

/// The drivers that come with volhost: one that only mounts, one that attaches.
const DRIVERS: &str = "examples/flex-volume/drivers";

#[test]
fn a_skeleton_replaces_a_flexvolume_driver_that_only_mounts() {
    let desk = Desk::new();
    let drivers = artifacts::workspace().join(DRIVERS);
    let drivers = drivers.to_str().unwrap();
    let of_driver = ["--from-flex", "example.com/tmpfs", "--flex-driver-dir", drivers];
    let named_as_it = Desk::new().new_plugin_text(&of_driver);
    assert!(named_as_it.contains("name = \"tmpfs\""), "{named_as_it}");
    // A crate of the checkout has that name, and they are built into one folder.
    let folder = desk.new_plugin(&[&["example.com/tmpfs-port"], &of_driver[..]].concat());
    let source = std::fs::read_to_string(folder.join("src/lib.rs")).unwrap();
    assert!(source.contains("serves(\"flexVolume:example.com/tmpfs\")") && !source.contains("Attacher"), "{source}");
    assert!(std::fs::read_to_string(folder.join("README.md")).unwrap().contains("Tmpfs::new()"));
    let component = desk.test_and_build(&folder);

    // Beside the plugin of all drivers: the driver's volumes are the new plugin's, and no manifest
    // has changed.
    let node = Node::builder()
        .plugin(artifacts::plugin("flex-volume"))
        .plugin(component)
        .config("[grants.\"example.com/tmpfs-port\"]\nsources = [\"flexVolume:example.com/tmpfs\"]\n")
        .arguments(&["--flex-driver-dir", drivers])
        .start();
    node.manifest(
        "pod.yaml",
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p, uid: u1}\nspec:\n  containers: [{name: c, image: i, volumeMounts: [{name: data, mountPath: /d}]}]\n  volumes:\n    - name: data\n      flexVolume: {driver: example.com/tmpfs}\n",
    );
    node.wait_event(&[
        "mount of FlexVolume driver example.com/tmpfs is not ported to the plugin example.com/tmpfs-port yet",
    ]);
}

#[test]
fn a_skeleton_of_a_driver_that_attaches_has_its_capabilities() {
    let desk = Desk::new();
    let program = artifacts::workspace().join(DRIVERS).join("example.com~loopfile/loopfile");
    let folder = desk.new_plugin(&["acme.org/loops", "--from-flex", program.to_str().unwrap()]);
    let component = desk.test_and_build(&folder);
    let inspected = desk.volhost(desk.path(), &["plugin", "inspect", component.to_str().unwrap()]);
    for word in ["acme.org/loops", "flexVolume:example.com/loopfile", "attacher", "stager", "expander"] {
        assert!(inspected.contains(word), "{word}: {inspected}");
    }
}

/// The files of a folder, with what tells a new file from an old one.
fn files(folder: &Path) -> Vec<(PathBuf, u64, std::time::SystemTime)> {
    use std::os::unix::fs::MetadataExt as _;
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| {
            let found = path.metadata().unwrap();
            (path, found.ino(), found.modified().unwrap())
        })
        .collect();
    files.sort();
    files
}

#[test]
fn inspect_and_conformance_compile_a_file_once_between_them() {
    let desk = Desk::new();
    let plugin = artifacts::plugin("empty-dir");
    let plugin = plugin.to_str().unwrap();
    let run = |variables: &[(&str, &Path)], words: &[&str]| {
        let mut command = desk.command(desk.path(), artifacts::volhost(), words);
        command.env_remove("XDG_CACHE_HOME").envs(variables.iter().copied());
        said(command.output().unwrap())
    };
    let conformance = ["conformance", plugin, "--only", "describe"];
    let caches = desk.path().join("caches");
    let cache = [("XDG_CACHE_HOME", caches.as_path())];
    run(&cache, &conformance);
    let kept = caches.join("volhost/plugins");
    let compiled = files(&kept);
    assert_eq!(compiled.len(), 2, "the code of one plugin, and its note: {compiled:?}");
    run(&cache, &["plugin", "inspect", plugin]);
    run(&cache, &conformance);
    assert_eq!(files(&kept), compiled, "it was compiled again");

    let home = desk.path().join("home");
    std::fs::create_dir(&home).unwrap();
    run(&[("HOME", &home)], &["plugin", "inspect", plugin]);
    assert_eq!(files(&home.join(".cache/volhost/plugins")).len(), 2);

    // Another user could replace the code there: it is not used.
    let open = desk.path().join("open");
    std::fs::create_dir(&open).unwrap();
    std::fs::set_permissions(&open, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    run(&[("XDG_CACHE_HOME", &open)], &["plugin", "inspect", plugin]);
    assert!(files(&open).is_empty());
}
