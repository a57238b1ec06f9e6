//! How a call of a plugin can fail, and what that says of the volume.

use thiserror::Error;
use volhost_kernel::KernelError;
use volhost_model::FailureClass;

use crate::bindings::volhost::plugin::types;
use crate::text::tame;

/// The longest error text taken from a plugin, in bytes.
const MESSAGE_BYTES: usize = 4096;

/// Which function of the plugin was called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Function {
    /// `plugin.describe`.
    Describe,
    /// `plugin.identify`.
    Identify,
    /// `publisher.publish`.
    Publish,
    /// `publisher.unpublish`.
    Unpublish,
    /// `attacher.attach`.
    Attach,
    /// `attacher.detach`.
    Detach,
    /// `attacher.wait-for-attach`.
    WaitForAttach,
    /// `attacher.are-attached`.
    AreAttached,
    /// `other-nodes.attached-to`.
    AttachedTo,
    /// `other-nodes.detach-from`.
    DetachFrom,
    /// `stager.stage`.
    Stage,
    /// `stager.unstage`.
    Unstage,
    /// `block-mapper.stage-device`.
    StageDevice,
    /// `block-mapper.map-device`.
    MapDevice,
    /// `block-mapper.unmap-device`.
    UnmapDevice,
    /// `block-mapper.unstage-device`.
    UnstageDevice,
    /// `expander.expand`.
    Expand,
    /// `stats.measure`.
    Measure,
    /// `controller.create`.
    CreateVolume,
    /// `controller.delete`.
    DeleteVolume,
    /// `controller.find`.
    FindVolume,
    /// `controller.expand`.
    ExpandVolume,
    /// `controller.list-volumes`.
    ListVolumes,
    /// `controller.free-space`.
    FreeSpace,
    /// `snapshotter.create-snapshot`.
    CreateSnapshot,
    /// `snapshotter.delete-snapshot`.
    DeleteSnapshot,
    /// `snapshotter.find-snapshot`.
    FindSnapshot,
    /// `snapshotter.list-snapshots`.
    ListSnapshots,
    /// `modifier.modify`.
    ModifyVolume,
    /// `group-snapshotter.create-group`.
    CreateGroup,
    /// `group-snapshotter.delete-group`.
    DeleteGroup,
    /// `group-snapshotter.find-group`.
    FindGroup,
}

impl Function {
    /// Its name in the contract.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Describe => "describe",
            Self::Identify => "identify",
            Self::Publish => "publish",
            Self::Unpublish => "unpublish",
            Self::Attach => "attach",
            Self::Detach => "detach",
            Self::WaitForAttach => "wait-for-attach",
            Self::AreAttached => "are-attached",
            Self::AttachedTo => "attached-to",
            Self::DetachFrom => "detach-from",
            Self::Stage => "stage",
            Self::Unstage => "unstage",
            Self::StageDevice => "stage-device",
            Self::MapDevice => "map-device",
            Self::UnmapDevice => "unmap-device",
            Self::UnstageDevice => "unstage-device",
            Self::Expand => "expand",
            Self::Measure => "measure",
            Self::CreateVolume => "create",
            Self::DeleteVolume => "delete",
            Self::FindVolume => "find",
            Self::ExpandVolume => "controller.expand",
            Self::ListVolumes => "list-volumes",
            Self::FreeSpace => "free-space",
            Self::CreateSnapshot => "create-snapshot",
            Self::DeleteSnapshot => "delete-snapshot",
            Self::FindSnapshot => "find-snapshot",
            Self::ListSnapshots => "list-snapshots",
            Self::ModifyVolume => "modify",
            Self::CreateGroup => "create-group",
            Self::DeleteGroup => "delete-group",
            Self::FindGroup => "find-group",
        }
    }
}

/// The case of an error that a plugin returned. See `wit/types.wit` for what each asks of the host.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the contract documents its cases")]
pub enum ErrorCase {
    InvalidArgument,
    NotFound,
    Conflict,
    Busy,
    Precondition,
    PermissionDenied,
    Unsupported,
    Retryable,
    Uncertain,
    Corrupt,
    /// Any other, by code.
    Other(String),
}

/// An error that the plugin returned.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct PluginError {
    /// What it asks of the host.
    pub case: ErrorCase,
    /// Its text, bounded and tamed.
    pub message: String,
}

impl From<types::Error> for PluginError {
    fn from(error: types::Error) -> Self {
        use types::Error as Wit;
        let (case, message) = match error {
            Wit::InvalidArgument(m) => (ErrorCase::InvalidArgument, m),
            Wit::NotFound(m) => (ErrorCase::NotFound, m),
            Wit::Conflict(m) => (ErrorCase::Conflict, m),
            Wit::Busy(m) => (ErrorCase::Busy, m),
            Wit::Precondition(m) => (ErrorCase::Precondition, m),
            Wit::PermissionDenied(m) => (ErrorCase::PermissionDenied, m),
            Wit::Unsupported(m) => (ErrorCase::Unsupported, m),
            Wit::Retryable(m) => (ErrorCase::Retryable, m),
            Wit::Uncertain(m) => (ErrorCase::Uncertain, m),
            Wit::Corrupt(m) => (ErrorCase::Corrupt, m),
            Wit::Other(other) => (ErrorCase::Other(tame(&other.code, 64)), other.message),
        };
        let message = tame(&message, MESSAGE_BYTES);
        let message = match &case {
            ErrorCase::Other(code) if code != NOT_BEGUN && !message.contains(code.as_str()) => {
                format!("{message} ({code})")
            }
            _ if message.is_empty() => "the plugin gave no reason".to_owned(),
            _ => message,
        };
        Self { case, message }
    }
}

