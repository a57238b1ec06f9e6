//! One inotify queue.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Bytes of events taken from the kernel at once: some hundred events.
const BUFFER_BYTES: usize = 16 << 10;

/// The kernel's number for a watch. It is not used again in the same queue.
pub type WatchId = i32;

/// An inotify queue. Clones are the same queue.
#[derive(Debug, Clone)]
pub struct InotifyQueue(Arc<OwnedFd>);

/// One event.
#[derive(Debug, Clone, Copy)]
pub struct InotifyEvent<'a> {
    /// The watch that reports it; -1 for an overflow of the queue.
    pub watch: WatchId,
    /// What happened.
    pub kinds: ReadFlags,
    /// The name of the entry in the watched folder; none if it is about the folder itself.
    pub name: Option<&'a [u8]>,
}

impl InotifyEvent<'_> {
    /// Whether the watch no longer reports what happens at its path: the folder was deleted, moved
    /// or unmounted.
    #[must_use]
    pub fn is_watch_lost(&self) -> bool {
        self.kinds.intersects(ReadFlags::IGNORED | ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF | ReadFlags::UNMOUNT)
    }

    /// Whether the kernel dropped events because the queue was full.
    #[must_use]
    pub fn is_overflow(&self) -> bool {
        self.kinds.contains(ReadFlags::QUEUE_OVERFLOW)
    }
}

impl InotifyQueue {
    /// Opens a queue without watches.
    ///
    /// # Errors
    /// The kernel's: too many queues of this user.
    pub fn open() -> io::Result<Self> {
        Ok(Self(Arc::new(inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?)))
    }

    /// Watches a folder. If it is watched already, `events` replaces what its watch reports.
    ///
    /// Returns none if there is no folder at this path, or it may not be opened.
    ///
    /// # Errors
    /// The kernel's: too many watches of this user, for example.
    pub fn watch(&self, folder: &Path, events: WatchFlags) -> io::Result<Option<WatchId>> {
        match inotify::add_watch(&self.0, folder, events | WatchFlags::ONLYDIR) {
            Ok(watch) => Ok(Some(watch)),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS | Errno::LOOP) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Ends a watch.
    pub fn forget(&self, watch: WatchId) {
        // Fails when the kernel dropped the watch itself, with the folder.
        let _ = inotify::remove_watch(&self.0, watch);
    }

    /// Takes all events that wait. Does not block.
    ///
    /// # Errors
    /// The queue is broken in a way that the kernel does not document.
    pub fn drain(&self, mut take: impl FnMut(InotifyEvent<'_>)) -> io::Result<()> {
        let mut buffer = [MaybeUninit::uninit(); BUFFER_BYTES];
        let mut reader = Reader::new(&*self.0, &mut buffer);
        loop {
            match reader.next() {
                Ok(event) => take(InotifyEvent {
                    watch: event.wd(),
                    kinds: event.events(),
                    name: event.file_name().map(|name| name.to_bytes()),
                }),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Registers the queue with the tokio runtime of this thread.
    ///
    /// # Errors
    /// The kernel's.
    #[expect(
        deprecated,
        reason = "its successor is unsafe because of descriptors that change; an Arc<OwnedFd> owns one for its whole life"
    )]
    pub fn wake(&self) -> io::Result<Wake> {
        AsyncFd::with_interest(Arc::clone(&self.0), Interest::READABLE).map(Wake)
    }
}

/// Waits for events in a queue.
#[derive(Debug)]
pub struct Wake(AsyncFd<Arc<OwnedFd>>);

impl Wake {
    /// Waits until events may wait in the queue, then calls `drain`, which has to take all of them.
    /// Cancel-safe: events that are not taken stay queued.
    pub async fn wait(&self, drain: impl FnOnce()) {
        match self.0.readable().await {
            Ok(mut ready) => {
                drain();
                ready.clear_ready();
            }
            // The runtime is ending.
            Err(_) => std::future::pending().await,
        }
    }
}
