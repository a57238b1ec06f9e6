//! Metrics of this process, from /proc. What cannot be read is left out.

use std::fs;

use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

/// Fields of /proc/self/stat.
struct Stat {
    /// User and system time, in clock ticks.
    ticks: u64,
    threads: i64,
    /// When the process started, in clock ticks since boot.
    started: u64,
    /// In bytes.
    virtual_memory: i64,
    /// In pages.
    resident: i64,
}

/// Registers the metrics of the process.
pub fn register(registry: &mut Registry) {
    let stat = fs::read_to_string("/proc/self/stat").ok();
    if let Some(stat) = stat.as_deref().and_then(Stat::parse) {
        register_stat(registry, &stat);
    }
    if let Ok(descriptors) = fs::read_dir("/proc/self/fd") {
        // One of them is the folder itself, open for the count.
        let open = i64::try_from(descriptors.count()).unwrap_or(i64::MAX).saturating_sub(1);
        registry.register("process_open_fds", "Open file descriptors", ConstGauge::new(open));
    }
    let limits = fs::read_to_string("/proc/self/limits").ok();
    if let Some(most) = limits.as_deref().and_then(max_descriptors) {
        registry.register("process_max_fds", "File descriptors that may be open", ConstGauge::new(most));
    }
}

fn register_stat(registry: &mut Registry, stat: &Stat) {
    let hertz = rustix::param::clock_ticks_per_second().max(1);
    let page = i64::try_from(rustix::param::page_size()).unwrap_or(i64::MAX);
    registry.register("process_cpu_seconds", "Processor time used", ConstCounter::new(seconds(stat.ticks, hertz)));
    registry.register("process_threads", "Threads", ConstGauge::new(stat.threads));
    registry.register(
        "process_virtual_memory_bytes",
        "Size of the address space",
        ConstGauge::new(stat.virtual_memory),
    );
    registry.register(
        "process_resident_memory_bytes",
        "Memory in use",
        ConstGauge::new(stat.resident.saturating_mul(page)),
    );
    if let Some(boot) = fs::read_to_string("/proc/stat").ok().as_deref().and_then(boot_time) {
        let started = boot + seconds(stat.started, hertz);
        registry.register(
            "process_start_time_seconds",
            "When the process started, since the Unix epoch",
            ConstGauge::new(started),
        );
    }
}

impl Stat {
    /// Fields are numbered as in proc_pid_stat(5); the second, the program's name, may contain
    /// anything, but ends at the last parenthesis.
    fn parse(text: &str) -> Option<Self> {
        let after_name = text.rsplit_once(')')?.1;
        let fields: Vec<&str> = after_name.split_ascii_whitespace().collect();
        let field = |number: usize| fields.get(number.checked_sub(3)?).copied();
        let ticks = |number| field(number)?.parse::<u64>().ok();
        let figure = |number| field(number)?.parse::<i64>().ok();
        Some(Self {
            ticks: ticks(14)?.saturating_add(ticks(15)?),
            threads: figure(20)?,
            started: ticks(22)?,
            virtual_memory: figure(23)?,
            resident: figure(24)?,
        })
    }
}

#[expect(clippy::cast_precision_loss, reason = "ticks of a process's life are far below 2^52")]
fn seconds(ticks: u64, hertz: u64) -> f64 {
    ticks as f64 / hertz as f64
}

fn boot_time(stat: &str) -> Option<f64> {
    stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

/// The soft limit; none when it is unlimited.
fn max_descriptors(limits: &str) -> Option<i64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_name_with_spaces_and_parentheses_does_not_shift_the_fields() {
        let stat = "7 (a) (b c) S 1 7 7 0 -1 4194304 1 2 3 4 50 25 0 0 20 0 9 0 1234 8192 3 0 0";
        let stat = Stat::parse(stat).unwrap();
        assert_eq!(
            (stat.ticks, stat.threads, stat.started, stat.virtual_memory, stat.resident),
            (75, 9, 1234, 8192, 3)
        );
    }

    #[test]
    fn this_process_has_figures() {
        let mut registry = Registry::default();
        register(&mut registry);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        for name in
            ["cpu_seconds_total", "resident_memory_bytes", "open_fds", "max_fds", "start_time_seconds", "threads"]
        {
            assert!(text.contains(&format!("\nprocess_{name} ")), "{name} is missing in {text}");
        }
    }
}
