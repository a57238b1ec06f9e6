//! What a plugin may use up, and the meter that ends a call which uses more.

use std::time::Duration;

use crate::abort::Abort;

const MIB: usize = 1 << 20;
/// Bytes of the files that one volume shows.
const PAYLOAD_BYTES: usize = 16 * MIB;
/// Files that one volume shows.
const PAYLOAD_FILES: usize = 20_000;

/// The most linear memory that a call can be allowed, in bytes: what a sandbox has address space
/// for. Languages that bring a runtime of their own need more than the 64 MiB that plugins get
/// without a grant.
pub const MOST_MEMORY_BYTES: usize = 256 * MIB;

/// Every bound on a plugin. The defaults are generous for an honest plugin (15-60 KB of code, some
/// ten host calls) and small for the host.
#[derive(Debug, Clone)]
pub struct Limits {
    /// The largest plugin file, in bytes.
    pub file_bytes: u64,
    /// The largest compiled plugin, in bytes.
    pub compiled_bytes: u64,
    /// How long the compiler child may take by the clock. Catches a child that hangs;
    /// [`Limits::compile_cpu`] bounds one that works.
    pub compile_time: Duration,
    /// Processor time of the compiler child for any plugin.
    pub compile_cpu_base: Duration,
    /// Processor time of the compiler child for each MiB of code beyond the first.
    pub compile_cpu_per_mib: Duration,
    /// The most processor time of the compiler child, however much code the plugin has.
    pub compile_cpu_most: Duration,
    /// How long a plugin's own code may run when it describes itself.
    pub describe_time: Duration,
    /// Linear memory of one call, in bytes, all its memories together.
    pub memory_bytes: usize,
    /// Elements of one table.
    pub table_elements: usize,
    /// Core instances, memories and tables of one call, of each.
    pub instances: usize,
    /// Bytes that a plugin may hand over in one host call or one answer.
    pub transfer_bytes: usize,
    /// Handles that a plugin may have at once.
    pub handles: usize,
    /// Host calls that one call may make.
    pub host_calls: u32,
    /// Host calls of one call that may change something on the node.
    pub host_changes: u32,
    /// Time of one call in host calls, all together.
    pub host_time: Duration,
    /// The most that a single host call is charged of it. Long primitives (`mkfs`, a walk over a
    /// volume's files, a request to a driver) have deadlines of their own.
    pub host_time_charged: Duration,
    /// Folders that the host calls of one call may make, in volumes and at host paths.
    pub call_folders: u32,
    /// Folders that host calls may make inside one volume until it is torn down.
    pub volume_folders: u32,
    /// Files that the host calls of one call may write, all payloads and notes together.
    pub written_files: usize,
    /// Bytes that they may write, likewise.
    pub written_bytes: usize,
    /// Log lines of one call; further ones are counted and dropped.
    pub log_lines: u32,
    /// Bytes of log lines of one call, likewise.
    pub log_bytes: usize,
    /// Events of one call, likewise.
    pub events: u32,
    /// Bytes of all files that one volume is to show. An object of Kubernetes has 1 MiB at the
    /// most; a projected volume can show several.
    pub payload_bytes: usize,
    /// Files that one volume is to show.
    pub payload_files: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            file_bytes: 64 << 20,
            compiled_bytes: 256 << 20,
            // The clock must not punish a busy machine.
            compile_time: Duration::from_secs(900),
            // A plugin of 60 KiB takes 0.1 s, and `csi`, the largest that comes with volhost, 1 s. The
            // rest is for slow processors.
            compile_cpu_base: Duration::from_secs(20),
            // A Python component of 18 MiB, less than half of which is code, takes 18 s: some 3 s
            // for each MiB of code. A plugin with more code may take longer, but 15 KiB of nested
            // loops may not take minutes, however many other bytes the file has.
            compile_cpu_per_mib: Duration::from_secs(16),
            // Ten times what the largest plugin known takes.
            compile_cpu_most: Duration::from_secs(180),
            describe_time: Duration::from_secs(2),
            memory_bytes: 64 * MIB,
            table_elements: 20_000,
            instances: 32,
            transfer_bytes: MIB,
            handles: 1024,
            host_calls: 100_000,
            // An honest call changes ten things; a controller that makes a group of snapshots, some
            // hundred.
            host_changes: 4096,
            // 1,200 long host calls, more than a snapshot of 300 volumes takes, or 100,000 of 1.2
            // ms.
            host_time: Duration::from_secs(120),
            host_time_charged: Duration::from_millis(100),
            // One for each volume that a container mounts inside another; more than a pod may
            // mount.
            call_folders: 1024,
            volume_folders: 4096,
            // A payload is published once; again when it changes while it is read.
            written_files: 4 * PAYLOAD_FILES,
            written_bytes: 4 * PAYLOAD_BYTES,
            log_lines: 200,
            log_bytes: 64 << 10,
            events: 20,
            payload_bytes: PAYLOAD_BYTES,
            payload_files: PAYLOAD_FILES,
        }
    }
}

