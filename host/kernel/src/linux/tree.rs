//! Walking a whole tree by descriptor, on several threads, on one mount, through no link.
//!
//! Each thread works on a stack of its own, deepest folder first, and gives the older half away
//! when another has nothing to do. When many folders wait there, the thread stops reading, enters
//! some of them, and reads on: memory is bounded, however many folders lie side by side. A folder's
//! descriptor is kept while folders in it wait; beyond a number of them it is opened anew from the
//! nearest one that is kept, so the deepest tree needs no more descriptors than that.

use std::ffi::{CStr, CString, OsStr, OsString};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{FileType, RawDir, SeekFrom};
use rustix::io::Errno;

use super::walk::{FOLDER, open_on_same_mount};
use super::work_queue::WorkQueue;

/// Bytes of entries fetched by one call.
const LIST_BUFFER: usize = 32 * 1024;
/// Entries of one folder that are given to another thread together.
const BATCH: usize = 256;
/// Descriptors kept for folders in which others wait; far below the usual limit of 1024 a process.
const KEPT_DESCRIPTORS: usize = 256;
/// Bytes of a path given to one `openat2`; the kernel takes 4095.
const PATH_CHUNK: usize = 2048;
/// Folders that wait in one thread's stack before it enters some of them and reads on later. Bounds
/// the memory of a walk: 250,000 folders side by side would take 72 MB. One reading of
/// [`LIST_BUFFER`] bytes may add some 1,300 to it.
const WAITING_FOLDERS: usize = 4096;
/// Bytes of entries fetched by one call while [`WAITING_FOLDERS`] wait: some 20 folders, so that
/// each further level of a tree adds few to them. A longer name than this file systems rarely have.
const SMALL_LIST_BUFFER: usize = 512;
/// The deepest folder that is entered, in levels below the first: twice as deep as a path can name.
/// Bounds the folders that wait, for some wait on each level.
const MOST_LEVELS: usize = 4096;
/// Bytes of the path of a failure; the folders at its end are left out beyond.
const SHOWN_PATH: usize = 4096;
/// More threads than this only wait for the file system's locks.
const MAX_THREADS: usize = 16;

/// Handles what a walk finds.
pub(super) trait Visitor: Sync {
    /// A folder that was entered, before what is in it. The first folder of the walk is left out.
    fn folder(&self, folder: BorrowedFd<'_>) -> Result<(), Errno>;
    /// Anything else: false if it is a folder after all. The type is a hint, `Unknown` where the
    /// file system does not report it.
    fn entry(&self, folder: BorrowedFd<'_>, name: &CStr) -> Result<bool, Errno>;
    /// Returns whether the walk is to end before everything was visited.
    fn stopped(&self) -> bool {
        false
    }
    /// A part that could not be done. What vanished meanwhile never comes here.
    fn failed(&self, path: PathBuf, errno: Errno);
}

/// Visits everything below an open folder. `threads`: 0 for one a processor.
pub(super) fn walk_tree(root: OwnedFd, threads: usize, visitor: &impl Visitor) {
    let threads = match threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        given => given,
    };
    let threads = threads.min(MAX_THREADS);
    let walk = Walk::new(visitor, threads);
    let (root, fd) = root_of(root);
    std::thread::scope(|scope| {
        for _ in 1..threads {
            let spawned = std::thread::Builder::new().name("volume-walk".to_owned()).spawn_scoped(scope, || {
                walk.work(Vec::new());
            });
            if spawned.is_err() {
                // The others do its part.
                walk.queue.remove_worker();
            }
        }
        let _end_on_panic = walk.queue.end_on_panic();
        let mut first = Vec::new();
        walk.list(&root, &fd, &mut first);
        walk.work(first);
    });
}

/// The root of a walk.
fn root_of(fd: OwnedFd) -> (Arc<WalkFolder>, Arc<OwnedFd>) {
    let fd = Arc::new(fd);
    // One more than any folder has: the root's descriptor is never let go.
    let held = FolderHandle { fd: Some(Arc::clone(&fd)), waiting: 1 };
    (Arc::new(WalkFolder { parent: None, name: OsString::new(), level: 0, held: Mutex::new(held) }), fd)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A folder in which others wait to be entered.
struct WalkFolder {
    parent: Option<Arc<WalkFolder>>,
    name: OsString,
    /// How many levels below the root of the walk it lies.
    level: usize,
    held: Mutex<FolderHandle>,
}

struct FolderHandle {
    fd: Option<Arc<OwnedFd>>,
    /// Folders in it that were not opened yet.
    waiting: usize,
}

impl Drop for WalkFolder {
    /// Not by recursion: a tree may be deeper than the stack.
    fn drop(&mut self) {
        let mut parent = self.parent.take();
        while let Some(mut last) = parent.and_then(Arc::into_inner) {
            parent = last.parent.take();
        }
    }
}

impl WalkFolder {
    /// Where it lies below the root of the walk.
    fn path(&self) -> PathBuf {
        let mut names = vec![&self.name];
        let mut here = &self.parent;
        while let Some(node) = here {
            names.push(&node.name);
            here = &node.parent;
        }
        names.iter().rev().collect()
    }
}

enum WalkJob {
    /// A folder to enter.
    Folder { parent: Arc<WalkFolder>, name: OsString },
    /// The entries of a folder that were not read yet.
    Rest(UnreadRest),
    /// Entries of a large folder.
    Entries { node: Arc<WalkFolder>, fd: Arc<OwnedFd>, names: Vec<CString> },
}

/// A folder that was read in part.
struct UnreadRest {
    node: Arc<WalkFolder>,
    /// None when too many descriptors are kept; then the folder is opened anew.
    fd: Option<Arc<OwnedFd>>,
    /// Where its reading goes on in a folder that is opened anew, as the file system counts.
    at: u64,
}

struct Walk<'a, V> {
    visitor: &'a V,
    /// Descriptors kept for nodes.
    kept: AtomicUsize,
    queue: WorkQueue<WalkJob>,
}

impl<'a, V: Visitor> Walk<'a, V> {
    /// A walk that has not begun.
    fn new(visitor: &'a V, threads: usize) -> Self {
        Self { visitor, kept: AtomicUsize::new(0), queue: WorkQueue::new(threads) }
    }

