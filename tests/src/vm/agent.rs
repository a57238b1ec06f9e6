//! The QEMU guest agent's protocol: one JSON object a line, in both directions.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::qemu::Machine;
use crate::wait::eventually;

/// The pause between two questions whether a command has ended: the agent reports no end by itself.
const PAUSE: Duration = Duration::from_millis(20);
/// How long the guest may take to boot, and then for a command: an emulated processor that shares
/// two real ones with other test programs takes minutes for what an idle one does in seconds. A
/// command has a limit of its own in the guest's time, so that this one is reached by none that
/// hangs in the guest alone.
const TIME: Duration = Duration::from_secs(600);

/// The connection to the agent of one boot.
#[derive(Debug)]
pub(super) struct Agent {
    stream: BufReader<UnixStream>,
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
    /// Returns whether it ended with status 0.
    pub fn succeeded(&self) -> bool {
        self.status == 0
    }
}

/// A command that was started.
pub(super) struct Started(i64);

impl Agent {
    /// Waits until the guest has booted.
    pub(super) fn connect(machine: &mut Machine) -> Self {
        let mut stream = None;
        let connected = eventually(|| {
            stream = UnixStream::connect(machine.agent_socket()).ok();
            stream.is_some() || !machine.runs()
        });
        let stream = stream.filter(|_| connected && machine.runs());
        let stream = stream.unwrap_or_else(|| panic!("the emulator does not run: {}", machine.console()));
        stream.set_read_timeout(Some(TIME)).expect("a time limit");
        let mut agent = Self { stream: BufReader::new(stream) };
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

    /// Starts a shell script.
    pub(super) fn start(&mut self, script: &str) -> io::Result<Started> {
        let arguments = json!({ "path": "/bin/sh", "arg": ["-euc", script], "capture-output": true });
        let pid = self.call("guest-exec", &arguments)?["pid"].as_i64();
        pid.map(Started).ok_or_else(|| io::Error::other("guest-exec names no process"))
    }
}

impl Started {
    /// Waits until it has ended. Other commands may run meanwhile.
    pub(super) fn wait(&self, agent: &Mutex<Agent>) -> io::Result<Finished> {
        let begun = std::time::Instant::now();
        loop {
            let about = {
                let mut agent = agent.lock().unwrap_or_else(PoisonError::into_inner);
                agent.call("guest-exec-status", &json!({ "pid": self.0 }))?
            };
            if about["exited"] == true {
                let text = |key: &str| {
                    let bytes = STANDARD.decode(about[key].as_str().unwrap_or_default()).unwrap_or_default();
                    String::from_utf8_lossy(&bytes).into_owned()
                };
                let signal = about["signal"].as_i64().map(|signal| signal + 128);
                let status = about["exitcode"].as_i64().or(signal).unwrap_or(-1);
                return Ok(Finished { status, output: text("out-data"), error: text("err-data") });
            }
            if begun.elapsed() > TIME {
                return Err(io::Error::other(format!("it has not ended after {} s", TIME.as_secs())));
            }
            std::thread::park_timeout(PAUSE);
        }
    }
}
