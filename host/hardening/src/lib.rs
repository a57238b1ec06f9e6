//! The daemon gives up what it does not need, before it reads anything that others wrote and before it has threads.
//!
//! It is root and has to stay it: it mounts. But of root's rights most are for other work, and so are many system calls. What it keeps, and
//! why, is in [`capabilities`]; what it and the programs it starts cannot call, in [`syscalls`].
//!
//! FlexVolume drivers are programs of the operator's that may need anything root may do. Where a folder of them is configured, the programs
//! that the daemon starts keep root's rights; what each of them needs not, its own sandbox takes (`docs/flexvolume.md`). The daemon itself keeps
//! no more than without.
#![deny(unsafe_code)]

pub mod capabilities;
pub mod syscalls;

use rustix::io::Errno;
use thiserror::Error;

/// A right could not be given up. The daemon does not start: it would be less confined than its operator reads.
#[derive(Debug, Error)]
#[error("the daemon cannot {step}: {why}")]
pub struct HardenError {
    step: &'static str,
    why: String,
}

impl HardenError {
    fn at(step: &'static str) -> impl Fn(Errno) -> Self {
        move |errno| Self { step, why: errno.to_string() }
    }
}

/// What the programs that the daemon starts may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Programs {
    /// The daemon's own compiler and the tools of file systems.
    Own,
    /// The operator's drivers besides.
    Drivers,
}

/// Gives up what is not needed, for this thread and all that it starts. Started without root there is little to give up, and what there is goes.
///
/// # Errors
/// [`HardenError`].
pub fn harden(programs: Programs) -> Result<(), HardenError> {
    capabilities::drop_unneeded(programs)?;
    if programs == Programs::Own {
        // A driver may be a program that changes its user by its file's bits; the daemon's own are not.
        rustix::thread::set_no_new_privs(true).map_err(HardenError::at("renounce new privileges"))?;
        syscalls::forbid()?;
    }
    Ok(())
}