    /// Works until no thread has anything left.
    fn work(&self, mut jobs: Vec<WalkJob>) {
        let _end_on_panic = self.queue.end_on_panic();
        while let Some(job) = self.queue.next(&mut jobs) {
            if self.visitor.stopped() {
                // What waits is dropped, and each thread comes to its end.
                jobs.clear();
                continue;
            }
            self.run(job, &mut jobs);
        }
    }

    /// Does one job, and adds the work that it finds.
    fn run(&self, job: WalkJob, jobs: &mut Vec<WalkJob>) {
        match job {
            WalkJob::Folder { parent, name } => self.enter(&parent, name, jobs),
            WalkJob::Rest(rest) => self.read_on(rest, jobs),
            WalkJob::Entries { node, fd, names } => {
                for name in &names {
                    self.entry(&node, &fd, name, jobs);
                }
            }
        }
    }

    fn enter(&self, parent: &Arc<WalkFolder>, name: OsString, jobs: &mut Vec<WalkJob>) {
        let level = parent.level + 1;
        let opened = if level > MOST_LEVELS { Err(Errno::NAMETOOLONG) } else { self.open_in(parent, &name) };
        self.opened_one(parent);
        let fd = match opened {
            Ok(fd) => fd,
            // Vanished, replaced by something else that was made just now, or a mount.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV) => return,
            Err(errno) => return self.failed(parent.path().join(name), errno),
        };
        if let Err(errno) = self.visitor.folder(fd.as_fd())
            && errno != Errno::NOENT
        {
            self.failed(parent.path().join(&name), errno);
        }
        let held = Mutex::new(FolderHandle { fd: None, waiting: 0 });
        let node = WalkFolder { parent: Some(Arc::clone(parent)), name, level, held };
        self.list(&Arc::new(node), &Arc::new(fd), jobs);
    }

    /// Visits the entries of an open folder, and adds the folders in it to the work.
    fn list(&self, node: &Arc<WalkFolder>, fd: &Arc<OwnedFd>, jobs: &mut Vec<WalkJob>) {
        let before = jobs.len();
        let mut given: Vec<CString> = Vec::new();
        let (mut seen, mut giving) = (0_usize, false);
        let mut small = before >= WAITING_FOLDERS;
        let mut buffer = vec![MaybeUninit::uninit(); LIST_BUFFER];
        let first = if small { SMALL_LIST_BUFFER } else { LIST_BUFFER };
        let mut entries = RawDir::new(fd, buffer.get_mut(..first).unwrap_or_default());
        loop {
            if entries.is_buffer_empty() {
                if self.visitor.stopped() {
                    break;
                }
                // Here the descriptor's position is that of the next entry, so nothing is visited
                // twice or left out. At least one folder was found since the last pause, so the
                // walk always advances.
                if jobs.len() >= WAITING_FOLDERS && jobs.len() > before {
                    self.pause(node, fd, jobs, before);
                    break;
                }
            }
            let entry = match entries.next() {
                None | Some(Err(Errno::NOENT)) => break,
                Some(Ok(entry)) => entry,
                // The next name does not fit.
                Some(Err(Errno::INVAL)) if small => {
                    small = false;
                    entries = RawDir::new(fd, buffer.as_mut_slice());
                    continue;
                }
                Some(Err(errno)) => {
                    self.failed(node.path(), errno);
                    break;
                }
            };
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            if entry.file_type() == FileType::Directory {
                self.wait_in(node, fd, name, jobs);
                continue;
            }
            if seen.is_multiple_of(BATCH) {
                self.give(node, fd, &mut given);
                giving = self.queue.is_short_of_work();
            }
            seen += 1;
            if giving {
                given.push(name.to_owned());
            } else {
                self.entry(node, fd, name, jobs);
            }
        }
        for name in given {
            self.entry(node, fd, &name, jobs);
        }
        // A folder of folders only: those who wait need not wait for the first of them.
        if jobs.len() > before + 1 {
            self.queue.share(jobs);
        }
    }

