//! FlexVolume drivers: programs in a folder of the operator's, which the host finds and runs by
//! name.
//!
//! A plugin that calls one of these needs the grant `driver-exec`, with the names of drivers; one
//! that calls none does not request it. Secrets are passed to a driver without ever entering the
//! sandbox, and the host removes them from the driver's output.
//!
//! ```
//! use volhost_plugin_sdk::prelude::*;
//! use std::time::Duration;
//! use volhost_plugin_sdk::driver_exec::{Arguments, Driver, Options, Outcome};
//!
//! /// `attach JSON NODE`, with the volume's options and the secret that it names.
//! fn attach(volume: &Volume, pod: &Pod) -> Result<String> {
//!     let driver = Driver::open("acme/lun")?;
//!     if driver.init_field("capabilities.attach").as_deref() == Some("false") {
//!         return Ok(String::new());
//!     }
//!     let options = Options::new();
//!     options.set_from(volume, "options")?;
//!     options.set("kubernetes.io/readwrite", if volume.read_only() { "ro" } else { "rw" });
//!     options.set_secret(volume, pod, "kubernetes.io/secret/", "acme/lun")?;
//!     let arguments = Arguments::new("attach").json(&options).text(&node::name())?;
//!     let outcome: Outcome = driver.run(&arguments, Duration::from_secs(60))?;
//!     match outcome.field("status").as_deref() {
//!         Some("Success") => Ok(outcome.field("device").unwrap_or_default()),
//!         _ if outcome.answered() => Err(Error::retryable(outcome.words())),
//!         _ => Err(Error::uncertain(format!("exit code {:?}: {}", outcome.exit_code(), outcome.words()))),
//!     }
//! }
//! # let _ = attach;
//! ```

use std::fmt;
use std::time::Duration;

use crate::backend;
use crate::error::Result;
use crate::pod::Pod;
use crate::volume::Volume;

/// A driver that the host has found and whose `init` has succeeded.
pub struct Driver(backend::Driver);

impl Driver {
    /// The driver of this name, as volumes name it (`vendor/driver`).
    ///
    /// # Errors
    /// [`NotFound`](crate::Error::NotFound) when there is none,
    /// [`Precondition`](crate::Error::Precondition) while its `init` fails, with its words,
    /// [`PermissionDenied`](crate::Error::PermissionDenied) when it is not granted.
    pub fn open(name: &str) -> Result<Self> {
        backend::driver_exec::open(name).map(Self).map_err(backend::error_in)
    }

    /// A field of its answer to `init`, by its path (`capabilities.attach`).
    #[must_use]
    pub fn init_field(&self, path: &str) -> Option<String> {
        self.0.init_field(path)
    }

    /// Runs it with these arguments and waits for its end, at most this long and never longer than
    /// the operator allows.
    ///
    /// # Errors
    /// [`Uncertain`](crate::Error::Uncertain) when it had to be killed, with all of its process
    /// group; any other when it did not run.
    pub fn run(&self, arguments: &Arguments, deadline: Duration) -> Result<Outcome> {
        let deadline = u64::try_from(deadline.as_millis()).unwrap_or(u64::MAX);
        self.0.run(&arguments.0, deadline).map(Outcome).map_err(backend::error_in)
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Driver")
    }
}

/// The arguments of a run, in the order in which they are added.
pub struct Arguments(backend::Arguments);

impl Arguments {
    /// Begins with the name of the driver's call.
    #[must_use]
    pub fn new(call: &str) -> Self {
        Self(backend::Arguments::new(call))
    }

    /// Adds a text.
    ///
    /// # Errors
    /// [`InvalidArgument`](crate::Error::InvalidArgument) for a NUL in it.
    pub fn text(self, text: &str) -> Result<Self> {
        self.0.text(text).map_err(backend::error_in)?;
        Ok(self)
    }

    /// Adds these options as a JSON object of texts, without blanks, sorted by their keys.
    #[must_use]
    pub fn json(self, options: &Options) -> Self {
        self.0.json(&options.0);
        self
    }
}

impl fmt::Debug for Arguments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Arguments")
    }
}

/// Options of a run. Setting one again replaces it.
pub struct Options(backend::Options);

impl Options {
    /// No options yet.
    #[must_use]
    pub fn new() -> Self {
        Self(backend::Options::new())
    }

    /// Sets one option.
    pub fn set(&self, key: &str, value: &str) {
        self.0.set(key, value);
    }

    /// Sets every field of the map at this path of the volume's source, under its own name.
    ///
    /// # Errors
    /// [`InvalidArgument`](crate::Error::InvalidArgument) when one is not a text.
    pub fn set_from(&self, volume: &Volume<'_>, path: &str) -> Result<()> {
        self.0.set_from(volume.handle(), path).map_err(backend::error_in)
    }

    /// Sets `prefix` with each key of the secret that the volume names in `secretRef`, to its value
    /// in base64; the plugin never sees it. Returns how many those are. A PersistentVolume's secret
    /// must be of the type `secret_type`.
    ///
    /// # Errors
    /// [`NotFound`](crate::Error::NotFound) when there is no such secret,
    /// [`Retryable`](crate::Error::Retryable) while the host does not know,
    /// [`PermissionDenied`](crate::Error::PermissionDenied) when it is of another type.
    pub fn set_secret(&self, volume: &Volume<'_>, pod: &Pod<'_>, prefix: &str, secret_type: &str) -> Result<u32> {
        self.0.set_secret(volume.handle(), pod.handle(), prefix, secret_type).map_err(backend::error_in)
    }
}

impl Default for Options {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Options")
    }
}

/// The result of a run that ended by itself.
pub struct Outcome(backend::Outcome);

impl Outcome {
    /// Its exit code; none when a signal ended it.
    #[must_use]
    pub fn exit_code(&self) -> Option<i32> {
        self.0.exit_code()
    }

    /// Whether it answered: wrote a JSON object with a `status`. The last one counts, whatever
    /// comes before or after it.
    #[must_use]
    pub fn answered(&self) -> bool {
        self.0.answered()
    }

    /// A field of the answer by its path; none when it did not answer.
    #[must_use]
    pub fn field(&self, path: &str) -> Option<String> {
        self.0.field(path)
    }

    /// The rest of its output, on one line, for messages.
    #[must_use]
    pub fn words(&self) -> String {
        self.0.words()
    }
}

impl fmt::Debug for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Outcome({:?}, {:?})", self.exit_code(), self.field("status"))
    }
}
