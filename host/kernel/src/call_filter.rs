//! Filters of system calls (seccomp) for programs that the host starts. A filter counts for the
//! thread that sets it, for the programs that the thread starts from then on, and for their
//! children; nothing removes it.

mod device_work;
mod error;

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    apply_filter,
};

use self::device_work::{NOT_FOR_TOOLS, limits_of_others, refused_ioctls};
pub use self::error::FilterError;
use self::error::failed;

/// The flags by which `clone` and `unshare` make namespaces.
const NAMESPACES: [libc::c_int; 8] = [
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWCGROUP,
    NEW_TIME,
];
/// `CLONE_NEWTIME`, which the C library's tables lack on some targets. In `clone` its bit belongs
/// to the signal at the end of the child, so there it is left alone.
const NEW_TIME: libc::c_int = 0x80;

/// Calls of another calling convention of the same processor (x32) carry this bit; without it they
/// would pass unseen.
#[cfg(target_arch = "x86_64")]
const OTHER_CONVENTION: i64 = 0x4000_0000;

/// Keeps this thread, and what it starts, from making namespaces and from entering others: `clone`
/// and `unshare` that ask for one and every `setns` are "not permitted". `clone3`, whose flags no
/// filter sees, is "not implemented": the C library then uses `clone`. Renounces new privileges.
///
/// # Errors
/// [`FilterError`].
pub fn forbid_namespaces() -> Result<(), FilterError> {
    let mut rules = BTreeMap::new();
    let asks = |flag: &libc::c_int| {
        let flag = u64::from(flag.unsigned_abs());
        let asks = SeccompCondition::new(0, SeccompCmpArgLen::Qword, SeccompCmpOp::MaskedEq(flag), flag);
        asks.and_then(|asks| SeccompRule::new(vec![asks])).map_err(failed)
    };
    let of_clone = NAMESPACES.iter().filter(|flag| **flag != NEW_TIME).map(asks).collect::<Result<Vec<_>, _>>()?;
    add(&mut rules, libc::SYS_clone, &of_clone);
    add(&mut rules, libc::SYS_unshare, &NAMESPACES.iter().map(asks).collect::<Result<Vec<_>, _>>()?);
    add(&mut rules, libc::SYS_setns, &[]);
    set(rules, libc::EPERM)?;
    let mut rules = BTreeMap::new();
    add(&mut rules, libc::SYS_clone3, &[]);
    set(rules, libc::ENOSYS)
}

/// Leaves this thread, and what it starts, what a program needs that works on one device;
/// [`forbid_namespaces`] included.
///
/// # Errors
/// [`FilterError`].
pub(crate) fn forbid_all_but_device_work() -> Result<(), FilterError> {
    forbid_namespaces()?;
    let mut rules = BTreeMap::new();
    for call in NOT_FOR_TOOLS {
        add(&mut rules, *call, &[]);
    }
    add(&mut rules, libc::SYS_ioctl, &refused_ioctls()?);
    add(&mut rules, libc::SYS_prlimit64, &limits_of_others()?);
    #[cfg(target_arch = "x86_64")]
    for call in device_work::X32_ONLY {
        add(&mut rules, call, &[]);
    }
    set(rules, libc::EPERM)
}

/// Refuses a call where one of these rules fits; without any, always.
fn add(rules: &mut BTreeMap<i64, Vec<SeccompRule>>, call: i64, when: &[SeccompRule]) {
    rules.insert(call, when.to_vec());
    #[cfg(target_arch = "x86_64")]
    rules.insert(call | OTHER_CONVENTION, when.to_vec());
}

fn set(rules: BTreeMap<i64, Vec<SeccompRule>>, errno: libc::c_int) -> Result<(), FilterError> {
    let arch = std::env::consts::ARCH.try_into().map_err(failed)?;
    let refused = SeccompAction::Errno(errno.unsigned_abs());
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refused, arch).map_err(failed)?;
    let program: BpfProgram = filter.try_into().map_err(failed)?;
    apply_filter(&program).map_err(failed)
}

