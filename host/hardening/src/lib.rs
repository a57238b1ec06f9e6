//! Drops the daemon's unneeded privileges, before it reads foreign input and before it has threads.
//!
//! The daemon has to be root, because it mounts, but needs few of root's capabilities and of the
//! system calls. [`capabilities`] lists what it keeps, and why; [`syscalls`] what it and its child
//! processes cannot call.
//!
//! FlexVolume drivers are the operator's programs, and may need all of root's capabilities. If a
//! folder of them is configured, the daemon's child processes keep these; each driver has a sandbox
//! of its own (`docs/flexvolume.md`). The daemon itself keeps no more than without.
#![deny(unsafe_code)]

pub mod capabilities;
mod error;
mod programs;
pub mod syscalls;

pub use error::HardenError;
pub use programs::Programs;

/// Drops unneeded privileges, for this thread and all that it starts. Without root there are few,
/// and these are dropped.
///
/// # Errors
/// [`HardenError`].
pub fn harden(programs: Programs) -> Result<(), HardenError> {
    capabilities::drop_unneeded(programs)?;
    if programs == Programs::Own {
        // A driver may be a program that changes its user by its file's bits; the daemon's own are
        // not.
        rustix::thread::set_no_new_privs(true).map_err(HardenError::at("renounce new privileges"))?;
        syscalls::forbid()?;
    }
    Ok(())
}
