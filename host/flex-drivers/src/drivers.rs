//! The FlexVolume drivers of a node, by name.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use volhost_model::driver_programs::{DriverAnswer, DriverError, DriverOutcome, DriverPrograms};

use crate::concurrency::ConcurrencyLimit;
use crate::folder::{self, ProgramError};
use crate::policy::DriverPolicies;
use crate::run;

/// A driver that is in the folder.
#[derive(Debug, Clone)]
struct KnownDriver {
    program: PathBuf,
    readiness: Readiness,
    limit: Arc<ConcurrencyLimit>,
}

/// Whether a driver can be used.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Readiness {
    /// It has not answered `init` yet.
    Starting,
    /// It answered this.
    Ready(DriverAnswer),
    /// Why it cannot be used.
    Failed(String),
}

/// The FlexVolume drivers of this node. Shared between the folder's watcher, which changes them,
/// and the threads that run operations.
#[derive(Debug)]
pub struct FlexDrivers {
    folder: PathBuf,
    policies: DriverPolicies,
    known: Mutex<BTreeMap<String, KnownDriver>>,
    /// The folder was read: a driver that is not known does not exist.
    was_read: AtomicBool,
}

impl FlexDrivers {
    /// The drivers of this folder, which was not read yet.
    pub fn new(folder: PathBuf, policies: DriverPolicies) -> Self {
        Self { folder, policies, known: Mutex::default(), was_read: AtomicBool::new(false) }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, KnownDriver>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The folder.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Adds a driver, or changes what is known of it.
    pub(crate) fn set(&self, name: &str, program: &Path, readiness: Readiness) {
        let mut known = self.lock();
        let limit = known.get(name).map(|known| Arc::clone(&known.limit));
        let limit = limit.unwrap_or_else(|| Arc::new(ConcurrencyLimit::new(self.policies.of(name).concurrency())));
        known.insert(name.to_owned(), KnownDriver { program: program.to_owned(), readiness, limit });
    }

    /// Every driver in the folder is known from now on.
    pub(crate) fn set_read(&self) {
        self.was_read.store(true, Ordering::Release);
    }

    pub(crate) fn remove(&self, name: &str) {
        self.lock().remove(name);
    }

    fn find(&self, name: &str) -> Result<KnownDriver, DriverError> {
        let known = self.lock();
        known.get(name).cloned().ok_or_else(|| {
            // A driver that was not looked for may exist, and a volume may have to be unmounted by
            // it.
            if !self.was_read.load(Ordering::Acquire) {
                return DriverError::NotReady(format!(
                    "the FlexVolume drivers in {} are not known yet",
                    self.folder.display()
                ));
            }
            let names: Vec<&str> = known.keys().map(String::as_str).collect();
            let there =
                if names.is_empty() { "none is there".to_owned() } else { format!("there are {}", names.join(", ")) };
            DriverError::NotFound(format!(
                "there is no FlexVolume driver {name} in {}: {there}; install it as {}",
                self.folder.display(),
                folder::place_of(&self.folder, name).display()
            ))
        })
    }
}

impl FlexDrivers {
    /// Runs a driver, without another check of its program.
    ///
    /// # Errors
    /// [`DriverError`].
    pub(crate) fn run_unchecked(
        &self,
        name: &str,
        arguments: &[String],
        deadline: Duration,
    ) -> Result<DriverOutcome, DriverError> {
        let known = self.find(name)?;
        run::run(name, &known.program, &known.limit, &self.policies.of(name), arguments, deadline)
    }

    /// Checks a driver's program again: owners and modes may have changed since the folder was last
    /// read.
    fn check(&self, program: &Path) -> Result<(), ProgramError> {
        let inside = std::fs::canonicalize(&self.folder).map_err(ProgramError::io(&self.folder))?;
        folder::check_program(program, &inside).map(drop)
    }
}

impl DriverPrograms for FlexDrivers {
    fn init_answer(&self, name: &str) -> Result<DriverAnswer, DriverError> {
        match self.find(name)?.readiness {
            Readiness::Ready(answer) => Ok(answer),
            Readiness::Starting => {
                Err(DriverError::NotReady(format!("FlexVolume driver {name} has not answered to its init yet")))
            }
            Readiness::Failed(why) => Err(DriverError::NotReady(format!(
                "FlexVolume driver {name} cannot be used: {why}; it is asked again, see `volhost describe driver {name}`"
            ))),
        }
    }

    fn run(&self, name: &str, arguments: &[String], deadline: Duration) -> Result<DriverOutcome, DriverError> {
        let known = self.find(name)?;
        let checked = self.check(&known.program);
        checked.map_err(|error| DriverError::NotReady(format!("FlexVolume driver {name} is not run: {error}")))?;
        run::run(name, &known.program, &known.limit, &self.policies.of(name), arguments, deadline)
    }
}
