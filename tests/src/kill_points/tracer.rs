//! Following a process with all its threads, call by call.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;

use nix::errno::Errno;
use nix::libc;
use nix::sys::ptrace;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;

use super::call::Call;
use super::counted::counted;
use super::memory::Stopped;

/// Who dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KilledProcess {
    /// The daemon alone: the programs it has started go on, and the kernel out of memory or an
    /// operator does no more.
    Daemon,
    /// The programs that it has started, too, whose calls count as well: so a service manager ends
    /// a service.
    Programs,
}

/// When.
#[derive(Debug, Clone, Copy)]
pub struct KillPoint {
    /// Who dies, and whose calls count.
    pub who: KilledProcess,
    /// Before this call, counted from 0. None: it is only followed.
    pub before: Option<usize>,
}

/// What was seen of a process until it ended.
#[derive(Debug)]
pub struct TracedExit {
    /// The calls, in order; the last is the one that was never made, if it was killed.
    pub calls: Vec<Call>,
    /// It was killed here, and did not end otherwise.
    pub killed: bool,
}

/// A process that is followed, on a thread of its own: `ptrace` belongs to a thread.
#[derive(Debug)]
pub struct Trace {
    thread: JoinHandle<TracedExit>,
    process: Pid,
    counts: Arc<Mutex<BTreeMap<&'static str, usize>>>,
}

impl Trace {
    /// Follows a process from now on: when it returns, no further call goes unseen.
    ///
    /// # Panics
    /// When the process is gone, or may not be followed.
    pub fn begin(process: u32, death: KillPoint) -> Self {
        let process = Pid::from_raw(i32::try_from(process).expect("process ids are small"));
        let (ready, begun) = mpsc::channel();
        let tracer = Tracer::new(process, death);
        let counts = Arc::clone(&tracer.counts);
        let thread = std::thread::spawn(move || tracer.follow(&ready));
        begun.recv().expect("the process can be followed");
        Self { thread, process, counts }
    }

    /// Takes how often each call for files, folders and mounts was made since it was taken last.
    ///
    /// # Panics
    /// When following it has failed.
    pub fn take_counts(&self) -> BTreeMap<&'static str, usize> {
        std::mem::take(&mut *self.counts.lock().expect("it is followed"))
    }

    /// Whether the process has ended.
    pub fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }

    /// Kills the process, if it lives, and says what was seen of it.
    ///
    /// # Panics
    /// When following it has failed.
    pub fn end(self) -> TracedExit {
        // It may have ended; its parent has not waited for it, so that its id is still its own.
        let _ = kill(self.process, Signal::SIGKILL);
        self.thread.join().expect("it was followed to its end")
    }
}

struct Tracer {
    process: Pid,
    death: KillPoint,
    /// The processes whose calls count.
    processes: BTreeSet<i32>,
    /// Threads that were asked to stop and have not stopped yet.
    stopping: BTreeSet<i32>,
    calls: Vec<Call>,
    counts: Arc<Mutex<BTreeMap<&'static str, usize>>>,
    killed: bool,
}

impl Tracer {
    fn new(process: Pid, death: KillPoint) -> Self {
        let processes = BTreeSet::from([process.as_raw()]);
        let (stopping, calls, counts) = (BTreeSet::new(), Vec::new(), Arc::default());
        Self { process, death, processes, stopping, calls, counts, killed: false }
    }

    fn follow(mut self, ready: &mpsc::Sender<()>) -> TracedExit {
        self.seize();
        // Ends are only looked at: the parent, this very process, waits for them.
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WSTOPPED | WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD;
        loop {
            if self.stopping.is_empty() {
                let _ = ready.send(());
            }
            let seen = match waitid(Id::All, flags | WaitPidFlag::WNOWAIT) {
                Ok(seen) => seen,
                Err(Errno::EINTR) => continue,
                Err(error) => panic!("following {}: {error}", self.process),
            };
            let ended = matches!(seen, WaitStatus::Exited(..) | WaitStatus::Signaled(..));
            let Some(thread) = seen.pid() else { continue };
            if ended && thread == self.process {
                return TracedExit { calls: self.calls, killed: self.killed };
            }
            // A stop that was seen is over if the thread was killed meanwhile. To wait for its end would
            // be to wait for ever where it is the first thread: the kernel reports its end when all other
            // threads have been waited for, which is done here. And the end of a process is its parent's.
            let end = if thread == self.process { WaitPidFlag::empty() } else { WaitPidFlag::WEXITED };
            let taken = waitid(Id::Pid(thread), (flags - WaitPidFlag::WEXITED) | end | WaitPidFlag::WNOHANG);
            self.stopping.remove(&thread.as_raw());
            match taken {
                Ok(WaitStatus::PtraceSyscall(_)) => self.at_call(thread),
                // Stops that belong to following; the signals beside them are no one's.
                Ok(WaitStatus::PtraceEvent(_, _, event)) if event != 0 => go_on(thread, None),
                Ok(WaitStatus::PtraceEvent(_, signal, _) | WaitStatus::Stopped(_, signal)) => {
                    go_on(thread, Some(signal));
                }
                _ => {}
            }
        }
    }

