//! Notices changes in folders, by inotify.
//!
//! | type | its job |
//! |---|---|
//! | [`FolderWatch`] | reports that a folder, or one file in it, may have changed; the folder may be missing, deleted, replaced and created again |
//! | [`InotifyQueue`], [`Wake`] | the inotify queue below it, for a reader that needs the events themselves |
//!
//! Nothing here reads the folders' files, and no thread is started: the queue is one more file
//! descriptor of the tokio runtime.
#![forbid(unsafe_code)]

mod folder;
mod queue;

pub use folder::{Below, FolderWatch, changed};
pub use queue::{InotifyEvent, InotifyQueue, Wake, WatchId};
pub use rustix::fs::inotify::{ReadFlags, WatchFlags};
