//! What the host knows of one call while it runs.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use volhost_kernel::{Kernel, KernelError, Step};
use volhost_model::images::ImageLease;
use wasmtime::component::ResourceTable;

use super::error::handle_error;
use crate::abort::Abort;
use crate::budget::Budget;
use crate::call::Call;
use crate::call_error::Function;
use crate::fuse_servers::Started;
use crate::grants::Reach;
use crate::host_calls::HostCallVerdict;
use crate::limits::{Limits, MemoryMeter};
use crate::redaction::CallSecrets;
use crate::sink::LogLevel;
use crate::text::tame;
use crate::trace;
use crate::wasi::{Source, Wasi};

/// The step of a call while none of the host's is running.
pub(crate) const PLUGIN_CODE: &str = "plugin code";

/// The longest line that a plugin writes to a stream of its own, in bytes.
const LINE_BYTES: usize = 4096;
/// How much of a plugin's standard error is kept for the user, in bytes.
const LAST_WORDS_BYTES: usize = 512;

/// The state of one call: its handles, its counters, and what it may reach.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) kernel: Arc<dyn Kernel>,
    pub(crate) table: ResourceTable,
    pub(crate) call: Call,
    /// The places of the host that the plugin may reach.
    pub(crate) reach: Arc<Reach>,
    pub(crate) meter: MemoryMeter,
    /// The most that a volume's files may be together.
    pub(crate) payload_bytes: usize,
    /// The most files that a volume may show.
    pub(crate) payload_files: usize,
    /// Of which secret how many keys were used, for the log.
    pub(crate) secrets_used: BTreeMap<String, usize>,
    /// The values that were used, so that no text shows them.
    pub(crate) secrets: CallSecrets,
    /// The images that the call has mounted, kept until its mounts can be seen.
    pub(crate) images_kept: Vec<Arc<dyn ImageLease>>,
    /// The path of the device whose file system was mounted.
    pub(crate) mounted_device: Option<PathBuf>,
    /// The SELinux label that what the call mounts is to have.
    pub(crate) selinux_label: Option<String>,
    /// The size beyond which the host emits an event for the pod, in bytes.
    pub(crate) watched_size: Option<u64>,
    /// A folder at the staging target counts as the volume.
    pub(crate) folder_is_enough: bool,
    /// The labels of the places from which the volume that is made can be reached.
    pub(crate) reachable_from: Vec<BTreeMap<String, String>>,
    /// The function of a call that may only look at what it is given and at what the host knows;
    /// none for other calls.
    pub(crate) asked: Option<Function>,
    /// A host call that changes something on the node was begun.
    pub(crate) changed: bool,
    /// The last error line of the plugin: what it said before it died.
    pub(crate) last_words: Option<String>,
    /// What the call has of WASI, from its first use of it on.
    pub(crate) wasi: Option<Box<Wasi>>,
    started: Instant,
    in_host: Duration,
    /// What the host calls may still use up.
    pub(crate) budget: Budget,
    log_lines_left: u32,
    log_bytes_left: usize,
    events_left: u32,
    lines_dropped: u32,
    events_dropped: u32,
    /// The FUSE servers that the call has started: last, so that the handles go before it.
    pub(crate) fuse_servers: Started,
}

impl State {
    pub(crate) fn new(kernel: Arc<dyn Kernel>, limits: &Limits, call: Call, reach: Arc<Reach>) -> Self {
        let mut table = ResourceTable::new();
        table.set_max_capacity(limits.handles);
        let fuse_servers = Started::new(Arc::clone(call.environment().fuse_servers()));
        Self {
            kernel,
            table,
            call,
            meter: MemoryMeter::new(limits, reach.memory),
            reach,
            payload_bytes: limits.payload_bytes,
            payload_files: limits.payload_files,
            secrets_used: BTreeMap::new(),
            secrets: CallSecrets::default(),
            images_kept: Vec::new(),
            mounted_device: None,
            selinux_label: None,
            watched_size: None,
            folder_is_enough: false,
            reachable_from: Vec::new(),
            asked: None,
            changed: false,
            last_words: None,
            wasi: None,
            started: Instant::now(),
            in_host: Duration::ZERO,
            budget: Budget::new(limits),
            log_lines_left: limits.log_lines,
            log_bytes_left: limits.log_bytes,
            events_left: limits.events,
            lines_dropped: 0,
            events_dropped: 0,
            fuse_servers,
        }
    }

    /// Returns how long the plugin's own code has run.
    pub(crate) fn plugin_time(&self) -> Duration {
        self.started.elapsed().saturating_sub(self.in_host)
    }

    /// The plugin's code begins to run now.
    pub(crate) fn begin(&mut self) {
        self.started = Instant::now();
        self.in_host = Duration::ZERO;
        self.call.progress().enter(PLUGIN_CODE);
    }

    /// Counts a host call.
    pub(crate) fn count(&mut self) -> Result<(), Abort> {
        self.log_output(false);
        if self.call.cancellation().is_cancelled() {
            return Err(Abort::Cancelled);
        }
        self.budget.charge_call()
    }

    /// Runs a step that may take time: counted, shown in the progress, and charged to the budget of
    /// host calls instead of the plugin's deadline.
    pub(crate) fn step<T, E: From<Abort> + From<KernelError>>(
        &mut self,
        what: impl Into<Cow<'static, str>>,
        run: impl FnOnce(&mut Self) -> Result<T, E>,
    ) -> Result<T, E> {
        self.watched(what.into(), false, run)
    }

