//! A node: root folder, plugins, sources and event loop, started in an order that loses no volume.
//!
//! ```text
//!  lock the root folder -> make it a mount of its own -> the tmpfs for records, if it is of this layout
//!    -> load plugins whose code is cached -> recover the volumes in the pods' folders -> read every source -> serve
//! ```
//!
//! Nothing is mounted or unmounted before recovery, and no recovered volume is unmounted before
//! every source has reported.

mod begin;
mod error;
mod options;
mod start;

use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};
use volhost_kernel::{Detach, Directory, Kernel, RootLock};
use volhost_plugin_folder::PluginRegistry;
use volhost_volume_ops::layout;

pub use self::error::StartError;
pub use self::options::NodeOptions;
use crate::event_loop::NodeHandle;

/// A running node.
#[derive(Debug)]
pub struct Node {
    handle: NodeHandle,
    reload: Vec<Arc<Notify>>,
    cluster: Option<Arc<PluginRegistry>>,
    stop: CancellationToken,
    event_loop: JoinHandle<bool>,
    kernel: Arc<dyn Kernel>,
    root: PathBuf,
    inside: Directory,
    _lock: RootLock,
}

impl Node {
    /// Starts a node. When it returns, what earlier runs left is known, every source has been read
    /// once, and requests are served. Plugins may still be being compiled.
    ///
    /// # Errors
    /// [`StartError`]; then nothing runs, and what was mounted before is as it was.
    pub async fn start(options: NodeOptions) -> Result<Self, StartError> {
        start::start(options).await
    }

    /// How to talk to it.
    pub fn handle(&self) -> NodeHandle {
        self.handle.clone()
    }

    /// The plugins, if the cluster may install some.
    pub fn cluster_plugins(&self) -> Option<Arc<PluginRegistry>> {
        self.cluster.clone()
    }

    /// Reads the grants, the plugin folder and the manifest folder again, and looks for what gone
    /// pods have left.
    pub fn reload(&self) {
        for reload in &self.reload {
            reload.notify_one();
        }
    }

    /// Ends the node. Running operations are let end, for a while; mounts stay. After a drain that
    /// left nothing, the root folder's own mounts go too.
    pub async fn stop(self) {
        self.stop.cancel();
        let drained = match self.event_loop.await {
            Ok(drained) => drained,
            Err(error) => {
                error!(%error, "the event loop ended early");
                false
            }
        };
        if !drained {
            return;
        }
        let (kernel, root, inside) = (self.kernel, self.root, self.inside);
        let released = tokio::task::spawn_blocking(move || {
            // Lazily: a thread that has just ended may still have a folder of it open. Nothing in
            // it is needed.
            kernel.detach(&inside, OsStr::new(layout::STATE), Detach::Lazy)?;
            drop(inside);
            kernel.release_root(&root)
        });
        match released.await {
            Ok(Ok(())) => info!("nothing is mounted any more; the root folder is a plain folder again"),
            Ok(Err(error)) => warn!(%error, "the root folder's own mounts stay"),
            Err(error) => warn!(%error, "the root folder's own mounts stay"),
        }
    }
}
