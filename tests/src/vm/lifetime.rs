//! Programs that end with this one, however it ends.

use std::io;
use std::process::{Child, Command};
use std::sync::LazyLock;
use std::sync::mpsc::{self, Sender, SyncSender};
use std::thread;

/// A program to start, and who waits for it.
type Request = (Command, SyncSender<io::Result<Child>>);

/// Starts programs on a thread that lives as long as this program: the kernel sends the signal when
/// the *thread* that has started a program ends, and that of a test ends with the test.
static STARTER: LazyLock<Sender<Request>> = LazyLock::new(|| {
    let (sender, requests) = mpsc::channel::<Request>();
    let start = move || {
        for (mut command, answer) in requests {
            let _ = answer.send(command.spawn());
        }
    };
    thread::Builder::new().name("starter".to_owned()).spawn(start).expect("a thread");
    sender
});

/// Returns the command of a program that the kernel kills when this program has ended. Start it with
/// [`spawn`].
pub(super) fn command(program: &str) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", program]);
    command
}

/// Starts a [`command`].
///
/// # Errors
/// As [`Command::spawn`].
pub(super) fn spawn(command: Command) -> io::Result<Child> {
    let (sender, answer) = mpsc::sync_channel(1);
    STARTER.send((command, sender)).map_err(io::Error::other)?;
    answer.recv().map_err(io::Error::other)?
}
