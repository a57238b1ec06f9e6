//! The failures of a call, by how the host must react.

use std::fmt;

/// The result of a plugin's fallible function.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failure. Choose the case by what should happen next, not by what happened; the host and the
/// person reading `volhost describe` both act on it.
///
/// Unless a case documents otherwise, returning it promises that the call changed *nothing*.
///
/// Write the text for a person: the field, path or object, what is wrong with it, and what would be
/// right. Never put a secret in it.
///
/// ```
/// use volhost_plugin_sdk::prelude::*;
///
/// let error = Error::not_found("/srv/data does not exist").context("hostPath");
/// assert_eq!(error.to_string(), "hostPath: /srv/data does not exist");
/// assert!(matches!(error, Error::NotFound(_)), "context keeps the case");
/// ```
///
/// ```
/// use volhost_plugin_sdk::prelude::*;
/// /// Describes the host's reaction to a case.
/// fn reaction(error: &Error) -> &'static str {
///     match error {
///         Error::InvalidArgument(_) | Error::Unsupported(_) => "none, until the volume changes",
///         Error::Uncertain(_) => "repeats the call, or undoes it",
///         Error::PermissionDenied(_) => "retries later; the operator must grant it",
///         Error::Corrupt(_) => "retries later; a person must look",
///         Error::NotFound(_) | Error::Conflict(_) | Error::Busy(_) | Error::Precondition(_) | Error::Retryable(_) => "retries later",
///         Error::Other(other) if other.code == "not-begun" => "retries later; an uncertain volume stays uncertain",
///         Error::Other(_) => "retries later",
///     }
/// }
/// assert_eq!(reaction(&Error::busy("pod a uses it")), "retries later");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// A field of the volume's source is missing, of the wrong type, or out of range. Retrying
    /// without a change is useless.
    InvalidArgument(String),
    /// An object or path that the volume refers to does not exist. Retried with backoff.
    NotFound(String),
    /// It exists already, and differs from what is asked.
    Conflict(String),
    /// It is in use. Retried with backoff.
    Busy(String),
    /// Something else must happen first. Retried with backoff.
    Precondition(String),
    /// The operator's grant, or the kernel, does not allow it.
    PermissionDenied(String),
    /// This plugin or this kernel cannot do it.
    Unsupported(String),
    /// It failed for a reason that may pass. Retried with backoff.
    Retryable(String),
    /// It may have happened, and may be happening still. The host repeats the call or undoes it; it
    /// never forgets it.
    Uncertain(String),
    /// The volume's own data is damaged: a person must look. Retried with backoff.
    Corrupt(String),
    /// Every other failure, by code.
    Other(OtherError),
}

/// A failure without a case of its own.
///
/// ```
/// use volhost_plugin_sdk::prelude::*;
/// use volhost_plugin_sdk::OtherError;
///
/// let failed = Error::other("EIO", "the disk does not answer").and(&Error::busy("and it is still mounted"));
/// let Error::Other(OtherError { code, message }) = &failed else { unreachable!() };
/// assert_eq!((code.as_str(), failed.message()), ("EIO", message.as_str()));
/// assert_eq!(failed.case(), "other");
/// // This call changed nothing, and did not touch what an earlier one may have left.
/// assert!(matches!(Error::not_begun("no place is free"), Error::Other(OtherError { code, .. }) if code == "not-begun"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherError {
    /// An errno name such as `EIO` when it comes from the kernel, else one word of the plugin's
    /// choice.
    pub code: String,
    /// The description, for a person.
    pub message: String,
}

macro_rules! constructors {
    ($($name:ident => $case:ident),* $(,)?) => {$(
        #[doc = concat!("An [`Error::", stringify!($case), "`] with this text.")]
        #[must_use]
        pub fn $name(text: impl Into<String>) -> Self {
            Self::$case(text.into())
        }
    )*};
}

impl Error {
    constructors! {
        invalid_argument => InvalidArgument,
        not_found => NotFound,
        conflict => Conflict,
        busy => Busy,
        precondition => Precondition,
        permission_denied => PermissionDenied,
        unsupported => Unsupported,
        retryable => Retryable,
        uncertain => Uncertain,
        corrupt => Corrupt,
    }

    /// An [`Error::Other`] with this code and text.
    #[must_use]
    pub fn other(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Other(OtherError { code: code.into(), message: message.into() })
    }

    /// An [`Error::Other`] with the code `not-begun`: this call did nothing, and nothing of what an
    /// earlier one may have left. A volume that was uncertain still is.
    #[must_use]
    pub fn not_begun(message: impl Into<String>) -> Self {
        Self::other("not-begun", message)
    }

