//! What the operator takes from a driver: its user, its limits, new privileges. Without any of it a driver runs as volhost does, as with the
//! kubelet.
//!
//! A program is confined by this program itself, started in its place: it gives everything up and then becomes the driver.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::ffi::{CString, OsString};
use std::io::Write;
use std::num::NonZeroUsize;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::prctl;
use nix::sys::resource::{Resource, setrlimit};
use nix::unistd::{Gid, Uid, execve, setgroups, setresgid, setresuid};
use serde::{Deserialize, Serialize};
use thiserror::Error;
use volhost_kernel::program::Program;

use volhost_model::duration::HumanDuration;

/// The running binary itself, also after its file was replaced.
const THIS_PROGRAM: &str = "/proc/self/exe";
/// As long as the kubelet waits for the one call that it bounds.
const DEFAULT_DEADLINE: Duration = Duration::from_secs(600);
/// As many volumes at once as most storage does well.
const DEFAULT_CONCURRENCY: NonZeroUsize = NonZeroUsize::MIN.saturating_add(7);

/// What the operator says of drivers, by name; `*` is for those that are not named. The table `[flex-drivers]` of the configuration file.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(transparent)]
pub struct DriverPolicies(BTreeMap<String, DriverPolicy>);

/// What the operator says of one driver.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct DriverPolicy {
    /// The longest that a call may take.
    deadline: Option<HumanDuration>,
    /// How many calls may run at once.
    concurrency: Option<NonZeroUsize>,
    /// What is taken from it.
    sandbox: Confinement,
}

/// What is taken from a driver before it begins.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Confinement {
    /// It runs as this user, by number, without further groups.
    user: Option<u32>,
    /// And as this group; that of the same number where only the user is given.
    group: Option<u32>,
    /// No program that it starts gains privileges.
    no_new_privileges: bool,
    /// The most memory that it may map, in bytes.
    memory: Option<u64>,
    /// The most processor time that it may use, in seconds.
    cpu_seconds: Option<u64>,
    /// The most files that it may have open.
    open_files: Option<u64>,
    /// The largest file that it may write, in bytes.
    file_bytes: Option<u64>,
    /// The most processes that its user may have.
    processes: Option<u64>,
}

