//! A seccomp filter that answers "not permitted" to system calls that neither the daemon nor its
//! child processes need. It closes ways from root into the kernel that dropped capabilities alone
//! would leave open, or a defect of the kernel would open again.

use std::collections::BTreeMap;

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, apply_filter};

use super::error::HardenError;

/// The forbidden calls, by purpose.
const FORBIDDEN: &[i64] = &[
    // Loading another kernel, or kernel modules.
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_reboot,
    libc::SYS_bpf,
    // Into other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_kcmp,
    // The state of the machine.
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_adjtimex,
    libc::SYS_clock_adjtime,
    libc::SYS_acct,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_syslog,
    libc::SYS_vhangup,
    libc::SYS_pivot_root,
    libc::SYS_personality,
    // Keys of other users.
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    // Calls that a filter cannot see.
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
];

/// Installs the filter, irrevocably.
pub(super) fn forbid() -> Result<(), HardenError> {
    let failed = |why: String| HardenError::new("forbid system calls that it does not need", why);
    let rules = FORBIDDEN.iter().map(|call| (*call, Vec::new())).collect::<BTreeMap<_, _>>();
    let arch = std::env::consts::ARCH.try_into().map_err(|error| failed(format!("{error}")))?;
    let denied = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    let filter =
        SeccompFilter::new(rules, SeccompAction::Allow, denied, arch).map_err(|error| failed(error.to_string()))?;
    let program: BpfProgram = filter.try_into().map_err(|error| failed(format!("{error}")))?;
    apply_filter(&program).map_err(|error| failed(error.to_string()))
}