    /// Refuses a host call that reaches the kernel, a driver or a program while the plugin is only
    /// asked what it is or what a volume is.
    pub(crate) fn refuse_if_asked(&self, what: &str) -> Result<(), Abort> {
        match self.asked {
            None => Ok(()),
            Some(function) => Err(Abort::contract(format!(
                "it called {what} in {}, which may only look at the volume, at objects and at what the host knows of drivers",
                function.name()
            ))),
        }
    }

    fn watched<T, E: From<Abort> + From<KernelError>>(
        &mut self,
        what: Cow<'static, str>,
        changes: bool,
        run: impl FnOnce(&mut Self) -> Result<T, E>,
    ) -> Result<T, E> {
        self.count()?;
        self.budget.check_time()?;
        if changes {
            self.budget.charge_change()?;
        }
        match self.call.host_calls().map_or(HostCallVerdict::Proceed, |calls| calls.begins(&what, changes)) {
            HostCallVerdict::Proceed => {}
            HostCallVerdict::Fail(errno) => {
                let (step, path) = (Step::Primitive, what.into_owned());
                return Err(KernelError::Failed { step, path, errno, detail: String::new() }.into());
            }
            HostCallVerdict::End => return Err(Abort::Ended.into()),
        }
        self.refuse_if_asked(&what)?;
        let span = trace::primitive(&what);
        self.call.progress().enter(what);
        let begun = Instant::now();
        let result = span.in_scope(|| run(self));
        let elapsed = begun.elapsed();
        self.in_host += elapsed;
        self.budget.charge_time(elapsed);
        self.call.progress().enter(PLUGIN_CODE);
        result
    }

    /// As [`State::step`], for a step that changes something on the node, if only by its attempt.
    pub(crate) fn change<T, E: From<Abort> + From<KernelError>>(
        &mut self,
        what: impl Into<Cow<'static, str>>,
        run: impl FnOnce(&mut Self) -> Result<T, E>,
    ) -> Result<T, E> {
        self.watched(what.into(), true, |state| {
            state.changed = true;
            run(state)
        })
    }

    /// Puts a host object into the table of handles.
    pub(crate) fn push<T: Send + 'static>(&mut self, object: T) -> Result<wasmtime::component::Resource<T>, Abort> {
        self.table.push(object).map_err(|error| handle_error(&error))
    }

    /// A text of a plugin or a driver for people: without the secrets that the call has used, on
    /// one line, cut to `limit` bytes.
    pub(crate) fn shown(&self, text: &str, limit: usize) -> String {
        tame(&self.secrets.redact(text, limit), limit)
    }

    /// Takes `bytes` of log line from the allowance; false when it is used up.
    pub(crate) fn may_log(&mut self, bytes: usize) -> bool {
        match (self.log_lines_left.checked_sub(1), self.log_bytes_left.checked_sub(bytes)) {
            (Some(lines), Some(bytes)) => {
                self.log_lines_left = lines;
                self.log_bytes_left = bytes;
                true
            }
            _ => {
                self.lines_dropped = self.lines_dropped.saturating_add(1);
                false
            }
        }
    }

    /// Takes an event from the allowance; false when it is used up.
    pub(crate) fn may_emit(&mut self) -> bool {
        match self.events_left.checked_sub(1) {
            Some(left) => {
                self.events_left = left;
                true
            }
            None => {
                self.events_dropped = self.events_dropped.saturating_add(1);
                false
            }
        }
    }

    /// Logs the lines that the plugin has written through WASI since the last call of the host, and
    /// with `at_end` the unfinished ones too.
    pub(crate) fn log_output(&mut self, at_end: bool) {
        let Some(wasi) = &self.wasi else { return };
        let lines: Vec<_> = wasi.take_lines(at_end).collect();
        for (source, line) in lines {
            self.log_line(source, &line);
        }
    }

    fn log_line(&mut self, source: Source, line: &str) {
        let level = match source {
            Source::Output => LogLevel::Info,
            Source::Errors => LogLevel::Warn,
        };
        let line = self.shown(line, LINE_BYTES);
        if source == Source::Errors {
            // The first lines say what happened; later lines say how to find out more.
            match &mut self.last_words {
                Some(words) if words.len() + line.len() < LAST_WORDS_BYTES => *words = format!("{words}; {line}"),
                Some(_) => {}
                none => *none = Some(tame(&line, LAST_WORDS_BYTES)),
            }
        }
        if self.may_log(line.len()) {
            self.call.sink().log(level, &line);
        }
    }

    /// Describes how the plugin ended itself, as programs do and plugins may not.
    pub(crate) fn exit(&self) -> String {
        let words = self.last_words.as_ref().map_or_else(String::new, |words| format!("; its last words: {words}"));
        format!("it called exit instead of returning{words}")
    }

    /// Says, when the call has ended, which secrets it used and what was dropped.
    pub(crate) fn end(&mut self) {
        self.log_output(true);
        for (name, keys) in &self.secrets_used {
            let line = format!("audit: secret {name} was used, {keys} of its keys");
            self.call.sink().log(LogLevel::Info, &line);
        }
        if self.lines_dropped > 0 {
            let line =
                format!("{} more log lines of the plugin were dropped: over the call's allowance", self.lines_dropped);
            self.call.sink().log(LogLevel::Warn, &line);
        }
        if self.events_dropped > 0 {
            let line =
                format!("{} more events of the plugin were dropped: over the call's allowance", self.events_dropped);
            self.call.sink().log(LogLevel::Warn, &line);
        }
    }
}
