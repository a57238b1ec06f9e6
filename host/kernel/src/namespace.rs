//! A mount namespace for a thread: no other thread sees its mounts, and they go with the thread.

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

use crate::error::{Errno, KernelError};
use crate::step::Step;

/// Gives this thread, and the threads and programs that it starts from now on, a mount namespace of
/// their own, with a copy of what is mounted now. The rest of the process stays where it is.
///
/// # Guarantees
/// Nothing that is mounted or unmounted in it travels to another namespace, and nothing travels
/// into it. The kernel takes it apart when the last thread in it has ended.
///
/// # Errors
/// `Failed`: with `PERM` when the process is not root.
pub fn unshare_mounts() -> Result<(), KernelError> {
    let failed = |path: &str, errno: nix::errno::Errno| KernelError::Failed {
        step: Step::UnshareMounts,
        path: path.to_owned(),
        errno: Errno::from_raw_os_error(errno as i32),
        detail: String::new(),
    };
    unshare(CloneFlags::CLONE_FS | CloneFlags::CLONE_NEWNS).map_err(|errno| failed("this thread", errno))?;
    mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>)
        .map_err(|errno| failed("/", errno))
}
