//! How many compiler children may run at the same time.

use super::confine::ADDRESS_SPACE;

/// More children than this save little time when a node starts, and compete with its pods for the
/// processors.
const MOST: u64 = 4;
/// The children together may use one part in so many of the machine's memory.
const MEMORY_SHARE: u64 = 2;
/// The unit of `/proc/meminfo`, in bytes.
const KIB: u64 = 1024;

/// Returns how many compiler children may run at the same time on this machine: one per processor,
/// and no more than have room in half of its memory if each one uses its whole bound. At least one.
#[must_use]
pub fn compilers() -> usize {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    // Without /proc the amount is unknown, and one child runs at a time.
    let memory = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| total_bytes(&text)).unwrap_or(0);
    at_once(processors, memory)
}

/// The number of children for so many processors and bytes of memory.
fn at_once(processors: usize, memory: u64) -> usize {
    let fitting = (memory / MEMORY_SHARE / ADDRESS_SPACE).min(MOST);
    processors.min(usize::try_from(fitting).unwrap_or(1)).max(1)
}

/// The machine's memory in bytes, from the text of `/proc/meminfo`.
fn total_bytes(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    kib.checked_mul(KIB)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn the_children_together_use_at_most_half_of_the_memory() {
        for (processors, memory, expected) in [
            (1, 64 * GIB, 1),
            (2, 64 * GIB, 2),
            (16, 16 * GIB, 2),
            (16, 64 * GIB, 4),
            (16, 1024 * GIB, 4),
            (16, 4 * GIB, 1),
            (4, 0, 1),
            (0, 64 * GIB, 1),
        ] {
            assert_eq!(at_once(processors, memory), expected, "{processors} processors, {memory} bytes");
        }
    }

    #[test]
    fn the_amount_of_memory_is_read() {
        assert_eq!(total_bytes("MemTotal:       16384000 kB\nMemFree:  1 kB\n"), Some(16_384_000 * KIB));
        assert_eq!(total_bytes("MemFree: 1 kB\n"), None);
        assert!(std::fs::read_to_string("/proc/meminfo").is_ok_and(|text| total_bytes(&text).is_some()));
    }
}
