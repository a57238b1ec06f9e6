//! The order of the ways, and the errors when they fail. The tools are fakes written by the tests.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use volhost_plugin_build::toolchain::{Search, Way};

/// A rustc that reads the program and compiles it.
const WORKS: &str = "cat >/dev/null";
/// A rustc without the target.
const NO_STD: &str = "echo \"error[E0463]: can't find crate for std\" >&2; exit 1";

struct Tools {
    folder: tempfile::TempDir,
}

impl Tools {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Adds an executable. A shell writes it: were it open for writing in this process, a test that
    /// forks at that moment would inherit it, and running it would fail with "text file busy".
    fn with(self, name: &str, script: &str) -> Self {
        let written = Command::new("sh")
            .args(["-c", "printf '#!/bin/sh\\n%s\\n' \"$2\" >\"$1\" && chmod 755 \"$1\"", "sh"])
            .arg(self.path(name))
            .arg(script)
            .status()
            .unwrap();
        assert!(written.success());
        self
    }

    fn search(&self) -> Search {
        Search {
            cargo: self.path("cargo"),
            rustc: self.path("rustc"),
            rustup: self.path("rustup"),
            debian_cargo: self.path("debian-cargo"),
            debian_rustc: self.path("debian-rustc"),
            rustup_deadline: Duration::from_secs(60),
        }
    }
}

/// A rustc that works once `mark` exists.
fn works_after(mark: &Path) -> String {
    format!("cat >/dev/null; [ -e '{0}' ] || {{ echo 'error: no target' >&2; exit 1; }}", mark.display())
}

#[test]
fn the_rustc_in_use_wins_and_nothing_else_is_run() {
    let tools = Tools::new().with("rustc", WORKS);
    let asked = tools.path("asked");
    let tools = tools.with("rustup", &format!("touch '{}'", asked.display()));
    assert_eq!(tools.search().find().unwrap().way, Way::Current);
    assert!(!asked.exists(), "rustup was asked though the target is there");
}

#[test]
fn debians_rustc_is_taken_before_the_network_is_asked() {
    let tools = Tools::new().with("rustc", NO_STD).with("debian-rustc", WORKS).with("debian-cargo", "true");
    let asked = tools.path("asked");
    let tools = tools.with("rustup", &format!("touch '{}'", asked.display()));
    let found = tools.search().find().unwrap();
    assert_eq!((found.way, found.rustc), (Way::Debian, tools.path("debian-rustc")));
    assert!(!asked.exists(), "rustup was asked though Debian's rustc works");
}

#[test]
fn rustup_adds_the_target_when_nothing_else_works() {
    let tools = Tools::new();
    let mark = tools.path("added");
    let tools = tools
        .with("rustc", &works_after(&mark))
        .with("rustup", &format!("[ \"$*\" = 'target add wasm32-unknown-unknown' ] && touch '{}'", mark.display()));
    assert_eq!(tools.search().find().unwrap().way, Way::Rustup);
}

#[test]
fn a_silent_rustup_is_stopped_at_its_deadline() {
    // Generous: what is tested is that it ends at all, long before the fake would.
    let timeout = Duration::from_secs(30);
    let tools = Tools::new().with("rustc", NO_STD).with("rustup", "exec sleep 600");
    let start = Instant::now();
    let error = Search { rustup_deadline: Duration::from_millis(200), ..tools.search() }.find().unwrap_err();
    assert!(start.elapsed() < timeout, "rustup ran beyond its deadline");
    assert!(error.to_string().contains("rustup target add: no answer within 200ms"), "{error}");
}

#[test]
fn when_nothing_works_the_error_has_the_reason_of_every_way() {
    let tools = Tools::new()
        .with("rustc", NO_STD)
        .with("rustup", "echo 'info: downloading' >&2; echo 'error: could not download file' >&2; exit 1");
    let text = tools.search().find().unwrap_err().to_string();
    for words in ["can't find crate for std", "debian-rustc is not installed", "error: could not download file"] {
        assert!(text.contains(words), "'{words}' is missing in: {text}");
    }
}

#[test]
fn the_error_on_a_machine_without_rust_says_so() {
    let text = Tools::new().search().find().unwrap_err().to_string();
    assert!(text.contains("rustc is not installed") && text.contains("rustup is not installed"), "{text}");
}
