//! FlexVolume drivers of the double: a test sets their answers.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

use super::host::TestHost;
use super::pod::Pod;
use super::volume::Volume;
use super::world::{Shared, current};
use crate::error::{Error, Result};
use crate::field_kind::FieldKind;

/// A call of a driver, as the driver gets it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TestRun {
    /// The driver.
    pub driver: String,
    /// The arguments in order, the name of the call first; `{}` in the place of options.
    pub arguments: Vec<String>,
    /// The options.
    pub options: BTreeMap<String, String>,
}

/// A driver's reply to a call.
///
/// ```
/// use volhost_plugin_sdk::prelude::*;
/// use std::time::Duration;
/// use volhost_plugin_sdk::driver_exec::{Arguments, Driver};
/// use volhost_plugin_sdk::testing::{TestHost, TestReply, TestRun};
///
/// let host = TestHost::new();
/// host.flex_driver("acme/lun", &[("capabilities.attach", "true")]);
/// host.flex_script(|run: &TestRun| match run.arguments.first().map(String::as_str) {
///     Some("attach") => TestReply::status("Success").field("device", "/dev/sdb"),
///     Some("mount") => TestReply::words("no such share").exit(1),
///     _ => TestReply::error(Error::uncertain("it was killed")),
/// });
/// let driver = Driver::open("acme/lun")?;
/// let outcome = driver.run(&Arguments::new("attach"), Duration::from_secs(1))?;
/// assert_eq!(outcome.field("device").as_deref(), Some("/dev/sdb"));
/// assert_eq!(driver.run(&Arguments::new("mount"), Duration::from_secs(1))?.exit_code(), Some(1));
/// assert_eq!((host.flex_runs().len(), host.flex_runs()[0].driver.as_str()), (2, "acme/lun"));
/// assert!(host.flex_runs()[0].options.is_empty());
/// host.remove_flex_driver("acme/lun");
/// assert!(Driver::open("acme/lun").is_err());
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TestReply {
    exit_code: Option<i32>,
    fields: Option<BTreeMap<String, String>>,
    words: String,
    error: Option<Error>,
}

impl TestReply {
    /// An answer with this status, and exit code 0.
    #[must_use]
    pub fn status(status: &str) -> Self {
        let fields = BTreeMap::from([("status".to_owned(), status.to_owned())]);
        Self { exit_code: Some(0), fields: Some(fields), ..Self::default() }
    }

    /// No answer, but this output, and exit code 0.
    #[must_use]
    pub fn words(words: &str) -> Self {
        Self { exit_code: Some(0), words: words.to_owned(), ..Self::default() }
    }

    /// The host's own answer, in place of the driver's.
    #[must_use]
    pub fn error(error: Error) -> Self {
        Self { error: Some(error), ..Self::default() }
    }

    /// Adds this field to the answer.
    #[must_use]
    pub fn field(mut self, path: &str, value: &str) -> Self {
        self.fields.get_or_insert_default().insert(path.to_owned(), value.to_owned());
        self
    }

    /// Sets the exit code.
    #[must_use]
    pub fn exit(mut self, code: i32) -> Self {
        self.exit_code = Some(code);
        self
    }
}

type Script = Rc<RefCell<dyn FnMut(&TestRun) -> TestReply>>;

/// The installed drivers.
#[derive(Default)]
pub(crate) struct FlexDrivers {
    pub(crate) init: BTreeMap<String, BTreeMap<String, String>>,
    pub(crate) script: Option<Script>,
    pub(crate) runs: Vec<TestRun>,
}

impl fmt::Debug for FlexDrivers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FlexDrivers").field("runs", &self.runs).finish_non_exhaustive()
    }
}

impl TestHost {
    /// Installs a FlexVolume driver that answers `Success` to `init`, with these further fields
    /// (`capabilities.attach`).
    pub fn flex_driver(&self, name: &str, init: &[(&str, &str)]) -> &Self {
        let init = init.iter().map(|(path, value)| ((*path).to_owned(), (*value).to_owned())).collect();
        self.change(|world| drop(world.flex.init.insert(name.to_owned(), init)))
    }

    /// Removes a FlexVolume driver.
    pub fn remove_flex_driver(&self, name: &str) -> &Self {
        self.change(|world| drop(world.flex.init.remove(name)))
    }

    /// Sets the replies of every driver from now on. Without it they answer `Not supported`.
    pub fn flex_script(&self, script: impl FnMut(&TestRun) -> TestReply + 'static) -> &Self {
        self.change(|world| world.flex.script = Some(Rc::new(RefCell::new(script))))
    }

