//! The live view: once as text, and the first frame on a terminal.

use std::process::Stdio;

use volhost_tests::manifests::pod;
use volhost_tests::{Node, artifacts};

use crate::observability::figures::node_with_a_claim;

#[test]
fn top_once_shows_latencies_and_the_cause_of_a_volume_in_trouble() {
    let node = node_with_a_claim(&[]);
    node.manifest("b.yaml", &pod("b", "uid-b", &["name: gone, hostPath: { path: /nowhere/at/all, type: Directory }"]));
    node.wait_event(&["FailedMount", "nowhere"]);
    let shown = node.ok(&["top", "--once"]);
    assert!(shown.starts_with("2 of 3 volumes mounted, 1 in trouble;"), "{shown}");
    let line = |words: &[&str]| {
        let found = shown.lines().any(|line| words.iter().all(|word| line.contains(word)));
        assert!(found, "no line with {words:?}:\n{shown}");
    };
    line(&["kubernetes.io/local-volume", "volume_mount", "1", "0", "ms"]);
    line(&["gone", "default/b", "/nowhere/at/all"]);
    line(&["volume_mount", "kubernetes.io/host-path", "default/b"]);
}

#[test]
fn top_of_an_idle_node_says_that_there_is_nothing() {
    let node = Node::start_default();
    let shown = node.ok(&["top"]);
    assert!(shown.contains("0 of 0 volumes mounted"), "{shown}");
    assert!(shown.contains("Operations: none") && shown.contains("Volumes in trouble: none"), "{shown}");
}

#[test]
fn on_a_terminal_top_draws_the_node_and_q_leaves_the_terminal_as_it_was() {
    let node = node_with_a_claim(&[]);
    // `script` (util-linux) gives it a terminal and types what it reads.
    let command = format!(
        "stty rows 30 cols 120; {} --socket {} top; echo left with $?",
        artifacts::volhost().display(),
        node.socket().display()
    );
    let mut script = std::process::Command::new("script")
        .args(["--quiet", "--return", "--flush", "--command", &command, "/dev/null"])
        .env("TERM", "xterm-256color")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("script (util-linux, bsdutils) runs");
    let mut screen = Screen::of(script.stdout.take().unwrap());
    // Only what differs from a blank screen is written, so no spaces.
    screen.wait_for("mounted,");
    screen.wait_for("volume_mount");
    screen.wait_for("quit");
    let mut keyboard = script.stdin.take().unwrap();
    std::io::Write::write_all(&mut keyboard, b"s").unwrap();
    screen.wait_for("plugin)");
    std::io::Write::write_all(&mut keyboard, b"q").unwrap();
    // Back from the alternate screen.
    screen.wait_for("\u{1b}[?1049l");
    screen.wait_for("left with 0");
    assert!(script.wait().unwrap().success());
}

/// What a program writes to its terminal.
struct Screen<R> {
    output: R,
    text: String,
}

impl<R: std::io::Read> Screen<R> {
    const fn of(output: R) -> Self {
        Self { output, text: String::new() }
    }

    /// Reads on until this has been written.
    fn wait_for(&mut self, words: &str) {
        let mut buffer = [0; 4096];
        while !self.text.contains(words) {
            let length = self.output.read(&mut buffer).unwrap_or(0);
            assert!(length > 0, "{words:?} never came:\n{:?}", self.text);
            self.text.push_str(&String::from_utf8_lossy(&buffer[..length]));
        }
    }
}