/// The code of an error that says: nothing was begun, and what an earlier call mounted is still
/// mounted.
const NOT_BEGUN: &str = "not-begun";

/// Why a call did not succeed. `changed` says whether the call had begun to change something on the
/// node.
#[derive(Debug, Error)]
pub enum CallError {
    /// The plugin says so.
    #[error(transparent)]
    Plugin(#[from] PluginError),
    /// The plugin crashed.
    #[error("the plugin crashed in {}: {reason}{}", .function.name(), its_last_words(.last_words))]
    Trap {
        /// Where.
        function: Function,
        /// WebAssembly's word for it.
        reason: String,
        /// The last thing the plugin logged as an error: a panic's message.
        last_words: Option<String>,
        /// Something may have been changed.
        changed: bool,
    },
    /// The plugin's own code ran for longer than it may.
    #[error("the plugin's code ran for more than {seconds:.1} s in {} and was stopped", .function.name())]
    Deadline {
        /// Where.
        function: Function,
        /// The bound.
        seconds: f64,
        /// Something may have been changed.
        changed: bool,
    },
    /// The plugin used more than it may.
    #[error("the plugin was stopped in {}: it used {what}", .function.name())]
    LimitExceeded {
        /// Where.
        function: Function,
        /// Of what.
        what: String,
        /// Something may have been changed.
        changed: bool,
    },
    /// The host ended the call because its result was no longer wanted.
    #[error("the pod was deleted during {}, and the host ended it", .function.name())]
    Cancelled {
        /// Where.
        function: Function,
        /// Something may have been changed.
        changed: bool,
    },
    /// The plugin answered with more than the host takes.
    #[error("the plugin was stopped in {}: it handed over more than {limit} bytes at once", .function.name())]
    OversizedAnswer {
        /// Where.
        function: Function,
        /// The bound.
        limit: usize,
        /// Something may have been changed.
        changed: bool,
    },
    /// The plugin broke the contract in a way that only a defect or malice explains.
    #[error("the plugin broke the contract in {}: {what}", .function.name())]
    BrokeContract {
        /// Where.
        function: Function,
        /// How.
        what: String,
        /// Something may have been changed.
        changed: bool,
    },
    /// The plugin says it is done, and the node shows that it is not.
    #[error("the plugin reported {} as done, but {found}", .function.name())]
    Lied {
        /// Of what.
        function: Function,
        /// What the host found.
        found: String,
    },
    /// Whether the plugin's answer is true could not be checked.
    #[error("{} is done, but the target could not be checked", .function.name())]
    Check {
        /// After what.
        function: Function,
        /// The kernel's answer.
        #[source]
        source: KernelError,
    },
    /// The plugin has no such function.
    #[error(
        "the plugin does not export {interface}, so it cannot {}; use another plugin for this volume, or a version that can",
        .function.name()
    )]
    Lacks {
        /// What was wanted of it.
        function: Function,
        /// The interface that has it.
        interface: &'static str,
    },
    /// The sandbox could not be made. The plugin did not run.
    #[error(
        "no sandbox could be made for the plugin: {reason}; calls that hang keep theirs, see `volhost get operations`"
    )]
    Sandbox {
        /// Why.
        reason: String,
    },
}

fn its_last_words(words: &Option<String>) -> String {
    words.as_ref().map_or_else(String::new, |words| format!("; its last words: {words}"))
}

impl CallError {
    /// Returns what the failure says of the volume's state.
    #[must_use]
    pub fn class(&self) -> FailureClass {
        let after = |changed: &bool| {
            if *changed { FailureClass::Uncertain } else { FailureClass::Final }
        };
        match self {
            Self::Plugin(PluginError { case: ErrorCase::Uncertain, .. }) | Self::Check { .. } => {
                FailureClass::Uncertain
            }
            // After publish nothing is there; after unpublish something still is; what the storage
            // was asked to attach may come yet.
            Self::Lied {
                function:
                    Function::Unpublish | Function::Unstage | Function::Detach | Function::DetachFrom | Function::Attach,
                ..
            } => FailureClass::Uncertain,
            Self::Plugin(PluginError { case: ErrorCase::Other(code), .. }) if code == NOT_BEGUN => {
                FailureClass::Transient
            }
            Self::Plugin(_) | Self::Lied { .. } | Self::Lacks { .. } => FailureClass::Final,
            Self::Trap { changed, .. }
            | Self::Deadline { changed, .. }
            | Self::Cancelled { changed, .. }
            | Self::LimitExceeded { changed, .. }
            | Self::OversizedAnswer { changed, .. }
            | Self::BrokeContract { changed, .. } => after(changed),
            Self::Sandbox { .. } => FailureClass::Transient,
        }
    }

    /// Returns whether the plugin itself misbehaved, which counts towards its quarantine; an honest
    /// error does not.
    #[must_use]
    pub fn is_misbehaviour(&self) -> bool {
        match self {
            Self::Trap { .. }
            | Self::Deadline { .. }
            | Self::LimitExceeded { .. }
            | Self::OversizedAnswer { .. }
            | Self::BrokeContract { .. }
            | Self::Lied { .. } => true,
            Self::Plugin(_)
            | Self::Cancelled { .. }
            | Self::Check { .. }
            | Self::Lacks { .. }
            | Self::Sandbox { .. } => false,
        }
    }

    /// The text for the user, causes included.
    #[must_use]
    pub fn message(&self) -> String {
        let mut message = self.to_string();
        let mut cause = std::error::Error::source(self);
        if matches!(self, Self::Plugin(_)) {
            cause = None;
        }
        while let Some(error) = cause {
            message = format!("{message}: {error}");
            cause = error.source();
        }
        message
    }
}