    /// The case in the contract's spelling, such as `not-found`.
    #[must_use]
    pub const fn case(&self) -> &'static str {
        match self {
            Self::InvalidArgument(_) => "invalid-argument",
            Self::NotFound(_) => "not-found",
            Self::Conflict(_) => "conflict",
            Self::Busy(_) => "busy",
            Self::Precondition(_) => "precondition",
            Self::PermissionDenied(_) => "permission-denied",
            Self::Unsupported(_) => "unsupported",
            Self::Retryable(_) => "retryable",
            Self::Uncertain(_) => "uncertain",
            Self::Corrupt(_) => "corrupt",
            Self::Other(_) => "other",
        }
    }

    /// The text.
    #[must_use]
    pub fn message(&self) -> &str {
        match self {
            Self::InvalidArgument(text)
            | Self::NotFound(text)
            | Self::Conflict(text)
            | Self::Busy(text)
            | Self::Precondition(text)
            | Self::PermissionDenied(text)
            | Self::Unsupported(text)
            | Self::Retryable(text)
            | Self::Uncertain(text)
            | Self::Corrupt(text) => text,
            Self::Other(other) => &other.message,
        }
    }

    /// Puts `what: ` before the text. The case stays, and with it the host's reaction.
    #[must_use]
    pub fn context(mut self, what: impl fmt::Display) -> Self {
        let text = self.text_mut();
        *text = format!("{what}: {text}");
        self
    }
}

impl Error {
    /// Appends the text of another failure. The case stays: this one decides how the host reacts.
    #[must_use]
    pub fn and(mut self, other: &Self) -> Self {
        self.text_mut().push_str(&format!("; {}", other.message()));
        self
    }

    fn text_mut(&mut self) -> &mut String {
        match self {
            Self::InvalidArgument(text)
            | Self::NotFound(text)
            | Self::Conflict(text)
            | Self::Busy(text)
            | Self::Precondition(text)
            | Self::PermissionDenied(text)
            | Self::Unsupported(text)
            | Self::Retryable(text)
            | Self::Uncertain(text)
            | Self::Corrupt(text) => text,
            Self::Other(other) => &mut other.message,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Other(other) => write!(f, "{} ({})", other.message, other.code),
            _ => f.write_str(self.message()),
        }
    }
}

impl std::error::Error for Error {}

/// Adds context to a failure.
///
/// ```
/// use volhost_plugin_sdk::{Context, Error, Result, Volume};
/// fn read(volume: &Volume) -> Result<u64> {
///     let size = volume.bytes("size").context("the limit")?;
///     size.ok_or_else(|| Error::not_found("a size")).with_context(|| format!("of {}", volume.spec_name()))
/// }
///
/// # let _host = volhost_plugin_sdk::testing::TestHost::new();
/// let error = read(&Volume::builder("scratch").named("data").handle()).unwrap_err();
/// assert_eq!(error.to_string(), "of data: a size");
/// assert!(matches!(error, Error::NotFound(_)), "context does not change the case");
/// ```
pub trait Context<T> {
    /// Puts `what: ` before the text of the error and keeps its case.
    ///
    /// # Errors
    /// The error it was called on.
    fn context(self, what: impl fmt::Display) -> Result<T>;

    /// As [`Context::context`], with a text that is only made when there is an error.
    ///
    /// # Errors
    /// The error it was called on.
    fn with_context<D: fmt::Display>(self, what: impl FnOnce() -> D) -> Result<T>;
}

impl<T, E: Into<Error>> Context<T> for std::result::Result<T, E> {
    fn context(self, what: impl fmt::Display) -> Result<T> {
        self.map_err(|error| error.into().context(what))
    }

    fn with_context<D: fmt::Display>(self, what: impl FnOnce() -> D) -> Result<T> {
        self.map_err(|error| error.into().context(what()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn context_never_changes_the_case() {
        for error in [Error::uncertain("lost"), Error::busy("in use"), Error::other("EIO", "read failed")] {
            let case = error.case();
            let wrapped = Err::<(), _>(error).context("mounting").unwrap_err();
            assert_eq!(wrapped.case(), case);
            assert!(wrapped.message().starts_with("mounting: "), "{wrapped}");
            let both = wrapped.and(&Error::conflict("there"));
            assert!(both.case() == case && both.message().ends_with("; there"), "{both}");
        }
    }

    #[test]
    fn another_failure_shows_its_code() {
        assert_eq!(Error::other("EIO", "the disk does not answer").to_string(), "the disk does not answer (EIO)");
    }
}