#[cfg(test)]
mod tests {
    use std::ffi::CString;
    use std::io::Read;
    use std::os::fd::AsFd;

    use rustix::process::{WaitOptions, waitpid};

    use super::*;
    use crate::child::{NewChild, spawn};

    /// Runs a program from a thread that has the filter: its exit code, and what it complained.
    fn filtered(filter: fn() -> Result<(), FilterError>, program: &str, arguments: &[&str]) -> (Option<i32>, String) {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                filter().unwrap();
                let words: Vec<CString> =
                    [&[program], arguments].concat().into_iter().map(|word| CString::new(word).unwrap()).collect();
                let nothing = std::fs::File::open("/dev/null").unwrap();
                let (mut from, to) = std::io::pipe().unwrap();
                let child = NewChild {
                    program: &words[0],
                    arguments: &words,
                    environment: &[],
                    stdio: [nothing.as_fd(), to.as_fd(), to.as_fd()],
                    inherited: &[],
                    own_group: false,
                };
                let child = spawn(&child).unwrap();
                drop(to);
                let mut complaints = String::new();
                from.read_to_string(&mut complaints).unwrap();
                let (_, status) = waitpid(Some(child), WaitOptions::empty()).unwrap().unwrap();
                (status.exit_status(), complaints)
            });
            thread.join().unwrap()
        })
    }

    #[test]
    fn no_namespace_is_made_or_entered() {
        for kind in ["--user", "--mount", "--net", "--pid", "--ipc", "--uts", "--cgroup", "--time"] {
            let (code, complaints) = filtered(forbid_namespaces, "/usr/bin/unshare", &[kind, "/bin/true"]);
            assert!(code == Some(1) && complaints.contains("not permitted"), "{kind}: {code:?} {complaints}");
        }
        let arguments = ["--uts=/proc/self/ns/uts", "/bin/true"];
        let (code, complaints) = filtered(forbid_namespaces, "/usr/bin/nsenter", &arguments);
        assert!(code == Some(1) && complaints.contains("not permitted"), "{code:?} {complaints}");
    }

    #[test]
    fn children_of_a_filtered_program_are_made_and_have_the_filter() {
        let script = "/bin/true && ! /usr/bin/unshare --user /bin/true 2>/dev/null";
        let (code, complaints) = filtered(forbid_namespaces, "/bin/sh", &["-c", script]);
        assert_eq!((code, complaints.as_str()), (Some(0), ""));
    }

    #[test]
    fn a_tool_gets_no_socket_and_no_mount() {
        let (code, _) = filtered(forbid_all_but_device_work, "/bin/sh", &["-c", "read x < /proc/self/stat"]);
        assert_eq!(code, Some(0));
        let (code, complaints) = filtered(forbid_all_but_device_work, "/bin/umount", &["/proc"]);
        assert!(code != Some(0), "{complaints}");
    }

    #[test]
    fn a_tool_freezes_no_file_system_and_reaches_no_other_process() {
        let other = std::process::id().to_string();
        // A file system in memory cannot be frozen; without the filter the kernel says that it is
        // not supported.
        for (program, arguments) in [
            ("/usr/sbin/fsfreeze", &["--freeze", "/dev/shm"][..]),
            ("/bin/sh", &["-c", "kill -0 $PPID"]),
            ("/usr/bin/renice", &["-n", "0", "-p", &other]),
            ("/usr/bin/ionice", &["-c", "2", "-p", &other]),
            ("/usr/bin/taskset", &["-p", "ffffffff", &other]),
            ("/usr/bin/chrt", &["--other", "-p", "0", &other]),
            ("/usr/bin/prlimit", &["--pid", &other, "--nofile"]),
        ] {
            let (code, complaints) = filtered(forbid_all_but_device_work, program, arguments);
            let refused = complaints.to_lowercase().contains("not permitted");
            assert!(code != Some(0) && refused, "{program} {arguments:?}: {code:?} {complaints}");
        }
    }
}
