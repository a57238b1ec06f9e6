//! Notices changes in the folder, and who is still writing. One inotify instance watches the folder and, for its being deleted,
//! made again or replaced, the nearest folder above it that exists.
//!
//! Why not a general watching crate: the content of a file that is being written must not be used (half of a YAML file is often
//! valid YAML with fewer pods). The kernel queues the event of a write before the write can be seen, so draining the queue *after* a
//! reading tells for certain which of the files read were being written. That needs the queue itself.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;

use super::listing::is_manifest_name;

/// Bytes of events taken from the kernel at once: some hundred of them.
const BUFFER_BYTES: usize = 16 << 10;
/// How often watching is tried over while folders above come and go.
const MAX_TRIES: usize = 8;

/// An inotify instance on one folder.
#[derive(Debug)]
pub(super) struct FolderWatch {
    queue: Arc<OwnedFd>,
    folder: PathBuf,
    inner: Option<i32>,
    above: Option<Above>,
    writing: BTreeSet<String>,
    /// Files written since [`FolderWatch::begin_reading`].
    written: BTreeSet<String>,
    /// A manifest was renamed.
    moved: bool,
    changed: bool,
    must_arm: bool,
}

/// The folder above, and the name in it that leads to ours.
#[derive(Debug)]
struct Above {
    watch: i32,
    name: OsString,
}

impl FolderWatch {
    /// A watch that is not armed yet.
    pub(super) fn new(folder: &Path) -> io::Result<Self> {
        let queue = Arc::new(inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?);
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

    /// The queue, to wait on until it is readable.
    pub(super) fn queue(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.queue)
    }

    /// Whether the folder is to be read.
    pub(super) fn has_changed(&self) -> bool {
        self.changed
    }

    /// To be called before the folder is listed: from here on, every change is noticed. Answers with the files being written.
    ///
    /// # Errors
    /// The kernel's error when the folder exists and cannot be watched. It is tried again the next time.
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

    /// Whether a manifest was renamed, or the folder replaced, since this was asked last. The kernel queues the event of a rename before
    /// another listing of the folder can begin.
    pub(super) fn take_moved(&mut self) -> bool {
        self.drain();
        std::mem::take(&mut self.moved)
    }

    /// Nobody counts as writing any more: for a writer that left no trace of having finished.
    pub(super) fn forget_writers(&mut self) {
        self.writing.clear();
        self.changed = true;
    }

    /// Takes in all events that wait.
    pub(super) fn drain(&mut self) {
        let queue = Arc::clone(&self.queue);
        let mut buffer = [MaybeUninit::uninit(); BUFFER_BYTES];
        let mut reader = Reader::new(queue, &mut buffer);
        loop {
            match reader.next() {
                Ok(event) => {
                    let name = event.file_name().map(|name| name.to_bytes());
                    self.take(event.wd(), event.events(), name);
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                // The queue is broken in a way the kernel does not document: read and arm again.
                Err(_) => {
                    self.must_arm = true;
                    self.changed = true;
                    return;
                }
            }
        }
    }

    fn take(&mut self, watch: i32, events: ReadFlags, name: Option<&[u8]>) {
        if events.contains(ReadFlags::QUEUE_OVERFLOW) {
            // Ends of writing may be among the lost events.
            self.writing.clear();
            self.must_arm = true;
            self.moved = true;
            self.changed = true;
            return;
        }
        let lost = ReadFlags::IGNORED | ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF | ReadFlags::UNMOUNT;
        if self.inner == Some(watch) {
            if events.intersects(lost) {
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
            if ours || events.intersects(lost) {
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
            | WatchFlags::MOVE_SELF
            | WatchFlags::ONLYDIR;
        let around = WatchFlags::CREATE
            | WatchFlags::MOVE
            | WatchFlags::DELETE
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE_SELF
            | WatchFlags::ONLYDIR;
        for _ in 0..MAX_TRIES {
            let above = self.nearest_above(around)?;
            let inner = match inotify::add_watch(&self.queue, &self.folder, inside) {
                Ok(watch) => Some(watch),
                Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS | Errno::LOOP) => None,
                Err(error) => return Err(error.into()),
            };
            let old = [self.inner, self.above.as_ref().map(|above| above.watch)];
            let new = [inner, above.as_ref().map(|above| above.watch)];
            for gone in old.iter().flatten().filter(|watch| !new.contains(&Some(**watch))) {
                // Fails when the kernel dropped the watch itself, with the folder.
                let _ = inotify::remove_watch(&self.queue, *gone);
            }
            self.inner = inner;
            self.above = above;
            // No event reports a folder that appeared between the two steps: check again until the path is complete.
            if self.inner.is_some() || old == new {
                self.must_arm = false;
                return Ok(());
            }
        }
        Ok(())
    }

    fn nearest_above(&self, flags: WatchFlags) -> io::Result<Option<Above>> {
        let mut below = self.folder.as_path();
        while let Some(folder) = below.parent() {
            match inotify::add_watch(&self.queue, folder, flags) {
                Ok(watch) => return Ok(below.file_name().map(|name| Above { watch, name: name.to_owned() })),
                Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS | Errno::LOOP) => below = folder,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(None)
    }
}
