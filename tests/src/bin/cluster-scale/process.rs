//! Memory and processor time of processes, as the kernel counts them.

use std::fs;

/// The memory of a process, in MiB.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Memory {
    /// Resident, with what it shares with others.
    pub(crate) resident: f64,
    /// Its own, and its part of what it shares.
    pub(crate) proportional: f64,
}

/// The memory of this process now; none of one that has ended.
pub(crate) fn memory_of(process: u32) -> Memory {
    let of = |field: &str| field_mib(&format!("/proc/{process}/smaps_rollup"), field).unwrap_or_default();
    Memory { resident: of("Rss:"), proportional: of("Pss:") }
}

/// The most memory that it has had resident, in MiB.
pub(crate) fn peak_mib(process: u32) -> f64 {
    field_mib(&format!("/proc/{process}/status"), "VmHWM:").unwrap_or_default()
}

fn field_mib(file: &str, field: &str) -> Option<f64> {
    let text = fs::read_to_string(file).ok()?;
    let line = text.lines().find(|line| line.starts_with(field))?;
    Some(line.split_whitespace().nth(1)?.parse::<f64>().ok()? / 1024.0)
}

/// The processor time that it has taken, in seconds, of its own and in the kernel.
pub(crate) fn processor_seconds_of(process: u32) -> f64 {
    /// What the kernel counts by, on every machine.
    const TICKS_OF_A_SECOND: f64 = 100.0;
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // The name may have spaces.
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks = fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok());
    ticks.sum::<f64>() / TICKS_OF_A_SECOND
}
