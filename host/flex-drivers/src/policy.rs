//! The operator's policy for drivers: deadline, concurrency, and what a driver runs without: its
//! user, its limits, new privileges. Without a sandbox a driver runs as volhost does, as with the
//! kubelet.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;
use volhost_model::duration::HumanDuration;
use volhost_process::{Argument, Launch, Launcher, Privileges, ProcessLimits, Program};

/// As long as the kubelet waits for the one call that it bounds.
const DEFAULT_DEADLINE: Duration = Duration::from_secs(600);
/// As many volumes at once as most storage does well.
const DEFAULT_CONCURRENCY: NonZeroUsize = NonZeroUsize::MIN.saturating_add(7);

/// The policies of drivers, by name; `*` is for those that are not named. The table
/// `[flex-drivers]` of the configuration file.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(transparent)]
pub struct DriverPolicies(BTreeMap<String, DriverPolicy>);

/// The policy of one driver.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct DriverPolicy {
    /// The longest that a call may take.
    deadline: Option<HumanDuration>,
    /// How many calls may run at once.
    concurrency: Option<NonZeroUsize>,
    /// What the driver runs without.
    sandbox: DriverSandbox,
}

/// What a driver runs without.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct DriverSandbox {
    /// It runs as this user, by number, without supplementary groups.
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

impl From<&DriverSandbox> for Privileges {
    fn from(sandbox: &DriverSandbox) -> Self {
        Self {
            user: sandbox.user,
            group: sandbox.group,
            capabilities: None,
            no_new_privileges: sandbox.no_new_privileges,
            no_namespaces: false,
            limits: ProcessLimits {
                memory: sandbox.memory,
                cpu_seconds: sandbox.cpu_seconds,
                open_files: sandbox.open_files,
                file_bytes: sandbox.file_bytes,
                processes: sandbox.processes,
                core_bytes: None,
            },
        }
    }
}

impl DriverPolicies {
    /// The policy of the driver of this name.
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

    /// The driver's program with these arguments and this variable, and its input. A driver with a
    /// sandbox is launched by this program itself.
    pub(crate) fn program(
        &self,
        program: &Path,
        arguments: &[String],
        (name, value): (&str, &str),
    ) -> (Program, Vec<u8>) {
        if self.sandbox == DriverSandbox::default() {
            return (Program::new(program).with_arguments(arguments).with_variable(name, value), Vec::new());
        }
        let launch = Launch {
            program: program.into(),
            arguments: arguments.iter().map(|argument| Argument::from(OsString::from(argument))).collect(),
            environment: vec![(name.into(), value.into())],
            privileges: Privileges::from(&self.sandbox),
        };
        (Launcher::this_program().program(), launch.to_input())
    }
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
