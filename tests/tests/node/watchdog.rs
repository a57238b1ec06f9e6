//! The watchdog of a service manager: signs of life come from the event loop, and end with it.

use std::os::unix::net::UnixDatagram;
use std::time::{Duration, Instant};

use nix::sys::ptrace;
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;
use volhost_tests::Node;
use volhost_tests::wait::TIMEOUT;

/// What the service manager allows.
const WATCHDOG: Duration = Duration::from_millis(300);

/// A service manager that wants signs of life, with the daemon that it has started.
struct Manager {
    socket: UnixDatagram,
    node: Node,
}

impl Manager {
    fn new(variables: &[(&str, &str)]) -> Self {
        let mut node = Node::builder().build();
        let path = node.folder().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        node.add_variable("NOTIFY_SOCKET", &path.display().to_string());
        for (name, value) in variables {
            node.add_variable(name, value);
        }
        node.start();
        Self { socket, node }
    }

    /// The next message within a time.
    fn next(&self, within: Duration) -> Option<String> {
        let mut message = [0; 256];
        self.socket.set_read_timeout(Some(within)).unwrap();
        let bytes = self.socket.recv(&mut message).ok()?;
        Some(String::from_utf8_lossy(&message[..bytes]).into_owned())
    }

    /// Waits for a sign of life.
    fn wait_sign(&self) {
        let begun = Instant::now();
        while self.next(TIMEOUT.saturating_sub(begun.elapsed())).unwrap_or_else(|| panic!("{}", self.node.log()))
            != "WATCHDOG=1\n"
        {}
    }

    /// Forgets what has been sent.
    fn drain(&self) {
        while self.next(Duration::from_millis(1)).is_some() {}
    }
}

#[test]
fn signs_of_life_end_while_the_loops_thread_stands_still_and_others_run() {
    let manager = Manager::new(&[("WATCHDOG_USEC", &WATCHDOG.as_micros().to_string())]);
    for _ in 0..3 {
        manager.wait_sign();
    }
    // The loop runs on the main thread; only that one is stopped.
    let thread = Pid::from_raw(i32::try_from(manager.node.pid()).unwrap());
    ptrace::seize(thread, ptrace::Options::empty()).unwrap();
    ptrace::interrupt(thread).unwrap();
    waitpid(thread, Some(WaitPidFlag::__WALL)).unwrap();
    manager.drain();
    assert_eq!(manager.next(WATCHDOG * 5), None, "another thread says that the loop is alive");
    ptrace::detach(thread, None).unwrap();
    manager.wait_sign();
}

#[test]
fn nothing_is_sent_that_was_not_asked_for() {
    for variables in [&[][..], &[("WATCHDOG_USEC", "300000"), ("WATCHDOG_PID", "1")][..]] {
        let manager = Manager::new(variables);
        let mut said = Vec::new();
        while let Some(message) = manager.next(WATCHDOG) {
            said.push(message);
        }
        assert_eq!(said, ["READY=1\n"], "{variables:?}");
    }
}
