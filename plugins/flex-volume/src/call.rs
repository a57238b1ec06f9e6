//! Calls of a driver, and the meaning of its answers.

use std::time::Duration;

use volhost_plugin_sdk::driver_exec::{Arguments, Driver, Options, Outcome};
use volhost_plugin_sdk::prelude::*;

use crate::source::Source;

/// The deadline of a call: the kubelet's for the one that it bounds. The operator may set a shorter
/// one.
const DEADLINE: Duration = Duration::from_secs(600);

/// The keys of options that every call has, and of those that `mount` has besides.
const FS_TYPE: &str = "kubernetes.io/fsType";
const READ_WRITE: &str = "kubernetes.io/readwrite";
const NAME: &str = "kubernetes.io/pvOrVolumeName";
const POD_NAME: &str = "kubernetes.io/pod.name";
const POD_NAMESPACE: &str = "kubernetes.io/pod.namespace";
const POD_UID: &str = "kubernetes.io/pod.uid";
const SERVICE_ACCOUNT: &str = "kubernetes.io/serviceAccount.name";
const SECRET: &str = "kubernetes.io/secret/";
/// Both spellings: the documented one, and the one that the kubelet sends.
const FS_GROUP: [&str; 2] = ["kubernetes.io/fsGroup", "kubernetes.io/mounterArgs.FsGroup"];

/// A driver, by name.
pub(crate) struct Caller {
    name: String,
    driver: Driver,
}

/// A driver's answer to a call.
pub(crate) enum Reply {
    /// It succeeded.
    Done(Outcome),
    /// It does not support the call and leaves it to the caller.
    NotSupported,
}

impl Caller {
    /// The driver of this name.
    ///
    /// # Errors
    /// As [`Driver::open`].
    pub(crate) fn open(name: &str) -> Result<Self> {
        Ok(Self { name: name.to_owned(), driver: Driver::open(name)? })
    }

    /// Whether the driver has this capability; the kubelet's default when it does not report it.
    pub(crate) fn can(&self, capability: &str, by_default: bool) -> bool {
        match self.driver.init_field(&format!("capabilities.{capability}")).as_deref() {
            Some("true") => true,
            Some("false") => false,
            _ => by_default,
        }
    }

    /// Whether volumes of the driver are attached to the node.
    pub(crate) fn attaches(&self) -> bool {
        self.can("attach", true)
    }

    /// Makes a call.
    ///
    /// # Errors
    /// `retryable` when the driver reports a failure; `uncertain` when the result is not known: it
    /// answered nothing, contradicted itself, or was killed. Else as [`Driver::run`].
    pub(crate) fn call(&self, call: &str, arguments: Arguments) -> Result<Reply> {
        let outcome = self.driver.run(&arguments, DEADLINE)?;
        let name = &self.name;
        let exit = match outcome.exit_code() {
            Some(code) => format!("exited with {code}"),
            None => "was ended by a signal".to_owned(),
        };
        let words = match outcome.words() {
            words if words.is_empty() => String::new(),
            words => format!("; it also wrote: {words}"),
        };
        let message = match outcome.field("message") {
            Some(message) if !message.is_empty() => format!(": {message}"),
            _ => String::new(),
        };
        if !outcome.answered() {
            return Err(Error::uncertain(format!("driver {name} {exit} in {call} and answered nothing{words}")));
        }
        match outcome.field("status").unwrap_or_default().as_str() {
            "Success" if outcome.exit_code() == Some(0) => Ok(Reply::Done(outcome)),
            "Success" => Err(Error::uncertain(format!(
                "driver {name} answered \"Success\" to {call} and {exit}, which cannot both be right{message}{words}"
            ))),
            "Not supported" => Ok(Reply::NotSupported),
            status => {
                Err(Error::retryable(format!("driver {name} answered {} to {call}{message}{words}", quoted(status))))
            }
        }
    }
}

/// The options of the calls that attach and stage. The volume's own options come last, as with the
/// kubelet.
///
/// # Errors
/// `invalid-argument` for an option of the volume that is not a text.
pub(crate) fn options(volume: &Volume, source: &Source) -> Result<Options> {
    let options = common(volume, source, true);
    options.set_from(volume, "options")?;
    Ok(options)
}

/// The options of `mount`.
///
/// # Errors
/// As [`options`], and as [`Options::set_secret`].
pub(crate) fn mount_options(volume: &Volume, pod: &Pod, source: &Source, driver: &Caller) -> Result<Options> {
    let options = common(volume, source, driver.attaches());
    options.set(POD_NAME, &pod.name());
    options.set(POD_NAMESPACE, &pod.namespace());
    options.set(POD_UID, &pod.uid());
    options.set(SERVICE_ACCOUNT, &pod.service_account());
    if let Some(group) = pod.fs_group() {
        for key in FS_GROUP {
            options.set(key, &group.to_string());
        }
    }
    options.set_secret(volume, pod, SECRET, &source.driver).context("secretRef")?;
    options.set_from(volume, "options")?;
    Ok(options)
}

fn common(volume: &Volume, source: &Source, attaches: bool) -> Options {
    let options = Options::new();
    options.set(FS_TYPE, source.fs_type.as_deref().unwrap_or_default());
    options.set(READ_WRITE, if volume.read_only() { "ro" } else { "rw" });
    options.set(NAME, &source.name_for_driver(attaches));
    options
}
