//! Limits of the daemon's control groups.

use std::fs;
use std::path::{Path, PathBuf};

use super::check::Checks;
use super::subject::Subject;

/// Where control groups are.
const GROUPS: &str = "/sys/fs/cgroup";
/// The least memory that the daemon gets along with, in bytes: compiling a plugin takes most of it.
const LEAST_MEMORY: u64 = 256 << 20;
/// Threads beside those of operations: the loop, watchers, programs.
const OTHER_TASKS: u64 = 64;

/// A control group's limit of memory or tasks, and what is used of it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct GroupLimit {
    group: PathBuf,
    limit: u64,
    used: u64,
}

/// Checks the limits. `max_operations` threads run for one plugin at most.
pub(super) fn check(checks: &mut Checks, subject: Subject, max_operations: usize) {
    let groups = groups(subject);
    if groups.is_empty() {
        checks.ok("control group", "none has limits that can be read");
        return;
    }
    let name = subject.name();
    match tightest(&groups, "memory.max", "memory.current") {
        None => checks.ok("memory limit", format!("{name} has none")),
        Some(limit) if limit.limit < LEAST_MEMORY => checks.warning(
            "memory limit",
            format!("{} MiB, of {}", limit.limit >> 20, limit.group.display()),
            "compiling a plugin takes more, and the kernel ends what exceeds the limit",
            format!("raise it to {} MiB at least (MemoryMax= of the unit)", LEAST_MEMORY >> 20),
        ),
        Some(limit) => {
            checks.ok("memory limit", format!("{} MiB, {} MiB used", limit.limit >> 20, limit.used >> 20));
        }
    }
    let killed: u64 = groups.first().map_or(0, |group| killed(group));
    if killed > 0 {
        checks.warning(
            "memory shortage",
            format!("the kernel has ended {killed} processes of the control group of {name} for want of memory"),
            "a plugin that is being compiled, a FUSE server or the daemon itself may have been among them",
            "raise the limit of memory (MemoryMax= of the unit), or look for what uses it",
        );
    }
    let least = u64::try_from(max_operations).unwrap_or(u64::MAX).saturating_add(OTHER_TASKS);
    match tightest(&groups, "pids.max", "pids.current") {
        None => checks.ok("task limit", format!("{name} has none")),
        Some(limit) if limit.limit.saturating_sub(limit.used) < least => checks.warning(
            "task limit",
            format!("{} of {} tasks are used, of {}", limit.used, limit.limit, limit.group.display()),
            format!("{max_operations} operations of one plugin run at once, each on a thread; one that hangs keeps it"),
            "raise it (TasksMax= of the unit)",
        ),
        Some(limit) => checks.ok("task limit", format!("{} of {} used", limit.used, limit.limit)),
    }
}

/// The folders of the process's control group and of its parents.
fn groups(subject: Subject) -> Vec<PathBuf> {
    let Some(text) = subject.read("cgroup") else { return Vec::new() };
    // Version 2 has one line, `0::/PATH`.
    let Some(path) = text.lines().find_map(|line| line.strip_prefix("0::/")) else { return Vec::new() };
    let whole = Path::new(GROUPS).join(path);
    whole.ancestors().take_while(|folder| folder.starts_with(GROUPS)).map(Path::to_path_buf).collect()
}

/// The group with the least left.
fn tightest(groups: &[PathBuf], limit: &str, used: &str) -> Option<GroupLimit> {
    let limits = groups.iter().filter_map(|group| {
        // `max` is no number.
        let (limit, used) = (number(&group.join(limit))?, number(&group.join(used))?);
        Some(GroupLimit { group: group.clone(), limit, used })
    });
    limits.min_by_key(|limit| limit.limit.saturating_sub(limit.used))
}

fn number(file: &Path) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

/// How many processes the kernel has ended for want of memory.
fn killed(group: &Path) -> u64 {
    let text = fs::read_to_string(group.join("memory.events")).unwrap_or_default();
    text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_group_with_the_least_left_counts() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("inner");
        fs::create_dir(&inner).unwrap();
        let write = |group: &Path, limit: &str, used: &str| {
            fs::write(group.join("pids.max"), limit).unwrap();
            fs::write(group.join("pids.current"), used).unwrap();
        };
        write(&inner, "max\n", "3\n");
        write(folder.path(), "100\n", "7\n");
        let groups = [inner.clone(), folder.path().to_path_buf()];
        let limit = tightest(&groups, "pids.max", "pids.current").unwrap();
        assert_eq!((limit.limit, limit.used, limit.group.as_path()), (100, 7, folder.path()));
        write(&inner, "5\n", "3\n");
        assert_eq!(tightest(&groups, "pids.max", "pids.current").unwrap().group, inner);
        assert_eq!(tightest(&[], "pids.max", "pids.current"), None);
        fs::write(inner.join("memory.events"), "oom 4\noom_kill 2\n").unwrap();
        assert_eq!(killed(&inner), 2);
        assert_eq!(killed(folder.path()), 0);
    }
}