    /// Attaches to every thread; those that they start are followed by themselves.
    fn seize(&mut self) {
        let mut options = ptrace::Options::PTRACE_O_TRACESYSGOOD | ptrace::Options::PTRACE_O_TRACECLONE;
        if self.death.who == KilledProcess::Programs {
            options |= ptrace::Options::PTRACE_O_TRACEFORK | ptrace::Options::PTRACE_O_TRACEVFORK;
        }
        let mut known = BTreeSet::new();
        loop {
            let tasks = fs::read_dir(format!("/proc/{}/task", self.process)).expect("the process lives");
            let tasks = tasks.filter_map(|task| task.ok()?.file_name().to_str()?.parse::<i32>().ok());
            let new: Vec<i32> = tasks.filter(|task| known.insert(*task)).collect();
            if new.is_empty() {
                return;
            }
            for task in new {
                let thread = Pid::from_raw(task);
                match ptrace::seize(thread, options) {
                    Ok(()) => {
                        if ptrace::interrupt(thread).is_ok() {
                            self.stopping.insert(task);
                        }
                    }
                    // Its parent thread was followed already, or it has ended.
                    Err(Errno::EPERM | Errno::ESRCH) if thread != self.process => {}
                    Err(error) => panic!("following {thread} of {}: {error}", self.process),
                }
            }
        }
    }

    fn at_call(&mut self, thread: Pid) {
        let entering = ptrace::syscall_info(thread).is_ok_and(|info| info.op == libc::PTRACE_SYSCALL_INFO_ENTRY);
        if entering && !self.killed {
            let stopped = Stopped { thread: thread.as_raw(), daemon: self.process.as_raw() };
            let raw = stopped.call();
            if let Some(name) = raw.and_then(|raw| counted(stopped, raw)) {
                *self.counts.lock().expect("the reader does not panic").entry(name).or_default() += 1;
            }
            if let Some(call) = raw.and_then(|raw| Call::of(stopped, raw)) {
                self.calls.push(call);
                if self.death.before.is_some_and(|before| self.calls.len() > before) {
                    self.kill_all(thread);
                    return;
                }
            }
        }
        go_on(thread, None);
    }

    /// A process that is killed where it enters a call never makes it.
    fn kill_all(&mut self, thread: Pid) {
        self.killed = true;
        if let Some(process) = process_of(thread) {
            self.processes.insert(process);
        }
        if self.death.who == KilledProcess::Programs {
            self.processes.extend(descendants(self.process.as_raw()));
        }
        for process in &self.processes {
            // Some may have ended.
            let _ = kill(Pid::from_raw(*process), Signal::SIGKILL);
        }
    }
}

/// Lets a thread run up to its next call.
fn go_on(thread: Pid, signal: Option<Signal>) {
    match ptrace::syscall(thread, signal) {
        // It was killed meanwhile.
        Ok(()) | Err(Errno::ESRCH) => {}
        Err(error) => panic!("letting {thread} go on: {error}"),
    }
}

fn process_of(thread: Pid) -> Option<i32> {
    let status = fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Tgid:")?.trim().parse().ok())
}

fn descendants(process: i32) -> Vec<i32> {
    let mut all = Vec::new();
    let tasks = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    for task in tasks {
        let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
        for child in children.split_whitespace().filter_map(|child| child.parse().ok()) {
            all.push(child);
            all.extend(descendants(child));
        }
    }
    all
}
