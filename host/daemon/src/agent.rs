//! The node agent beside the daemon: started, watched, started again, and ended before the daemon.
//!
//! The agent speaks to the cluster's API server. It is a process of its own without a right of
//! root's, because it parses what comes over the network.
//!
//! ```text
//!  start --> runs --ended by itself--> waits (1 s, doubled up to 30 s) --> start
//!              |                          |
//!              '---------- stop ----------'--> SIGTERM, then SIGKILL --> ended
//! ```
//!
//! # Guarantees
//! - The daemon keeps its pods and their mounts while no agent runs.
//! - After [`Agent::stop`] no agent runs. If the daemon is killed, the kernel ends the agent.

use std::ffi::OsString;
use std::io::{self, PipeReader, PipeWriter, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::Signal;
use thiserror::Error;
use tracing::{error, info, warn};
use volhost_config::{KubernetesOptions, RunConfig};
use volhost_kernel::child::{PollTarget, wait_ready};
use volhost_process::{Argument, Child, Launch, Launcher, Privileges, ProcessLimits};

/// The program that has the agent. It is installed in the folder of `volhostd`.
const PROGRAM: &str = "volhost-controller";
/// The wait before the agent is started again after it has ended.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// The longest such wait.
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// An agent that ran this long begins with the first wait again.
const LONG_RUN: Duration = Duration::from_secs(60);
/// How long the agent may take to end. It ends at once, if it is not stuck in the kernel.
const END_TIME: Duration = Duration::from_secs(5);
/// What the service manager sets for the daemon alone.
const NOTIFY_SOCKET: &str = "NOTIFY_SOCKET";

/// The agent cannot be run.
#[derive(Debug, Error)]
pub(super) enum AgentError {
    /// The folder of the programs is not known.
    #[error("the folder of {PROGRAM} cannot be found: {0}")]
    Program(#[source] io::Error),
    /// The kernel gives no pipe or no thread.
    #[error("the node agent cannot be watched: {0}")]
    Watch(#[source] io::Error),
}

/// The running agent.
#[derive(Debug)]
pub(super) struct Agent {
    /// Closing it ends the agent.
    stop: PipeWriter,
    watcher: JoinHandle<()>,
}

impl Agent {
    /// Starts the agent for this daemon, which serves its socket by now.
    ///
    /// # Errors
    /// [`AgentError`]. That the program is missing or ends is no error: it is logged, and tried
    /// again.
    pub(super) fn start(config: &RunConfig, options: &KubernetesOptions) -> Result<Self, AgentError> {
        let launch = launch(&program()?, config, options);
        let (stopped, stop) = io::pipe().map_err(AgentError::Watch)?;
        // The kernel ends the agent when the thread that started it is gone, so that one stays.
        let watcher = std::thread::Builder::new().name("node-agent".into());
        let watcher = watcher.spawn(move || watch(&launch, &stopped)).map_err(AgentError::Watch)?;
        Ok(Self { stop, watcher })
    }

    /// Ends the agent. Blocks until it has ended.
    pub(super) fn stop(self) {
        drop(self.stop);
        if self.watcher.join().is_err() {
            warn!("the watcher of the node agent had failed");
        }
    }
}

/// The agent's program, beside this one.
fn program() -> Result<PathBuf, AgentError> {
    let own = std::env::current_exe().map_err(AgentError::Program)?;
    let folder = own.parent().ok_or_else(|| AgentError::Program(io::Error::other("this program is in no folder")))?;
    Ok(folder.join(PROGRAM))
}

fn launch(program: &Path, config: &RunConfig, options: &KubernetesOptions) -> Launch {
    let mut arguments: Vec<OsString> = vec!["node-agent".into()];
    let mut option = |name: &str, value: OsString| arguments.extend([OsString::from(name), value]);
    option("--parent", std::process::id().to_string().into());
    option("--socket", config.socket.clone().into());
    option("--node-name", config.node_name.clone().into());
    option("--scope", options.scope.to_string().into());
    option("--log-format", config.log_format.as_str().into());
    option("--log-level", config.log_level.as_str().into());
    if let Some(file) = &options.kubeconfig {
        option("--kubeconfig", file.clone().into());
    }
    Launch {
        program: program.as_os_str().to_owned(),
        arguments: arguments.into_iter().map(Argument::from).collect(),
        environment: std::env::vars_os().filter(|(name, _)| name != NOTIFY_SOCKET).collect(),
        // It owns root's files, such as the socket and its credentials, and has none of root's
        // rights.
        privileges: Privileges {
            capabilities: Some(0),
            no_new_privileges: true,
            no_namespaces: true,
            limits: ProcessLimits { core_bytes: Some(0), ..ProcessLimits::default() },
            ..Privileges::default()
        },
    }
}

/// Keeps an agent running until the pipe is closed.
fn watch(launch: &Launch, stopped: &PipeReader) {
    let mut wait = FIRST_WAIT;
    loop {
        let began = Instant::now();
        match start(launch) {
            Ok(child) => {
                info!(pid = child.pid().as_raw_pid(), "the node agent is started");
                if !has_ended(&child, stopped) {
                    return end(child);
                }
                report(child.wait());
            }
            Err(error) => error!(program = %launch.program.display(), "the node agent cannot be started: {error}"),
        }
        if began.elapsed() >= LONG_RUN {
            wait = FIRST_WAIT;
        }
        warn!("the node agent is started again in {} s; the daemon keeps its pods until then", wait.as_secs());
        if is_stopped_within(stopped, wait) {
            return;
        }
        wait = wait.saturating_mul(2).min(LONGEST_WAIT);
    }
}

fn start(launch: &Launch) -> io::Result<Child> {
    let outputs: OwnedFd = io::stderr().as_fd().try_clone_to_owned()?;
    // A terminal's interrupt is for the daemon, which ends the agent first.
    let program = Launcher::this_program().program().with_own_group().with_outputs(Arc::new(outputs));
    let mut child = program.start()?;
    // The launcher reads all of it before anything else, or has ended.
    let written = child.stdin.take().map(|mut input| input.write_all(&launch.to_input()));
    match written.transpose() {
        Ok(_) => Ok(child),
        Err(error) => {
            child.end();
            Err(error)
        }
    }
}

/// Waits until the agent has ended, or is to be ended. Returns whether it has.
fn has_ended(child: &Child, stopped: &PipeReader) -> bool {
    let awaited = [PollTarget::Readable(child.process().as_fd()), PollTarget::Readable(stopped.as_fd())];
    loop {
        match wait_ready(&awaited, None) {
            Ok(ready) if ready.first() == Some(&true) => return true,
            Ok(ready) if ready.get(1) == Some(&true) => return false,
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => {
                error!("the node agent cannot be watched, and is ended: {errno}");
                return false;
            }
        }
    }
}

fn is_stopped_within(stopped: &PipeReader, time: Duration) -> bool {
    let deadline = Instant::now() + time;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match wait_ready(&[PollTarget::Readable(stopped.as_fd())], Some(left)) {
            Ok(ready) if ready.first() == Some(&true) => return true,
            Err(Errno::INTR) => {}
            Ok(_) | Err(_) if Instant::now() >= deadline => return false,
            Ok(_) => {}
            Err(_) => return false,
        }
    }
}

fn end(child: Child) {
    // It fails only when the agent has ended.
    let _ = child.process().signal(Signal::TERM);
    if !child.process().wait_for_end(END_TIME).is_ok_and(|ended| ended) {
        warn!("the node agent did not end in {} s and is killed", END_TIME.as_secs());
    }
    child.end();
    info!("the node agent has ended");
}

fn report(status: io::Result<ExitStatus>) {
    match status {
        Ok(status) => error!("the node agent has ended ({status}); its last words are above"),
        Err(error) => error!("the node agent has ended, and how is not known: {error}"),
    }
}
