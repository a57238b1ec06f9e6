//! The launcher: a process that gives up every right and becomes the helper. It runs as this program itself, started anew.

use std::convert::Infallible;
use std::ffi::{CString, NulError};
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use nix::errno::Errno;
use nix::sys::prctl;
use nix::sys::resource::{Resource, setrlimit};
use nix::unistd::{Gid, Uid, execve, setgroups, setresgid, setresuid};
use rustix::fs::{CWD, Mode, OFlags};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capability_is_in_bounding_set, remove_capability_from_bounding_set, set_capabilities,
};
use serde::{Deserialize, Serialize};
use thiserror::Error;
use volhost_kernel::call_filter::{FilterError, forbid_namespaces};
use volhost_runtime::{HelperArgument, HelperPart, HelperRights};

/// The first descriptor that the launcher is given: the connection.
const FIRST: usize = 3;
/// The kernel's sets of rights have so many bits.
const NUMBERS: u32 = 64;

/// What the launcher reads from its input: complete, or it ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Settings {
    pub(crate) program: PathBuf,
    pub(crate) arguments: Vec<HelperArgument>,
    pub(crate) environment: Vec<(String, String)>,
    pub(crate) rights: HelperRights,
}

/// Why the helper did not begin.
#[derive(Debug, Error)]
enum LaunchError {
    /// Who started it is gone, or told it something else.
    #[error("what the helper is to be cannot be read: {0}")]
    Settings(#[from] serde_json::Error),
    /// The input cannot be read.
    #[error("what the helper is to be cannot be read: {0}")]
    Input(#[source] io::Error),
    /// A word holds a zero byte.
    #[error(transparent)]
    Nul(#[from] NulError),
    /// The filter of system calls was not taken.
    #[error(transparent)]
    Filter(#[from] FilterError),
    /// A step failed.
    #[error("the helper cannot {step}: {errno}")]
    Step {
        /// Which.
        step: &'static str,
        /// The kernel's answer.
        errno: Errno,
    },
}

/// Reads what to become, gives up every right that the helper is not granted, and becomes it. To be called first thing in `main`,
/// before any thread exists. Returns only when that failed; the error output says why.
#[must_use]
pub fn become_helper() -> ExitCode {
    let failed = match begin() {
        Ok(never) => match never {},
        Err(failed) => failed,
    };
    // The parent may be gone; then nobody is there to be told.
    let _ = writeln!(io::stderr(), "{failed}");
    ExitCode::FAILURE
}

fn begin() -> Result<Infallible, LaunchError> {
    let mut text = Vec::new();
    io::stdin().read_to_end(&mut text).map_err(LaunchError::Input)?;
    let settings: Settings = serde_json::from_slice(&text)?;
    let nothing = rustix::fs::openat(CWD, "/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
    let replaced = nothing.and_then(rustix_stdin);
    replaced.map_err(|errno| at("get an empty input")(nix_errno(errno)))?;
    give_up(&settings.rights)?;
    let program = CString::new(settings.program.into_os_string().into_encoded_bytes())?;
    let mut arguments = vec![program.clone()];
    for argument in &settings.arguments {
        arguments.push(CString::new(word(argument))?);
    }
    let variables = settings.environment.iter().map(|(name, value)| CString::new(format!("{name}={value}")));
    let environment = variables.collect::<Result<Vec<_>, _>>()?;
    execve(&program, &arguments, &environment).map_err(at("begin"))
}

fn rustix_stdin(nothing: std::os::fd::OwnedFd) -> rustix::io::Result<()> {
    rustix::stdio::dup2_stdin(nothing)
}

/// A word of the command line. The connection is named as libfuse wants it; what else there is by this process, so that
/// programs which the helper starts find it, too.
fn word(argument: &HelperArgument) -> String {
    let part = |part: &HelperPart| match part {
        HelperPart::Text(text) => text.clone(),
        HelperPart::Descriptor(0) => format!("/dev/fd/{FIRST}"),
        HelperPart::Descriptor(number) => format!("/proc/{}/fd/{}", std::process::id(), FIRST.saturating_add(*number)),
    };
    argument.0.iter().map(part).collect()
}

fn at(step: &'static str) -> impl Fn(Errno) -> LaunchError {
    move |errno| LaunchError::Step { step, errno }
}

fn nix_errno(errno: rustix::io::Errno) -> Errno {
    Errno::from_raw(errno.raw_os_error())
}

fn give_up(rights: &HelperRights) -> Result<(), LaunchError> {
    // Whatever it holds of secrets must not land in a file.
    setrlimit(Resource::RLIMIT_CORE, 0, 0).map_err(at("forbid core dumps"))?;
    for (resource, most, step) in [
        (Resource::RLIMIT_AS, rights.memory, "limit its memory"),
        (Resource::RLIMIT_NOFILE, rights.open_files, "limit its open files"),
    ] {
        if let Some(most) = most {
            setrlimit(resource, most, most).map_err(at(step))?;
        }
    }
    let kept = CapabilitySet::from_bits_retain(rights.capabilities);
    drop_bounding(kept)?;
    let (user, group) = (Uid::from_raw(rights.user), Gid::from_raw(rights.group));
    if Uid::effective().is_root() {
        // Groups first: a process without root cannot give them up.
        setgroups(&[]).map_err(at("give up its groups"))?;
    }
    setresgid(group, group, group).map_err(at("take its group"))?;
    setresuid(user, user, user).map_err(at("take its user"))?;
    let kept = if user.is_root() { kept } else { CapabilitySet::empty() };
    // What root is when it begins a program is the bounding set; this is what it has until then.
    let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    set_capabilities(None, sets).map_err(|errno| at("drop its capabilities")(nix_errno(errno)))?;
    prctl::set_no_new_privs().map_err(at("renounce new privileges"))?;
    // In a user namespace of its own any process is root, and reaches far more of the kernel.
    Ok(forbid_namespaces()?)
}

/// Takes every right out of the bounding set that is not kept.
fn drop_bounding(kept: CapabilitySet) -> Result<(), LaunchError> {
    for number in 0..NUMBERS {
        let one = CapabilitySet::from_bits_retain(1 << number);
        match capability_is_in_bounding_set(one) {
            Ok(true) if !kept.contains(one) => match remove_capability_from_bounding_set(one) {
                // Without root nothing that is started gets any of it anyway.
                Ok(()) | Err(rustix::io::Errno::PERM) => {}
                Err(errno) => return Err(at("drop its capabilities")(nix_errno(errno))),
            },
            Ok(_) => {}
            // The kernel knows no more.
            Err(_) => break,
        }
    }
    Ok(())
}
