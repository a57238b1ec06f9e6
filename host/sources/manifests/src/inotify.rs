//! Notices changes in the folder, and who is still writing. One inotify instance watches the folder
//! and, for its being deleted, made again or replaced, the nearest folder above it that exists.
//!
//! Why not `volhost_folder_watch::FolderWatch`: the content of a file that is being written must
//! not be used (half of a YAML file is often valid YAML with fewer pods). The kernel queues the
//! event of a write before the write can be seen, so draining the queue *after* a reading shows for
//! certain which of the files read were being written. That needs the queue itself.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use volhost_folder_watch::{InotifyEvent, InotifyQueue, ReadFlags, Wake, WatchFlags, WatchId};

use super::listing::is_manifest_name;

/// How often watching is tried over while folders above come and go.
const MAX_TRIES: usize = 8;

/// An inotify instance on one folder.
#[derive(Debug)]
pub(super) struct ManifestInotify {
    queue: InotifyQueue,
    folder: PathBuf,
    inner: Option<WatchId>,
    above: Option<WatchedParent>,
    writing: BTreeSet<String>,
    /// Files written since [`ManifestInotify::begin_reading`].
    written: BTreeSet<String>,
    /// A manifest was renamed.
    moved: bool,
    changed: bool,
    must_arm: bool,
}

/// The folder above, and the name in it that leads to ours.
#[derive(Debug)]
struct WatchedParent {
    watch: WatchId,
    name: OsString,
}

impl ManifestInotify {
    /// A watch that is not armed yet.
    pub(super) fn new(folder: &Path) -> io::Result<Self> {
        let queue = InotifyQueue::open()?;
        Ok(Self {
            queue,
            folder: std::path::absolute(folder)?,
            inner: None,
            above: None,
            writing: BTreeSet::new(),
            written: BTreeSet::new(),
            moved: false,
            changed: true,
            must_arm: true,
        })
    }

    /// Registers the queue with the tokio runtime, to wait for events.
    pub(super) fn wake(&self) -> io::Result<Wake> {
        self.queue.wake()
    }

    /// Whether the folder is to be read.
    pub(super) fn has_changed(&self) -> bool {
        self.changed
    }

    /// To be called before the folder is listed: from here on, every change is noticed. Answers
    /// with the files being written.
    ///
    /// # Errors
    /// The kernel's error when the folder exists and cannot be watched. It is tried again the next
    /// time.
    pub(super) fn begin_reading(&mut self) -> io::Result<BTreeSet<String>> {
        self.changed = false;
        self.written.clear();
        let armed = if self.must_arm { self.arm() } else { Ok(()) };
        armed.map(|()| self.writing.clone())
    }

    /// Returns the files that were written meanwhile. Called after the files were read.
    pub(super) fn written_meanwhile(&mut self) -> BTreeSet<String> {
        self.drain();
        self.written.clone()
    }

    /// Whether a manifest was renamed, or the folder replaced, since this was asked last. The
    /// kernel queues the event of a rename before another listing of the folder can begin.
    pub(super) fn take_moved(&mut self) -> bool {
        self.drain();
        std::mem::take(&mut self.moved)
    }

    /// Forgets all writers: for one that left no trace of having finished.
    pub(super) fn forget_writers(&mut self) {
        self.writing.clear();
        self.changed = true;
    }

    /// Takes in all events that wait.
    pub(super) fn drain(&mut self) {
        let queue = self.queue.clone();
        if queue.drain(|event| self.take(event)).is_err() {
            // Broken in a way that the kernel does not document: read and arm again.
            self.must_arm = true;
            self.changed = true;
        }
    }

    fn take(&mut self, event: InotifyEvent<'_>) {
        let InotifyEvent { watch, kinds: events, name } = event;
        if event.is_overflow() {
            // Ends of writing may be among the lost events.
            self.writing.clear();
            self.must_arm = true;
            self.moved = true;
            self.changed = true;
            return;
        }
        if self.inner == Some(watch) {
            if event.is_watch_lost() {
                self.must_arm = true;
                self.moved = true;
                self.changed = true;
                self.writing.clear();
                if events.contains(ReadFlags::IGNORED) {
                    self.inner = None;
                }
            } else if let Some(name) = name.and_then(|name| std::str::from_utf8(name).ok()) {
                self.take_file(events, name);
            }
        } else if self.above.as_ref().is_some_and(|above| above.watch == watch) {
            let ours = self.above.as_ref().is_some_and(|above| Some(above.name.as_bytes()) == name);
            if ours || event.is_watch_lost() {
                self.must_arm = true;
                self.changed = true;
            }
            if events.contains(ReadFlags::IGNORED) {
                self.above = None;
            }
        }
    }

    fn take_file(&mut self, events: ReadFlags, name: &str) {
        // A mounted ConfigMap changes by one rename of `..data`; the files' own names see nothing.
        if !is_manifest_name(name) {
            self.changed |= name.starts_with("..");
            return;
        }
        if events.contains(ReadFlags::MODIFY) {
            self.writing.insert(name.to_owned());
            self.written.insert(name.to_owned());
        } else {
            if events
                .intersects(ReadFlags::CLOSE_WRITE | ReadFlags::MOVED_TO | ReadFlags::MOVED_FROM | ReadFlags::DELETE)
            {
                self.writing.remove(name);
            }
            self.moved |= events.intersects(ReadFlags::MOVED_FROM | ReadFlags::MOVED_TO);
            self.changed = true;
        }
    }

    /// Watches the folder if it is there, and the nearest folder above it.
    fn arm(&mut self) -> io::Result<()> {
        let inside = WatchFlags::MODIFY
            | WatchFlags::CLOSE_WRITE
            | WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::MOVE
            | WatchFlags::ATTRIB
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE_SELF;
        let around = WatchFlags::CREATE
            | WatchFlags::MOVE
            | WatchFlags::DELETE
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE_SELF;
        for _ in 0..MAX_TRIES {
            let above = self.nearest_above(around)?;
            let inner = self.queue.watch(&self.folder, inside)?;
            let old = [self.inner, self.above.as_ref().map(|above| above.watch)];
            let new = [inner, above.as_ref().map(|above| above.watch)];
            for gone in old.iter().flatten().filter(|watch| !new.contains(&Some(**watch))) {
                self.queue.forget(*gone);
            }
            self.inner = inner;
            self.above = above;
            // No event reports a folder that appeared between the two steps: check again until the
            // path is complete.
            if self.inner.is_some() || old == new {
                self.must_arm = false;
                return Ok(());
            }
        }
        Ok(())
    }

    fn nearest_above(&self, flags: WatchFlags) -> io::Result<Option<WatchedParent>> {
        let mut below = self.folder.as_path();
        while let Some(folder) = below.parent() {
            if let Some(watch) = self.queue.watch(folder, flags)? {
                return Ok(below.file_name().map(|name| WatchedParent { watch, name: name.to_owned() }));
            }
            below = folder;
        }
        Ok(None)
    }
}
