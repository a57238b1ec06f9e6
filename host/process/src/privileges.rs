//! What a process that was started may do: it drops the rest itself, before it becomes the program.

use nix::errno::Errno;
use nix::sys::prctl;
use nix::sys::resource::{Resource, setrlimit};
use nix::unistd::{Gid, Uid, setgroups, setresgid, setresuid};
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};
use serde::{Deserialize, Serialize};
use thiserror::Error;
use volhost_kernel::call_filter::{FilterError, forbid_namespaces};
use volhost_kernel::capabilities::limit_bounding_set;

/// What a process keeps. Without any of it given, the process keeps everything.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Privileges {
    /// The user that it becomes, without supplementary groups.
    pub user: Option<u32>,
    /// The group that it becomes; that of the user's number where only the user is given.
    pub group: Option<u32>,
    /// The capabilities that it keeps if it is root, as bits; a process of another user keeps none.
    /// None leaves them alone.
    pub capabilities: Option<u64>,
    /// No program that it starts gains privileges.
    pub no_new_privileges: bool,
    /// It and its children make no namespace and enter no other. Implies `no_new_privileges`.
    pub no_namespaces: bool,
    /// The most that it may use.
    pub limits: ProcessLimits,
}

/// The most that a process may use. None leaves a limit as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessLimits {
    /// Memory that it maps, in bytes.
    pub memory: Option<u64>,
    /// Processor time, in seconds.
    pub cpu_seconds: Option<u64>,
    /// Open files.
    pub open_files: Option<u64>,
    /// The largest file that it writes, in bytes.
    pub file_bytes: Option<u64>,
    /// Processes of its user.
    pub processes: Option<u64>,
    /// The largest core dump, in bytes: 0 keeps secrets in memory out of files.
    pub core_bytes: Option<u64>,
}

/// The step that failed. The process keeps what it had not dropped by then, and must not go on.
#[derive(Debug, Error)]
pub enum PrivilegeError {
    /// A step failed.
    #[error("cannot {step}: {errno}")]
    Step {
        /// The step.
        step: &'static str,
        /// The kernel's answer.
        errno: Errno,
    },
    /// The filter of system calls could not be set.
    #[error(transparent)]
    Filter(#[from] FilterError),
}

fn at(step: &'static str) -> impl Fn(Errno) -> PrivilegeError {
    move |errno| PrivilegeError::Step { step, errno }
}

fn nix_errno(errno: rustix::io::Errno) -> Errno {
    Errno::from_raw(errno.raw_os_error())
}

impl Privileges {
    /// Drops everything else, for this process and all that it starts. To be called while the
    /// process has one thread.
    ///
    /// # Errors
    /// [`PrivilegeError`].
    pub fn enforce(&self) -> Result<(), PrivilegeError> {
        self.limits.set()?;
        let kept = self.capabilities.map(CapabilitySet::from_bits_retain);
        if let Some(kept) = kept {
            match limit_bounding_set(kept) {
                // Without root nothing that is started gets any of it anyway.
                Ok(()) | Err(rustix::io::Errno::PERM) => {}
                Err(errno) => return Err(at("drop its capabilities")(nix_errno(errno))),
            }
        }
        self.become_user()?;
        if let Some(kept) = kept {
            let kept = if Uid::effective().is_root() { kept } else { CapabilitySet::empty() };
            // What root has when it begins a program is the bounding set; this is what it has until
            // then.
            let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
            set_capabilities(None, sets).map_err(|errno| at("drop its capabilities")(nix_errno(errno)))?;
        }
        if self.no_new_privileges || self.no_namespaces {
            prctl::set_no_new_privs().map_err(at("renounce new privileges"))?;
        }
        if self.no_namespaces {
            // In a user namespace of its own any process is root, and reaches far more of the
            // kernel.
            forbid_namespaces()?;
        }
        Ok(())
    }

    fn become_user(&self) -> Result<(), PrivilegeError> {
        if let Some(group) = self.group.or(self.user) {
            let group = Gid::from_raw(group);
            if Uid::effective().is_root() {
                // Groups first: a process without root cannot drop them.
                setgroups(&[]).map_err(at("give up its groups"))?;
            }
            setresgid(group, group, group).map_err(at("take its group"))?;
        }
        if let Some(user) = self.user {
            let user = Uid::from_raw(user);
            setresuid(user, user, user).map_err(at("take its user"))?;
        }
        Ok(())
    }
}

impl ProcessLimits {
    fn set(&self) -> Result<(), PrivilegeError> {
        for (resource, most, step) in [
            (Resource::RLIMIT_CORE, self.core_bytes, "forbid core dumps"),
            (Resource::RLIMIT_AS, self.memory, "limit its memory"),
            (Resource::RLIMIT_CPU, self.cpu_seconds, "limit its processor time"),
            (Resource::RLIMIT_NOFILE, self.open_files, "limit its open files"),
            (Resource::RLIMIT_FSIZE, self.file_bytes, "limit its files"),
            (Resource::RLIMIT_NPROC, self.processes, "limit its processes"),
        ] {
            if let Some(most) = most {
                setrlimit(resource, most, most).map_err(at(step))?;
            }
        }
        Ok(())
    }
}