impl Limits {
    /// Returns the processor time that the compiler child may use for a plugin with so many bytes
    /// of code, in whole seconds and at least one: the kernel counts seconds.
    #[must_use]
    pub fn compile_cpu(&self, code: usize) -> u64 {
        let mib = u32::try_from(code.div_ceil(MIB)).unwrap_or(u32::MAX).saturating_sub(1);
        let time = self.compile_cpu_base.saturating_add(self.compile_cpu_per_mib.saturating_mul(mib));
        time.min(self.compile_cpu_most).as_secs().max(1)
    }
}

/// Counts memory of one call and ends it, with a reason a person understands, where wasmtime's own
/// limiter would only refuse.
#[derive(Debug)]
pub(crate) struct MemoryMeter {
    memory_left: usize,
    memory_limit: usize,
    table_elements: usize,
    instances: usize,
}

impl MemoryMeter {
    /// A meter of one call, with its plugin's own bound on memory if it has one.
    pub(crate) fn new(limits: &Limits, memory: Option<usize>) -> Self {
        let memory = memory.unwrap_or(limits.memory_bytes).min(MOST_MEMORY_BYTES);
        Self {
            memory_left: memory,
            memory_limit: memory,
            table_elements: limits.table_elements,
            instances: limits.instances,
        }
    }
}

impl wasmtime::ResourceLimiter for MemoryMeter {
    fn memory_growing(&mut self, current: usize, desired: usize, _maximum: Option<usize>) -> wasmtime::Result<bool> {
        let grown = desired.saturating_sub(current);
        match self.memory_left.checked_sub(grown) {
            Some(left) => {
                self.memory_left = left;
                Ok(true)
            }
            None => Err(Abort::limit(format!("more than {} MiB of memory", self.memory_limit / MIB)).into()),
        }
    }

    fn table_growing(&mut self, _current: usize, desired: usize, _maximum: Option<usize>) -> wasmtime::Result<bool> {
        if desired <= self.table_elements {
            return Ok(true);
        }
        Err(Abort::limit(format!("a table of more than {} elements", self.table_elements)).into())
    }

    fn instances(&self) -> usize {
        self.instances
    }

    fn tables(&self) -> usize {
        self.instances
    }

    fn memories(&self) -> usize {
        self.instances
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_for_compiling_grows_with_the_code_up_to_a_bound() {
        let limits = Limits::default();
        assert_eq!(limits.compile_cpu(15 << 10), 20);
        assert_eq!(limits.compile_cpu(MIB), 20);
        assert_eq!(limits.compile_cpu(7 * MIB), 20 + 6 * 16);
        assert_eq!(limits.compile_cpu(64 * MIB), 180);
        assert_eq!(limits.compile_cpu(usize::MAX), 180);
    }
}