    /// Leaves the rest of a folder for later, below what was found in it: that is entered first.
    fn pause(&self, node: &Arc<WalkFolder>, fd: &Arc<OwnedFd>, jobs: &mut Vec<WalkJob>, before: usize) {
        let mut rest = UnreadRest { node: Arc::clone(node), fd: None, at: 0 };
        if self.kept.fetch_add(1, Ordering::Relaxed) < KEPT_DESCRIPTORS {
            rest.fd = Some(Arc::clone(fd));
        } else {
            self.kept.fetch_sub(1, Ordering::Relaxed);
            match rustix::fs::tell(fd) {
                Ok(at) => rest.at = at,
                Err(errno) => return self.failed(node.path(), errno),
            }
        }
        jobs.insert(before.min(jobs.len()), WalkJob::Rest(rest));
    }

    /// Reads on in a folder.
    fn read_on(&self, UnreadRest { node, fd, at }: UnreadRest, jobs: &mut Vec<WalkJob>) {
        if let Some(fd) = fd {
            self.kept.fetch_sub(1, Ordering::Relaxed);
            return self.list(&node, &fd, jobs);
        }
        let opened = self.open_in(&node, OsStr::new(".")).and_then(|fd| {
            rustix::fs::seek(&fd, SeekFrom::Start(at))?;
            Ok(fd)
        });
        match opened {
            Ok(fd) => self.list(&node, &Arc::new(fd), jobs),
            Err(Errno::NOENT) => {}
            Err(errno) => self.failed(node.path(), errno),
        }
    }

    fn give(&self, node: &Arc<WalkFolder>, fd: &Arc<OwnedFd>, names: &mut Vec<CString>) {
        if names.is_empty() {
            return;
        }
        let job = WalkJob::Entries { node: Arc::clone(node), fd: Arc::clone(fd), names: std::mem::take(names) };
        self.queue.give(job);
    }

    fn entry(&self, node: &Arc<WalkFolder>, fd: &Arc<OwnedFd>, name: &CStr, jobs: &mut Vec<WalkJob>) {
        match self.visitor.entry(fd.as_fd(), name) {
            Ok(true) | Err(Errno::NOENT) => {}
            Ok(false) => self.wait_in(node, fd, name, jobs),
            Err(errno) => self.failed(node.path().join(OsStr::from_bytes(name.to_bytes())), errno),
        }
    }

    /// Reports a part that could not be done, by a path that is short enough to show.
    fn failed(&self, mut path: PathBuf, errno: Errno) {
        let is_cut = path.as_os_str().len() > SHOWN_PATH;
        while path.as_os_str().len() > SHOWN_PATH && path.pop() {}
        if is_cut {
            path.push("…");
        }
        self.visitor.failed(path, errno);
    }

    /// A folder that will be entered; its parent's descriptor is kept for that, if there are not
    /// too many.
    fn wait_in(&self, node: &Arc<WalkFolder>, fd: &Arc<OwnedFd>, name: &CStr, jobs: &mut Vec<WalkJob>) {
        let mut held = lock(&node.held);
        held.waiting += 1;
        if held.waiting == 1 && held.fd.is_none() && self.kept.load(Ordering::Relaxed) < KEPT_DESCRIPTORS {
            self.kept.fetch_add(1, Ordering::Relaxed);
            held.fd = Some(Arc::clone(fd));
        }
        drop(held);
        jobs.push(WalkJob::Folder { parent: Arc::clone(node), name: OsStr::from_bytes(name.to_bytes()).to_owned() });
    }

    /// A folder in it waits no more.
    fn opened_one(&self, node: &WalkFolder) {
        let mut held = lock(&node.held);
        held.waiting -= 1;
        if held.waiting == 0 && held.fd.take().is_some() {
            self.kept.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Opens a folder in a node, by the nearest descriptor that is kept.
    fn open_in(&self, node: &WalkFolder, name: &OsStr) -> Result<OwnedFd, Errno> {
        let mut names = vec![name];
        let mut here = node;
        let kept = loop {
            if let Some(fd) = lock(&here.held).fd.clone() {
                break fd;
            }
            names.push(&here.name);
            here = here.parent.as_deref().ok_or(Errno::NOENT)?;
        };
        let mut fd: Option<OwnedFd> = None;
        let mut chunk = PathBuf::new();
        while let Some(name) = names.pop() {
            chunk.push(name);
            if names.is_empty() || chunk.as_os_str().len() > PATH_CHUNK {
                let from = fd.as_ref().map_or(kept.as_fd(), AsFd::as_fd);
                fd = Some(open_on_same_mount(from, &chunk, FOLDER)?);
                chunk = PathBuf::new();
            }
        }
        fd.ok_or(Errno::NOENT)
    }
}

#[cfg(test)]
mod tests;
