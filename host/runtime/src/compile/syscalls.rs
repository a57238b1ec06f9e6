//! What the compiler may call: memory, its three pipes, and its end. A filter of the kernel's
//! (seccomp) refuses the rest, so that a plugin which took the compiler over could do nothing to
//! the machine but compile wrongly.

use std::collections::BTreeMap;

use seccompiler::{BackendError, BpfProgram, SeccompAction, SeccompFilter, apply_filter};
use thiserror::Error;

/// The calls.
const ALLOWED: &[i64] = &[
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_close,
    libc::SYS_fstat,
    libc::SYS_lseek,
    libc::SYS_brk,
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_mprotect,
    libc::SYS_madvise,
    libc::SYS_futex,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_clock_gettime,
    libc::SYS_getrandom,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_gettid,
    libc::SYS_getpid,
    libc::SYS_tgkill,
    libc::SYS_exit,
    libc::SYS_exit_group,
];

/// The step that failed. All system calls are then allowed still.
#[derive(Debug, Error)]
pub(super) enum CompilerFilterError {
    /// This processor is not known.
    #[error("{0}")]
    Processor(#[source] BackendError),
    /// The filter cannot be made.
    #[error("{0}")]
    Make(#[source] BackendError),
    /// The kernel does not take the filter.
    #[error("{0}")]
    Apply(#[source] seccompiler::Error),
}

/// Refuses all other calls from here on.
///
/// # Errors
/// [`CompilerFilterError`].
pub(super) fn allow_only_compiling() -> Result<(), CompilerFilterError> {
    let rules = ALLOWED.iter().map(|call| (*call, Vec::new())).collect::<BTreeMap<_, _>>();
    let arch = std::env::consts::ARCH.try_into().map_err(CompilerFilterError::Processor)?;
    let refused = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    let filter = SeccompFilter::new(rules, refused, SeccompAction::Allow, arch).map_err(CompilerFilterError::Make)?;
    let program: BpfProgram = filter.try_into().map_err(CompilerFilterError::Make)?;
    apply_filter(&program).map_err(CompilerFilterError::Apply)
}
