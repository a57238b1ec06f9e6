//! The system calls that no program needs that makes, checks or resizes a file system on a device.

use seccompiler::{SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompRule};

use super::error::{FilterError, failed};

/// `open_tree_attr`, Linux 6.15. The same number on every processor.
const OPEN_TREE_ATTR: i64 = 467;

/// What no program that makes or checks a file system calls: mounts, other processes, objects
/// shared with them, sockets, and what changes the machine.
pub(super) const NOT_FOR_TOOLS: &[i64] = &[
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_open_tree,
    OPEN_TREE_ATTR,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_unshare,
    libc::SYS_open_by_handle_at,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_fanotify_init,
    libc::SYS_fanotify_mark,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_migrate_pages,
    libc::SYS_move_pages,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    // Signals. A program that aborts sends one to itself; refused, it ends by an illegal
    // instruction.
    libc::SYS_kill,
    libc::SYS_tkill,
    libc::SYS_tgkill,
    libc::SYS_pidfd_send_signal,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
    // Priorities and processors of other processes of root.
    libc::SYS_setpriority,
    libc::SYS_ioprio_set,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setscheduler,
    libc::SYS_sched_setattr,
    libc::SYS_sched_setaffinity,
    // Memory, semaphores and queues that root's processes share.
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_semctl,
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_msgctl,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
    libc::SYS_socket,
    libc::SYS_socketpair,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_syslog,
    libc::SYS_acct,
];

/// The numbers that only the x32 calling convention has. They name calls of the list above, `ioctl`
/// among them, a second time.
#[cfg(target_arch = "x86_64")]
pub(super) const X32_ONLY: std::ops::RangeInclusive<i64> = 512..=547;

/// Device calls (`ioctl`) of one kind: those whose number agrees with `number` in the bits of
/// `mask`.
#[derive(Debug, Clone, Copy)]
struct Requests {
    number: u64,
    mask: u64,
}

/// The bits of a request's number that say what is asked for: its type and its place in the type.
/// Those above have the size and the direction of the argument.
const MEANING: u64 = 0xFFFF;
const ONE: u64 = MEANING;
const WHOLE_TYPE: u64 = 0xFF00;

/// The requests of the tools to devices and their own output. File systems have other types for
/// theirs (`X`, `f`, `v`, 0x94, and others that a kernel may add), by which a program could freeze
/// the host's file system through any of its files.
const FOR_TOOLS: [Requests; 5] = [
    // <linux/fs.h>: block devices.
    Requests { number: 0x1200, mask: WHOLE_TYPE },
    // HDIO_GETGEO: the shape that a disk claims to have.
    Requests { number: 0x0301, mask: ONE },
    // TCGETS and TCGETS2, by which the C library asks if the output is a terminal, and TIOCGWINSZ.
    Requests { number: 0x5401, mask: ONE },
    Requests { number: 0x542A, mask: ONE },
    Requests { number: 0x5413, mask: ONE },
];

/// Fits every `ioctl` that the tools do not need.
pub(super) fn refused_ioctls() -> Result<Vec<SeccompRule>, FilterError> {
    let mut others = Vec::new();
    find_others(Requests { number: 0, mask: 0 }, &mut others);
    others
        .into_iter()
        .map(|Requests { number, mask }| {
            // The kernel reads 32 bits of the argument.
            let fits = SeccompCondition::new(1, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(mask), number);
            fits.and_then(|fits| SeccompRule::new(vec![fits])).map_err(failed)
        })
        .collect()
}

/// Splits `within` by one bit after the other until each part is allowed whole or refused whole,
/// and adds the refused ones: a filter can compare for equality under a mask, and not for the
/// opposite.
fn find_others(within: Requests, others: &mut Vec<Requests>) {
    let overlapping = |allowed: &&Requests| (allowed.number ^ within.number) & allowed.mask & within.mask == 0;
    let mut overlapping = FOR_TOOLS.iter().filter(overlapping).peekable();
    if overlapping.peek().is_none() {
        return others.push(within);
    }
    let bit = (MEANING & !within.mask).checked_ilog2().map(|place| 1 << place);
    let Some(bit) = bit.filter(|_| overlapping.all(|allowed| allowed.mask & !within.mask != 0)) else { return };
    for number in [within.number, within.number | bit] {
        find_others(Requests { number, mask: within.mask | bit }, others);
    }
}

/// Fits a `prlimit` of another process: a limit of 0 on processor time would end it.
pub(super) fn limits_of_others() -> Result<Vec<SeccompRule>, FilterError> {
    let other = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, 0);
    let rule = other.and_then(|other| SeccompRule::new(vec![other])).map_err(failed)?;
    Ok(vec![rule])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(request: u64) -> bool {
        let mut others = Vec::new();
        find_others(Requests { number: 0, mask: 0 }, &mut others);
        others.iter().any(|other| request & other.mask == other.number)
    }

    #[test]
    fn what_is_asked_of_a_file_system_is_refused() {
        for (name, request) in [
            ("FIFREEZE", 0xC004_5877),
            ("FITRIM", 0xC018_5879),
            ("EXT4_IOC_SHUTDOWN, XFS_IOC_GOINGDOWN", 0x8004_587D),
            ("EXT4_IOC_RESIZE_FS", 0x4008_6610),
            ("FS_IOC_SETFLAGS", 0x4008_6602),
            ("FS_IOC_SETVERSION", 0x4008_7602),
            ("BTRFS_IOC_DEV_INFO", 0xD000_941E),
            ("BTRFS_IOC_RM_DEV", 0x5000_940B),
            ("F2FS_IOC_GARBAGE_COLLECT", 0x4004_F506),
            ("FIBMAP", 0x0001),
            ("SG_IO", 0x2285),
            ("TIOCSTI", 0x5412),
            ("HDIO_DRIVE_CMD", 0x031F),
        ] {
            assert!(refused(request), "{name}");
        }
    }

    #[test]
    fn what_the_tools_ask_is_allowed() {
        for (name, request) in [
            ("BLKGETSIZE64", 0x8008_1272),
            ("BLKSSZGET", 0x1268),
            ("BLKBSZSET", 0x4008_1271),
            ("BLKDISCARD", 0x1277),
            ("BLKZEROOUT", 0x127F),
            ("BLKREPORTZONE", 0xC010_1282),
            ("BLKFLSBUF", 0x1261),
            ("HDIO_GETGEO", 0x0301),
            ("TCGETS", 0x5401),
            ("TCGETS2", 0x802C_542A),
            ("TIOCGWINSZ", 0x5413),
        ] {
            assert!(!refused(request), "{name}");
        }
    }

    #[test]
    fn every_request_is_either_allowed_or_refused() {
        for request in 0..=MEANING {
            let allowed = FOR_TOOLS.iter().any(|one| request & one.mask == one.number);
            assert_ne!(refused(request), allowed, "{request:#x}");
        }
    }
}
