//! Gives up every privilege before the first byte of a plugin is read.

use nix::sys::prctl;
use nix::sys::resource::{Resource, setrlimit};
use nix::unistd::{Uid, chdir, chroot};
use thiserror::Error;
use volhost_process::{PrivilegeError, Privileges, ProcessLimits};

/// The user and group `nobody`, which own nothing.
const NOBODY: u32 = 65534;
/// Address space, in bytes: Cranelift needs a few hundred MiB for the largest plugin.
pub(super) const ADDRESS_SPACE: u64 = 4 << 30;
/// When memory runs out, the kernel ends this process first: volhost compiles the plugin again, and
/// a pod lost to it would not come back.
const OOM_SCORE: &str = "1000";
/// The increment of the priority number of the process: compiling gets half of what a mount gets of
/// a busy processor. Pods may wait for the plugin, so that it must not starve.
const NICE: i32 = 3;
/// How many seconds after the signal that names the processor time as the cause (SIGXCPU) the
/// kernel kills the process.
const KILL_AFTER: u64 = 1;
/// Open files: standard input, output and error, and not one more. No file, no socket can be
/// opened.
const OPEN_FILES: u64 = 3;

/// The step that failed. The child then refuses to work.
#[derive(Debug, Error)]
pub(super) enum ConfineError {
    /// A privilege stays.
    #[error("the compiler {0}")]
    Privileges(#[from] PrivilegeError),
    /// Another step failed.
    #[error("the compiler cannot {step}: {errno}")]
    Step {
        /// The step.
        step: &'static str,
        /// The kernel's answer.
        errno: nix::errno::Errno,
    },
}

/// Makes this process as powerless as an ordinary program can be. Started without root it keeps its
/// user, and still loses the rest; so it does in a user namespace that has no other user to become.
///
/// The kernel ends the process when it has used `cpu_seconds` of processor time.
pub(super) fn confine(cpu_seconds: u64) -> Result<(), ConfineError> {
    let at = |step| move |errno| ConfineError::Step { step, errno };
    // While proc can still be read and written.
    if let Err(error) = std::fs::write("/proc/self/oom_score_adj", OOM_SCORE) {
        tracing::debug!(%error, "the compiler keeps its rank when memory runs out");
    }
    let can_become_nobody = Uid::effective().is_root() && is_mapped(NOBODY);
    if Uid::effective().is_root() {
        // An empty folder of the kernel's as root folder. Where proc is not mounted, the missing
        // right to open files has to do.
        if let Err(errno) = chroot("/proc/self/fdinfo") {
            tracing::debug!(%errno, "the compiler keeps its root folder");
        }
    }
    let privileges = Privileges {
        user: can_become_nobody.then_some(NOBODY),
        group: None,
        capabilities: Some(0),
        no_new_privileges: true,
        // The filter of system calls allows far less.
        no_namespaces: false,
        limits: ProcessLimits {
            memory: Some(ADDRESS_SPACE),
            // Below, with two values.
            cpu_seconds: None,
            open_files: Some(OPEN_FILES),
            file_bytes: Some(0),
            processes: Some(0),
            core_bytes: Some(0),
        },
    };
    privileges.enforce()?;
    chdir("/").map_err(at("leave its folder"))?;
    // Nothing of it, which may be a plugin's bytes, in a core dump; and no tracing by others of its
    // user. Last, because changing the user sets it anew.
    prctl::set_dumpable(false).map_err(at("forbid core dumps"))?;
    setrlimit(Resource::RLIMIT_CPU, cpu_seconds, cpu_seconds.saturating_add(KILL_AFTER))
        .map_err(at("limit its CPU time"))?;
    if let Err(errno) = rustix::process::nice(NICE) {
        tracing::debug!(%errno, "the compiler keeps its priority");
    }
    Ok(())
}

/// Returns whether a user id exists in this user namespace. Where that cannot be read, there is no
/// such namespace.
fn is_mapped(id: u32) -> bool {
    let Ok(map) = std::fs::read_to_string("/proc/self/uid_map") else {
        return true;
    };
    map.lines().any(|line| {
        let mut numbers = line.split_whitespace().map(str::parse::<u64>);
        match (numbers.next(), numbers.nth(1)) {
            (Some(Ok(first)), Some(Ok(count))) => (first..first.saturating_add(count)).contains(&u64::from(id)),
            _ => false,
        }
    })
}
