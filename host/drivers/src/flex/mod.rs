//! FlexVolume drivers: programs in a folder of the operator's, found, asked once what they can do, and run for plugins.
//!
//! ```text
//!  DIR/vendor~driver/driver --inotify--> watch --stamp changed--> init --answer--> FlexDrivers <--find, run-- plugins' host calls
//!                                          ^                       |                    |
//!                                          '-- back-off, if it failed                   '--> DriverTable, events, pods resolved again
//! ```
//!
//! | module | holds |
//! |---|---|
//! | `folder` | which drivers a folder has, and what is wrong with the others |
//! | `watch` | the folder kept in step with: found, changed, gone; `init` with its back-off |
//! | `ask` | a driver asked by hand, without a daemon |
//! | `answer` | the answer in what a driver wrote |
//! | `run` | one run: bounds, sandbox, queue |
//! | `trust` | who could change a driver's program |
//! | [`sandbox`] | what the operator takes from a driver, and how |

mod answer;
mod ask;
mod folder;
mod run;
pub mod sandbox;
mod trust;
mod watch;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use volhost_model::driver_programs::{DriverAnswer, DriverError, DriverOutcome, DriverPrograms};

pub use ask::{Asked, ask};
pub use sandbox::{DriverPolicies, DriverPolicy, become_confined};
pub use watch::watch;

use run::Gate;

/// A driver, as it stands.
#[derive(Debug, Clone)]
struct Known {
    program: PathBuf,
    standing: Standing,
    gate: Arc<Gate>,
}

/// Whether a driver can be used.
#[derive(Debug, Clone, PartialEq)]
enum Standing {
    /// It has not answered to its `init` yet.
    Starting,
    /// It answered this.
    Ready(DriverAnswer),
    /// It cannot be used, and why.
    Failed(String),
}

/// The FlexVolume drivers of this node. Shared between the folder's watcher, which changes it, and the threads that run operations.
#[derive(Debug)]
pub struct FlexDrivers {
    folder: PathBuf,
    policies: DriverPolicies,
    known: Mutex<BTreeMap<String, Known>>,
    /// The folder was looked at: what is not known is not there.
    looked: AtomicBool,
}

impl FlexDrivers {
    /// The drivers of this folder, none of which has been looked for yet.
    pub fn new(folder: PathBuf, policies: DriverPolicies) -> Self {
        Self { folder, policies, known: Mutex::default(), looked: AtomicBool::new(false) }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes note of how a driver stands.
    fn keep(&self, name: &str, program: &std::path::Path, standing: Standing) {
        let mut known = self.lock();
        let gate = known.get(name).map(|known| Arc::clone(&known.gate));
        let gate = gate.unwrap_or_else(|| Arc::new(Gate::new(self.policies.of(name).concurrency())));
        known.insert(name.to_owned(), Known { program: program.to_owned(), standing, gate });
    }

    /// The folder was looked at, and what it has is known.
    fn has_looked(&self) {
        self.looked.store(true, Ordering::Release);
    }

    fn forget(&self, name: &str) {
        self.lock().remove(name);
    }

    fn find(&self, name: &str) -> Result<Known, DriverError> {
        let known = self.lock();
        known.get(name).cloned().ok_or_else(|| {
            // What nobody has looked for may be there, and a volume may have to be unmounted by it.
            if !self.looked.load(Ordering::Acquire) {
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

impl DriverPrograms for FlexDrivers {
    fn init_answer(&self, name: &str) -> Result<DriverAnswer, DriverError> {
        match self.find(name)?.standing {
            Standing::Ready(answer) => Ok(answer),
            Standing::Starting => {
                Err(DriverError::NotReady(format!("FlexVolume driver {name} has not answered to its init yet")))
            }
            Standing::Failed(why) => Err(DriverError::NotReady(format!(
                "FlexVolume driver {name} cannot be used: {why}; it is asked again, see `volhost describe driver {name}`"
            ))),
        }
    }

    fn run(&self, name: &str, arguments: &[String], deadline: Duration) -> Result<DriverOutcome, DriverError> {
        let known = self.find(name)?;
        // Owners and modes may have changed since the folder was last looked at.
        let checked = std::fs::canonicalize(&self.folder)
            .map_err(|error| format!("{}: {error}", self.folder.display()))
            .and_then(|inside| folder::look(&known.program, &inside));
        checked.map_err(|why| DriverError::NotReady(format!("FlexVolume driver {name} is not run: {why}")))?;
        run::run(name, &known, &self.policies.of(name), arguments, deadline)
    }
}
