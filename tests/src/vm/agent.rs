//! The QEMU guest agent's protocol: one JSON object a line, in both directions.
//!
//! The agent reports no end of a command by itself, and each question interrupts what the guest does
//! for some milliseconds. So a command writes a line to a second port when it ends, and the agent is
//! asked then.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::qemu::Machine;
use crate::wait::eventually;

/// The guest's end of the second port.
const ENDED_PORT: &str = "/dev/vport0p2";
/// The first pause between the line of a command that ends and a question whether it has ended; it
/// doubles.
const FIRST_PAUSE: Duration = Duration::from_millis(2);
/// How long the agent is not asked about a command that has written no line: one that was killed
/// writes none.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// How long the guest may take to boot, and then for a command: an emulated processor that shares
/// two real ones with other test programs takes minutes for what an idle one does in seconds. A
/// command has a limit of its own in the guest's time, so that this one is reached by none that
/// hangs in the guest alone.
const TIME: Duration = Duration::from_secs(600);

/// The connections to one boot.
#[derive(Debug)]
pub(super) struct Agent {
    stream: BufReader<UnixStream>,
    /// The second port.
    ended: UnixStream,
}

/// What a command of the guest did.
#[derive(Debug)]
pub struct Finished {
    /// Its exit status; 128 and the signal's number if a signal ended it.
    pub status: i64,
    /// Its standard output.
    pub output: String,
    /// Its standard error.
    pub error: String,
}

impl Finished {
    /// Reads an answer of `guest-exec-status` about a command that has ended.
    fn read(about: &Value) -> Self {
        let text = |key: &str| {
            let bytes = STANDARD.decode(about[key].as_str().unwrap_or_default()).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let signal = about["signal"].as_i64().map(|signal| signal + 128);
        let status = about["exitcode"].as_i64().or(signal).unwrap_or(-1);
        Self { status, output: text("out-data"), error: text("err-data") }
    }

    /// Returns whether it ended with status 0.
    pub fn succeeded(&self) -> bool {
        self.status == 0
    }
}

impl Agent {
    /// Waits until the guest has booted.
    pub(super) fn connect(machine: &mut Machine) -> Self {
        let [stream, ended] = machine.sockets().map(|socket| connected(machine, &socket));
        stream.set_read_timeout(Some(TIME)).expect("a time limit");
        let mut agent = Self { stream: BufReader::new(stream), ended };
        // It answers once the agent runs in the guest.
        if let Err(error) = agent.call("guest-sync", &json!({ "id": 1 })) {
            panic!("the guest does not boot: {error}; its console ends:\n{}", machine.console());
        }
        agent
    }

    fn call(&mut self, command: &str, arguments: &Value) -> io::Result<Value> {
        let request = json!({ "execute": command, "arguments": arguments });
        self.stream.get_mut().write_all(format!("{request}\n").as_bytes())?;
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            return Err(io::Error::other("the guest has ended"));
        }
        let answer: Value = serde_json::from_str(&line)?;
        match answer.get("return") {
            Some(value) => Ok(value.clone()),
            None => Err(io::Error::other(format!("{command}: {answer}"))),
        }
    }

    /// Starts a shell script, and returns the number of its process.
    pub(super) fn start(&mut self, script: &str) -> io::Result<i64> {
        let script = format!("trap 'echo >{ENDED_PORT} || :' EXIT\n{script}");
        let arguments = json!({ "path": "/bin/sh", "arg": ["-euc", script], "capture-output": true });
        let pid = self.call("guest-exec", &arguments)?["pid"].as_i64();
        pid.ok_or_else(|| io::Error::other("guest-exec names no process"))
    }

    /// Runs a shell script to its end.
    pub(super) fn run(&mut self, script: &str) -> io::Result<Finished> {
        let (begun, pid) = (Instant::now(), self.start(script)?);
        let mut pause = LONGEST_PAUSE;
        loop {
            pause = if self.has_line(pause)? { FIRST_PAUSE } else { LONGEST_PAUSE.min(pause * 2) };
            let about = self.call("guest-exec-status", &json!({ "pid": pid }))?;
            if about["exited"] == true {
                return Ok(Finished::read(&about));
            }
            if begun.elapsed() > TIME {
                return Err(io::Error::other(format!("it has not ended after {} s", TIME.as_secs())));
            }
        }
    }

    /// Waits so long for a line of the second port.
    fn has_line(&mut self, pause: Duration) -> io::Result<bool> {
        self.ended.set_read_timeout(Some(pause))?;
        match self.ended.read(&mut [0; 64]) {
            Ok(0) => Err(io::Error::other("the guest has ended")),
            Ok(1..) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// Connects to a socket of the emulator, which makes it when it begins.
fn connected(machine: &mut Machine, socket: &Path) -> UnixStream {
    let mut stream = None;
    eventually(|| {
        stream = UnixStream::connect(socket).ok();
        stream.is_some() || !machine.runs()
    });
    stream.unwrap_or_else(|| panic!("the emulator does not run: {}", machine.console()))
}