/// Why a driver could not be confined; it did not begin.
#[derive(Debug, Error)]
enum ConfineError {
    /// A program and what to take from it were not both named.
    #[error("the driver's confinement and its program must be named")]
    Words,
    /// A word holds a zero byte.
    #[error(transparent)]
    Nul(#[from] std::ffi::NulError),
    /// What is to be taken cannot be read.
    #[error("the driver's confinement cannot be read: {0}")]
    Settings(#[from] serde_json::Error),
    /// A step failed.
    #[error("the driver cannot {step}: {errno}")]
    Step {
        /// Which.
        step: &'static str,
        /// The kernel's answer.
        errno: Errno,
    },
}

impl DriverPolicies {
    /// What the operator says of the driver of this name.
    pub fn of(&self, name: &str) -> DriverPolicy {
        self.0.get(name).or_else(|| self.0.get("*")).cloned().unwrap_or_default()
    }
}

impl DriverPolicy {
    /// The longest that a call may take.
    pub fn deadline(&self) -> Duration {
        self.deadline.map_or(DEFAULT_DEADLINE, |HumanDuration(deadline)| deadline)
    }

    /// How many calls may run at once.
    pub fn concurrency(&self) -> usize {
        self.concurrency.unwrap_or(DEFAULT_CONCURRENCY).get()
    }

    /// The driver's program with these arguments, as it is to be started.
    pub(super) fn confined(&self, program: &Path, arguments: &[String]) -> Program {
        if self.sandbox == Confinement::default() {
            return Program::new(program).arguments(arguments);
        }
        // What is made of numbers and flags is always JSON.
        let settings = serde_json::to_string(&self.sandbox).unwrap_or_default();
        Program::new(THIS_PROGRAM)
            .arguments(["internal", "run-confined", "--", settings.as_str()])
            .arguments([program])
            .arguments(arguments)
    }
}

/// Gives up what the first of these words says, and becomes the program that the others call. To be called first thing in `main`, before any
/// thread exists. Returns only when that failed; the error output says why.
#[must_use]
pub fn become_confined(words: Vec<OsString>) -> ExitCode {
    let failed = match give_up_and_begin(words) {
        Ok(never) => match never {},
        Err(failed) => failed,
    };
    // The parent may be gone; then nobody is there to be told.
    let _ = writeln!(std::io::stderr(), "{failed}");
    ExitCode::FAILURE
}

fn give_up_and_begin(words: Vec<OsString>) -> Result<Infallible, ConfineError> {
    let words: Vec<CString> = words.into_iter().map(|word| CString::new(word.into_vec())).collect::<Result<_, _>>()?;
    let [settings, program, ..] = words.as_slice() else { return Err(ConfineError::Words) };
    give_up(&serde_json::from_slice(settings.as_bytes())?)?;
    let environment: Vec<CString> = std::env::vars_os()
        .filter_map(|(name, value)| {
            let mut variable = name.into_vec();
            variable.push(b'=');
            variable.extend(value.into_vec());
            CString::new(variable).ok()
        })
        .collect();
    let called = words.get(1..).unwrap_or_default();
    execve(program, called, &environment).map_err(|errno| ConfineError::Step { step: "begin", errno })
}

fn give_up(settings: &Confinement) -> Result<(), ConfineError> {
    let at = |step| move |errno| ConfineError::Step { step, errno };
    for (resource, most, step) in [
        (Resource::RLIMIT_AS, settings.memory, "limit its memory"),
        (Resource::RLIMIT_CPU, settings.cpu_seconds, "limit its processor time"),
        (Resource::RLIMIT_NOFILE, settings.open_files, "limit its open files"),
        (Resource::RLIMIT_FSIZE, settings.file_bytes, "limit its files"),
        (Resource::RLIMIT_NPROC, settings.processes, "limit its processes"),
    ] {
        if let Some(most) = most {
            setrlimit(resource, most, most).map_err(at(step))?;
        }
    }
    if let Some(group) = settings.group.or(settings.user) {
        let group = Gid::from_raw(group);
        // Groups first: a process without root cannot give them up.
        setgroups(&[]).map_err(at("give up its groups"))?;
        setresgid(group, group, group).map_err(at("take its group"))?;
    }
    if let Some(user) = settings.user {
        let user = Uid::from_raw(user);
        setresuid(user, user, user).map_err(at("take its user"))?;
    }
    if settings.no_new_privileges {
        prctl::set_no_new_privs().map_err(at("renounce new privileges"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_read_and_its_mistakes_are_named() {
        let policies: DriverPolicies = toml::from_str(
            "[\"*\".sandbox]\nno-new-privileges = true\n[\"acme/lun\"]\ndeadline = \"30s\"\nconcurrency = 1\nsandbox = { user = 65534, open-files = 64 }",
        )
        .unwrap();
        let lun = policies.of("acme/lun");
        assert_eq!((lun.deadline(), lun.concurrency(), lun.sandbox.user), (Duration::from_secs(30), 1, Some(65534)));
        assert!(!lun.sandbox.no_new_privileges, "a driver that is named has its own");
        assert!(policies.of("another/one").sandbox.no_new_privileges);
        assert_eq!(DriverPolicies::default().of("x").deadline(), DEFAULT_DEADLINE);
        for (text, words) in [
            ("[\"a/b\"]\nconcurrency = 0", "nonzero"),
            ("[\"a/b\".sandbox]\nuser = \"nobody\"", "u32"),
            ("[\"a/b\".sandbox]\nmemmory = 5", "memmory"),
            ("[\"a/b\"]\ndeadline = \"soon\"", "soon"),
        ] {
            let error = toml::from_str::<DriverPolicies>(text).unwrap_err().to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
