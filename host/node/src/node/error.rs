//! Why a node could not be started.

use std::path::PathBuf;

use thiserror::Error;
use volhost_kernel::KernelError;
use volhost_kubelet_root::claim::NotAdopted;
use volhost_runtime::RuntimeError;
use volhost_volume_ops::layout_version::LayoutError;

use crate::root_place::PlaceError;

/// Why a node could not be started. Nothing is left running.
#[derive(Debug, Error)]
pub enum StartError {
    /// The root folder cannot be used.
    #[error("the root folder {} cannot be prepared: {source}", root.display())]
    Root {
        /// Which.
        root: PathBuf,
        /// Why.
        source: KernelError,
    },
    /// The root folder lies where it must not.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// It is a kubelet's.
    #[error(transparent)]
    Kubelets(#[from] NotAdopted),
    /// Another volhost has it.
    #[error("the root folder {} cannot be locked: {source}", root.display())]
    Lock {
        /// Which.
        root: PathBuf,
        /// Why, and who has it.
        source: KernelError,
    },
    /// The folder for the records of FUSE servers cannot be made.
    #[error("the folder for the records of FUSE servers cannot be made: {0}")]
    FuseServers(#[source] KernelError),
    /// The folder of plugins that the cluster installs cannot be opened.
    #[error("the folder of plugins from the cluster cannot be opened: {0}")]
    ClusterPlugins(#[source] KernelError),
    /// The tmpfs for records cannot be made.
    #[error("the tmpfs for records at {} cannot be mounted: {source}", path.display())]
    State {
        /// Where.
        path: PathBuf,
        /// Why.
        source: KernelError,
    },
    /// Another version of volhost left what is there.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// The plugin folder is not there.
    #[error("the plugin folder {} cannot be read: {source}; make it, or name another with --plugin-dir", folder.display())]
    Plugins {
        /// Which.
        folder: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The runtime cannot be set up.
    #[error("the WebAssembly runtime cannot be set up: {0}")]
    Runtime(#[from] RuntimeError),
    /// The machine's memory is not known.
    #[error("the machine's memory cannot be read: {0}")]
    Memory(#[source] KernelError),
    /// The pods' folders cannot be read.
    #[error("the pods' folders below {} cannot be read, and nothing may be mounted before the existing mounts are known: {source}", root.display())]
    Recovery {
        /// The root folder.
        root: PathBuf,
        /// Why.
        source: KernelError,
    },
    /// The records of volumes that were made for claims cannot be read.
    #[error("{0}; volumes are made for claims only when it is known which there are")]
    Provisioned(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A task ended before it had begun.
    #[error("a task of volhost ended early; its log says why")]
    Ended,
}