    /// The calls of drivers so far.
    #[must_use]
    pub fn flex_runs(&self) -> Vec<TestRun> {
        self.world.borrow().flex.runs.clone()
    }
}

/// A driver's handle.
#[derive(Debug)]
pub(crate) struct Driver {
    world: Shared,
    name: String,
}

impl Driver {
    pub(crate) fn init_field(&self, path: &str) -> Option<String> {
        self.world.borrow().flex.init.get(&self.name)?.get(path).cloned()
    }

    pub(crate) fn run(&self, arguments: &Arguments, _deadline: u64) -> Result<Outcome> {
        self.world.borrow_mut().called("driver.run")?;
        let run = TestRun { driver: self.name.clone(), ..arguments.0.borrow().clone() };
        self.world.borrow_mut().flex.runs.push(run.clone());
        // The script may look at the host and change it.
        let script = self.world.borrow().flex.script.clone();
        let reply = script.map_or_else(|| TestReply::status("Not supported"), |script| (*script.borrow_mut())(&run));
        match reply.error {
            Some(error) => Err(error),
            None => Ok(Outcome(reply)),
        }
    }
}

/// Arguments that are being put together.
#[derive(Debug)]
pub(crate) struct Arguments(RefCell<TestRun>);

impl Arguments {
    pub(crate) fn new(call: &str) -> Self {
        Self(RefCell::new(TestRun { arguments: vec![call.to_owned()], ..TestRun::default() }))
    }

    pub(crate) fn text(&self, text: &str) -> Result<()> {
        if text.contains('\0') {
            return Err(Error::invalid_argument("an argument of a program cannot contain NUL"));
        }
        self.0.borrow_mut().arguments.push(text.to_owned());
        Ok(())
    }

    pub(crate) fn json(&self, options: &Options) {
        let mut run = self.0.borrow_mut();
        run.arguments.push("{}".to_owned());
        run.options = options.0.borrow().clone();
    }
}

/// Options that are being put together.
#[derive(Debug)]
pub(crate) struct Options(RefCell<BTreeMap<String, String>>);

impl Options {
    pub(crate) fn new() -> Self {
        Self(RefCell::default())
    }

    pub(crate) fn set(&self, key: &str, value: &str) {
        self.0.borrow_mut().insert(key.to_owned(), value.to_owned());
    }

    pub(crate) fn set_from(&self, volume: &Volume, path: &str) -> Result<()> {
        for name in volume.fields(path) {
            let field = format!("{path}.{name}");
            if volume.kind(&field) != Some(FieldKind::Text) {
                return Err(Error::invalid_argument(format!("{field}: it must be a text")));
            }
            self.set(&name, &volume.parameter(&field).unwrap_or_default());
        }
        Ok(())
    }

    pub(crate) fn set_secret(&self, volume: &Volume, pod: &Pod, prefix: &str, _secret_type: &str) -> Result<u32> {
        let Some(name) = volume.parameter("secretRef.name") else { return Ok(0) };
        let world = current();
        let world = world.borrow();
        let Some(secret) = world.objects.secrets.get(&(pod.namespace(), name.clone())) else {
            return Err(Error::not_found(format!("there is no secret {name}")));
        };
        for (key, value) in secret.iter() {
            self.set(&format!("{prefix}{key}"), &format!("(base64 of {} bytes)", value.len()));
        }
        Ok(u32::try_from(secret.len()).unwrap_or(u32::MAX))
    }
}

/// The result of a run.
#[derive(Debug)]
pub(crate) struct Outcome(TestReply);

impl Outcome {
    pub(crate) fn exit_code(&self) -> Option<i32> {
        self.0.exit_code
    }

    pub(crate) fn answered(&self) -> bool {
        self.0.fields.is_some()
    }

    pub(crate) fn field(&self, path: &str) -> Option<String> {
        self.0.fields.as_ref()?.get(path).cloned()
    }

    pub(crate) fn words(&self) -> String {
        self.0.words.clone()
    }
}

pub(crate) mod driver_exec {
    use super::{Driver, Error, Result, current};

    pub(crate) fn open(name: &str) -> Result<Driver> {
        let world = current();
        world.borrow_mut().called("driver-exec.open")?;
        if world.borrow().flex.init.contains_key(name) {
            return Ok(Driver { world, name: name.to_owned() });
        }
        Err(Error::not_found(format!("there is no FlexVolume driver {name}")))
    }
}
