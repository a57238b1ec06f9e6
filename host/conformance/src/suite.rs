//! Which cases there are, and running them.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use thiserror::Error;
use volhost_kernel::{Kernel, LinuxKernel};
use volhost_process::linux_kernel;
use volhost_runtime::{
    GrantPolicy, Limits, LoadError, Plugin, PluginInfo, Runtime, RuntimeConfig, RuntimeError, ShippedPlugins,
};

use crate::case_error::CaseError;
use crate::case_file::CaseFile;
use crate::cases::{self, Case};
use crate::contract::sentence;
use crate::report::{CaseOutcome, CaseReport, Report};
pub use crate::scratch::ScratchError;
use crate::scratch::in_scratch;
use crate::subject::{HostServices, Subject, SubjectError};
use crate::test_node::TestNode;
use crate::verdict::{CaseFailure, CaseStop, Verdict};

/// Why a plugin cannot be tested.
#[derive(Debug, Error)]
pub enum SuiteError {
    /// No case has such a name.
    #[error("there is no case {name:?}; `--only` takes a case's name, such as `publish/idempotent`, or a group's, such as `publish`{}", nearest(.name))]
    NoSuchCase {
        /// What was asked for.
        name: String,
    },
    /// The case file.
    #[error(transparent)]
    Subject(#[from] SubjectError),
    /// A field of the case file that only the plugin makes wrong.
    #[error("case file: {0}")]
    CaseFile(#[source] CaseError),
    /// The plugin is not loaded.
    #[error(transparent)]
    Load(#[from] Box<LoadError>),
    /// There is no runtime.
    #[error("{0}")]
    Runtime(#[source] RuntimeError),
    /// There is no folder for compiled plugins.
    #[error("no folder can be made for compiled plugins: {0}")]
    Cache(#[source] std::io::Error),
    /// There is no node to test it on.
    #[error(transparent)]
    Scratch(#[from] ScratchError),
}

fn nearest(name: &str) -> String {
    let word = name.rsplit('/').next().unwrap_or(name);
    let near: Vec<&str> = case_names().filter(|case| !word.is_empty() && case.contains(word)).take(3).collect();
    if near.is_empty() { String::new() } else { format!("; there is {}", near.join(", ")) }
}

/// The names of all cases, in the order in which they run.
pub fn case_names() -> impl Iterator<Item = &'static str> {
    cases::all().map(|case| case.name)
}

/// The number of the sentence that each case checks, by the case's name.
pub fn held_sentences() -> impl Iterator<Item = (&'static str, &'static str)> {
    cases::all().map(|case| (case.name, case.sentence))
}

/// A plugin that is ready to be tested.
#[derive(Debug)]
pub struct Suite {
    subject: Subject,
    services: HostServices,
    only: Vec<String>,
    /// Removed with the suite, unless the compiled plugins are kept in another folder.
    own_cache: Option<tempfile::TempDir>,
}

impl Suite {
    /// A suite for a plugin, with those cases whose name or group is in `only`; with all when it is
    /// empty.
    ///
    /// # Errors
    /// [`SuiteError::NoSuchCase`]; [`SuiteError::Cache`].
    pub fn new(subject: Subject, services: HostServices, only: &[String]) -> Result<Self, SuiteError> {
        if let Some(name) = only.iter().find(|name| !case_names().any(|case| is_named(case, name))) {
            return Err(SuiteError::NoSuchCase { name: name.clone() });
        }
        let own_cache = match &services.cache {
            Some(_) => None,
            None => Some(tempfile::tempdir().map_err(SuiteError::Cache)?),
        };
        Ok(Self { subject, services, only: only.to_vec(), own_cache })
    }

    /// How many cases will run.
    #[must_use]
    pub fn len(&self) -> usize {
        self.cases().count()
    }

    /// Whether none will.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn cases(&self) -> impl Iterator<Item = Case> + '_ {
        cases::all().filter(|case| self.only.is_empty() || self.only.iter().any(|name| is_named(case.name, name)))
    }

    /// Runs the cases, each on a node of its own, and calls `progress` when one has ended.
    ///
    /// # Guarantees
    /// Whatever the plugin does, nothing is left on the machine when it returns.
    ///
    /// # Errors
    /// [`SuiteError`]: the plugin could not be tested. That it failed is no error.
    pub fn run(&self, mut progress: impl FnMut(&CaseReport)) -> Result<Report, SuiteError> {
        self.run_while(|case| {
            progress(case);
            ControlFlow::Continue(())
        })
    }

    /// Runs the cases as [`Suite::run`] does, until `progress` breaks; the report is of those that
    /// ran.
    ///
    /// # Errors
    /// As [`Suite::run`].
    pub fn run_while(&self, mut progress: impl FnMut(&CaseReport) -> ControlFlow<()>) -> Result<Report, SuiteError> {
        let info = in_scratch(|scratch| self.inspect(scratch))??;
        let mut reports = Vec::new();
        for case in self.cases() {
            let begun = Instant::now();
            let verdict = in_scratch(|scratch| self.run_case(&case, &info, scratch))??;
            let outcome = match verdict {
                Ok(()) => CaseOutcome::Passed,
                Err(CaseStop::NotApplicable(why)) => CaseOutcome::NotApplicable { why },
                Err(CaseStop::Failed(CaseFailure { did, expected, happened })) => {
                    CaseOutcome::Failed { did, expected, happened }
                }
            };
            let report = CaseReport {
                name: case.name.to_owned(),
                sentence: case.sentence.to_owned(),
                says: sentence(case.sentence).unwrap_or_default().to_owned(),
                outcome,
                milliseconds: u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX),
            };
            let goes_on = progress(&report);
            reports.push(report);
            if goes_on.is_break() {
                break;
            }
        }
        Ok(Report { plugin: info.name.to_string(), version: info.version, digest: info.digest, cases: reports })
    }

    fn run_case(&self, case: &Case, info: &PluginInfo, scratch: &Path) -> Result<Verdict, SuiteError> {
        let file = self.subject.case_file(scratch)?;
        let kernel = Arc::new(linux_kernel());
        let plugin = self.load(&file, info, &kernel)?;
        match TestNode::new(kernel, scratch, plugin, file, self.services.clone()) {
            Ok(test_node) => Ok(case.run(&test_node)),
            Err(why) => Err(SuiteError::CaseFile(why)),
        }
    }

    /// Asks the plugin who it is, and checks the case file for it.
    fn inspect(&self, scratch: &Path) -> Result<PluginInfo, SuiteError> {
        let file = self.subject.case_file(scratch)?;
        let runtime = self.runtime(GrantPolicy::builtin(ShippedPlugins::default()), &Arc::new(linux_kernel()))?;
        let info = runtime.inspect(&self.subject.plugin).map_err(Box::new)?.info;
        file.policy(&info).map_err(SuiteError::CaseFile)?;
        file.spec(&info).map_err(SuiteError::CaseFile)?;
        Ok(info)
    }

    /// Loads the plugin with the grants of the case file, as read for one scratch file system.
    fn load(&self, file: &CaseFile, info: &PluginInfo, kernel: &Arc<LinuxKernel>) -> Result<Arc<Plugin>, SuiteError> {
        let runtime = self.runtime(file.policy(info).map_err(SuiteError::CaseFile)?, kernel)?;
        Ok(runtime.load(&self.subject.plugin).map_err(Box::new)?)
    }

    fn runtime(&self, grants: GrantPolicy, kernel: &Arc<LinuxKernel>) -> Result<Runtime, SuiteError> {
        let own = self.own_cache.as_ref().map(|folder| folder.path().to_owned());
        let config = RuntimeConfig {
            cache_dir: self.services.cache.clone().or(own).unwrap_or_default(),
            limits: Limits::default(),
            compiler: self.services.compiler.clone(),
            grants,
        };
        Runtime::new(config, Arc::clone(kernel) as Arc<dyn Kernel>).map_err(SuiteError::Runtime)
    }
}

/// Whether a case is meant by this name: its own, or its group's.
fn is_named(case: &str, name: &str) -> bool {
    case == name || case.strip_prefix(name).is_some_and(|rest| name.ends_with('/') || rest.starts_with('/'))
}
