//! A folder of manifests, read again and again. Says after each reading what has changed, and
//! forgets nothing that is not known to be gone (rule R2).

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use rustix::fs::{AtFlags, CWD, StatxFlags};

use super::grace::Grace;
use super::listing::{self, FileText, ManifestStamp};
use super::problems::FileProblems;
use volhost_objects::UnknownFieldNotice;
use volhost_objects::changes::{Changes, Problem, ProblemKind};
use volhost_objects::error::ManifestError;
use volhost_objects::key::ObjectKey;
use volhost_objects::object::Object;
use volhost_objects::parse::{Parsed, parse};

/// How often a folder that changes while it is read is read over before what was seen first stays
/// for now.
const MAX_TRIES: usize = 5;
/// Two writes within one tick of the kernel's clock give a file the same stamp. A stamp this young
/// is not relied on.
const STAMP_AGE: Duration = Duration::from_millis(50);

/// The interval at which a file is checked again that is being written.
const WRITTEN_AGAIN: Duration = Duration::from_secs(1);
/// How long another process may have a file open for writing before users read that the file does
/// not count. Tools that write a manifest take far less.
const WRITTEN_LONG: Duration = Duration::from_secs(10);

/// A folder of manifests as it was read last.
#[derive(Debug)]
pub struct ManifestFolder {
    path: PathBuf,
    files: BTreeMap<String, FileState>,
    /// The objects that count: one a key, and one pod a uid.
    objects: BTreeMap<ObjectKey, Arc<Object>>,
    problems: FileProblems,
    /// Why changes are not noticed, if they are not.
    unwatched: Option<String>,
    listed_once: bool,
    /// A listing was believed.
    is_listed: bool,
    /// Files that the last reading passed over because another process was writing them, and since
    /// when.
    being_written: BTreeMap<String, Instant>,
    /// When the last reading was.
    read_at: Option<Instant>,
    /// The mount that was listed last and believed.
    mount: Option<u64>,
    grace: Grace,
}

#[derive(Debug, Clone, Default)]
struct FileState {
    /// None: read it again next time.
    stamp: Option<ManifestStamp>,
    objects: Vec<Arc<Object>>,
    /// Why the last reading failed.
    error: Option<String>,
    ever_good: bool,
}

/// One look at the folder, not yet believed.
pub(super) struct Scan {
    listing: io::Result<BTreeMap<String, Option<ManifestStamp>>>,
    /// The mount that was listed.
    mount: Option<u64>,
    /// Files are gone that another listing did not confirm.
    unsettled: bool,
    /// Files that were passed over because another process writes them.
    being_written: BTreeSet<String>,
    readings: BTreeMap<String, Reading>,
}

struct Reading {
    stamp: Option<ManifestStamp>,
    result: Result<Parsed, ManifestError>,
}

impl ManifestFolder {
    /// A folder that has not been read yet. Does no I/O: whether the path can be read is what
    /// readings report.
    pub fn open(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            files: BTreeMap::new(),
            objects: BTreeMap::new(),
            problems: FileProblems::default(),
            unwatched: None,
            listed_once: false,
            is_listed: false,
            being_written: BTreeMap::new(),
            read_at: None,
            mount: None,
            grace: Grace::default(),
        }
    }

    /// Keeps what vanishes from the folder for this long, for it may be put back; and takes a
    /// folder that is empty when it is read first for read only when it has been empty for so long.
    #[must_use]
    pub fn with_grace(self, time: Duration) -> Self {
        Self { grace: Grace::new(time), ..self }
    }

    /// When it has to be read again although nothing happens in it.
    pub(super) fn next_reading(&self) -> Option<Instant> {
        // The end of writing is an event, but not of a file that a link leads to.
        let written = (!self.being_written.is_empty()).then(|| Instant::now() + WRITTEN_AGAIN);
        self.grace.next().into_iter().chain(written).min()
    }

    /// The path it was opened by.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Every unsolved problem, by file.
    pub fn problems(&self) -> impl Iterator<Item = Problem> + '_ {
        self.problems.all()
    }

    /// Whether the folder has been listed, and every file in it has been read without error at
    /// least once.
    pub fn is_complete(&self) -> bool {
        self.listed_once && self.files.values().all(|file| file.ever_good)
    }

    /// Reads the folder again. Files that have not changed are not parsed again. Blocks on the file
    /// system.
    ///
    /// # Guarantees
    /// - A file that cannot be read or parsed, is empty, or is being written keeps the objects it
    ///   had; if it was never read, the folder is not complete.
    /// - A folder that cannot be listed removes nothing. One that is on another mount than before,
    ///   and lacks files that had objects, removes nothing either: their mount is gone, or another
    ///   mount covers it.
    /// - An object that moves from one file to another between two readings stays.
    /// - Of two files with one object, the one that had it first counts; at the first reading, the
    ///   first by name.
    pub fn reread(&mut self) -> Changes {
        let nobody_writes = BTreeSet::new();
        let scan = self.scan(&nobody_writes, &mut || false);
        self.commit(scan, &nobody_writes)
    }

    /// Reads every file at the next reading, changed or not.
    pub fn forget_stamps(&mut self) {
        for file in self.files.values_mut() {
            file.stamp = None;
        }
    }

    /// Has readings report that changes are not noticed, or that they are again.
    pub(super) fn set_unwatched(&mut self, why: Option<String>) {
        self.unwatched = why;
    }

    /// Looks at the folder. Files that are being written (`writing`) are not read. `moved` answers
    /// whether a manifest was renamed since it was asked last.
    pub(super) fn scan(&self, writing: &BTreeSet<String>, moved: &mut dyn FnMut() -> bool) -> Scan {
        let mut scan = self.scan_once(writing, moved);
        for _ in 1..MAX_TRIES {
            if !scan.unsettled {
                break;
            }
            scan = self.scan_once(writing, moved);
        }
        scan
    }

    fn scan_once(&self, writing: &BTreeSet<String>, moved: &mut dyn FnMut() -> bool) -> Scan {
        let mount = mount_of(&self.path);
        let (listing, mut unsettled) = match self.list(moved) {
            Ok(listed) => listed,
            Err(error) => {
                let readings = BTreeMap::new();
                let being_written = BTreeSet::new();
                return Scan { listing: Err(error), mount, unsettled: false, being_written, readings };
            }
        };
        let mut being_written = BTreeSet::new();
        unsettled |= mount_of(&self.path) != mount;
        let mut readings = BTreeMap::new();
        for (name, stamp) in &listing {
            let known = self.files.get(name);
            let unchanged = stamp.is_some() && known.is_some_and(|file| file.stamp == *stamp);
            if unchanged {
                continue;
            }
            if writing.contains(name) {
                being_written.insert(name.clone());
                continue;
            }
            let result = match listing::read(&self.path, name) {
                Ok(FileText::Text(text)) => match parse(name, &text) {
                    Ok(parsed) if parsed.is_empty => Err(ManifestError::Empty { file: name.clone() }),
                    result => result,
                },
                Ok(FileText::BeingWritten) => {
                    being_written.insert(name.clone());
                    // Its last complete content counts.
                    if known.is_some_and(|file| file.ever_good) {
                        continue;
                    }
                    Err(ManifestError::BeingWritten { file: name.clone() })
                }
                // Renamed, perhaps, to a name that the listing has not seen.
                Ok(FileText::Vanished) => {
                    unsettled = true;
                    continue;
                }
                Err(error) => Err(error),
            };
            // An error is tried again: what it came from may not be in the stamp.
            let stamp = stamp.filter(|stamp| result.is_ok() && stamp.is_older_than(STAMP_AGE, SystemTime::now()));
            readings.insert(name.clone(), Reading { stamp, result });
        }
        Scan { listing: Ok(listing), mount, unsettled, being_written, readings }
    }

    /// Lists the folder. A listing that runs beside a rename can miss both names, so a file counts
    /// as gone, or as never having been there, only when two listings agree and nothing was renamed
    /// meanwhile; the flag says that it was otherwise.
    fn list(&self, moved: &mut dyn FnMut() -> bool) -> io::Result<(BTreeMap<String, Option<ManifestStamp>>, bool)> {
        // Earlier renames do not count.
        let _ = moved();
        let mut now = listing::list(&self.path)?;
        for _ in 1..MAX_TRIES {
            if self.is_listed && self.files.keys().all(|name| now.contains_key(name)) {
                return Ok((now, false));
            }
            let again = listing::list(&self.path)?;
            let agree = again.keys().eq(now.keys());
            now = again;
            if agree && !moved() {
                return Ok((now, false));
            }
        }
        Ok((now, true))
    }

    /// Believes a scan, but for the files that were written `meanwhile`: these stay as they were.
    pub(super) fn commit(&mut self, scan: Scan, meanwhile: &BTreeSet<String>) -> Changes {
        self.commit_at(scan, meanwhile, Instant::now())
    }

    /// Believes a scan as of this time.
    pub(super) fn commit_at(&mut self, mut scan: Scan, meanwhile: &BTreeSet<String>, now: Instant) -> Changes {
        let mut changes = Changes::default();
        let mut folder_problem = None;
        scan.being_written.extend(meanwhile.iter().cloned());
        let since = std::mem::take(&mut self.being_written);
        let since = |name: &String| since.get(name).copied().unwrap_or(now);
        self.being_written = scan.being_written.iter().map(|name| (name.clone(), since(name))).collect();
        self.read_at = Some(now);
        match scan.listing {
            Err(error) => {
                folder_problem = Some(format!(
                    "{}: the manifest folder cannot be read: {error}; its pods stay as they were until it can",
                    self.path.display()
                ));
            }
            Ok(listing) if !scan.unsettled && self.is_other_mount(scan.mount, &listing) => {
                folder_problem = Some(format!(
                    "{}: the mount whose manifests were read is not there any more; its pods stay as they were until it is back. To go by what is there now, restart volhost",
                    self.path.display()
                ));
            }
            Ok(listing) => {
                if !scan.unsettled {
                    self.is_listed = true;
                    self.mount = scan.mount;
                    let known = self.files.iter().filter(|(_, file)| !file.objects.is_empty()).map(|(name, _)| name);
                    self.grace.take(known, &listing, now);
                    self.files.retain(|name, _| listing.contains_key(name) || self.grace.retains(name));
                    self.listed_once = self.grace.has_begun();
                    folder_problem =
                        self.grace.empty_problem().map(|problem| format!("{}: {problem}", self.path.display()));
                }
                for name in listing.into_keys() {
                    self.files.entry(name).or_default();
                }
                for (name, reading) in scan.readings {
                    if meanwhile.contains(&name) {
                        continue;
                    }
                    let file_name = name.clone();
                    let file = self.files.entry(name).or_default();
                    file.stamp = reading.stamp;
                    match reading.result {
                        Ok(parsed) => {
                            // No person waits for an answer who could correct a field, so unknown
                            // ones are warnings here.
                            let unknown_fields = parsed.unknown_fields.iter().map(UnknownFieldNotice::warning);
                            let messages: Vec<String> =
                                parsed.unknown_kinds.into_iter().chain(unknown_fields).chain(parsed.notices).collect();
                            if !messages.is_empty() {
                                changes.notices.push(Problem { file: file_name, messages, kinds: BTreeSet::new() });
                            }
                            *file = FileState {
                                stamp: reading.stamp,
                                objects: parsed.objects,
                                error: None,
                                ever_good: true,
                            };
                        }
                        Err(error) => file.error = Some(error.to_string()),
                    }
                }
            }
        }
        let (objects, mut problems) = self.settle();
        let folder = self.path.display().to_string();
        for problem in folder_problem.into_iter().chain(self.unwatched.clone()) {
            problems.add(&folder, ProblemKind::Folder, problem);
        }
        self.replace(objects, problems, &mut changes);
        changes.complete = self.is_complete();
        changes.unread = self.unread();
        changes
    }

    /// The files that have never been read without error; the folder, if it has not been listed.
    fn unread(&self) -> Vec<String> {
        if !self.listed_once {
            return vec![self.path.display().to_string()];
        }
        self.files.iter().filter(|(_, file)| !file.ever_good).map(|(name, _)| name.clone()).collect()
    }

    /// The files that another process has had open for writing for so long that users have to know.
    fn written_long(&self) -> impl Iterator<Item = &String> {
        let is_long = |since: &Instant| self.read_at.is_some_and(|now| now.duration_since(*since) >= WRITTEN_LONG);
        let shown = |name: &&String| self.files.get(*name).is_some_and(|file| file.error.is_none());
        self.being_written.iter().filter(move |(_, since)| is_long(since)).map(|(name, _)| name).filter(shown)
    }

    /// Whether what was listed is another mount than before, on which files are missing that had
    /// objects.
    fn is_other_mount(&self, mount: Option<u64>, listing: &BTreeMap<String, Option<ManifestStamp>>) -> bool {
        let lacks = |(name, file): (&String, &FileState)| !file.objects.is_empty() && !listing.contains_key(name);
        self.mount.is_some() && self.mount != mount && self.files.iter().any(lacks)
    }

    /// Which object of each key counts, and what is wrong with the files.
    fn settle(&self) -> (BTreeMap<ObjectKey, Arc<Object>>, FileProblems) {
        let mut problems = FileProblems::default();
        for (name, problem) in self.grace.problems() {
            problems.add(&name, ProblemKind::Missing, problem);
        }
        for name in self.written_long() {
            let problem = ManifestError::BeingWritten { file: name.clone() }.to_string();
            problems.add(name, ProblemKind::BeingWritten, problem);
        }
        let mut candidates: BTreeMap<&ObjectKey, Vec<&Arc<Object>>> = BTreeMap::new();
        for (name, file) in &self.files {
            if let Some(error) = &file.error {
                problems.add(name, ProblemKind::Invalid, error.clone());
            }
            for object in &file.objects {
                candidates.entry(&object.key).or_default().push(object);
            }
        }
        let mut chosen: Vec<&Arc<Object>> = Vec::with_capacity(candidates.len());
        for (key, candidates) in candidates {
            let current = self.objects.get(key).map(|object| &object.origin.file);
            let same = candidates.iter().find(|candidate| Some(&candidate.origin.file) == current);
            let Some(winner) = same.or(candidates.first()).copied() else { continue };
            for other in candidates.into_iter().filter(|other| !Arc::ptr_eq(other, winner)) {
                let problem = format!(
                    "{}: {key} is in {} already; that one counts. Remove or rename one of them",
                    other.origin, winner.origin
                );
                problems.add(&other.origin.file, ProblemKind::Duplicate, problem);
            }
            chosen.push(winner);
        }
        // Who had its uid before keeps it.
        chosen.sort_by_key(|object| self.objects.get(&object.key).is_none_or(|current| current.uid != object.uid));
        let mut pods: BTreeMap<&str, &Arc<Object>> = BTreeMap::new();
        let mut objects = BTreeMap::new();
        for object in chosen {
            if object.pod().is_some()
                && let Some(first) = pods.get(object.uid.as_str())
            {
                let problem = format!(
                    "{}: {} has the uid of {} at {}; give each pod a uid of its own, or none",
                    object.origin, object.key, first.key, first.origin
                );
                problems.add(&object.origin.file, ProblemKind::Duplicate, problem);
                continue;
            }
            if object.pod().is_some() {
                pods.insert(&object.uid, object);
            }
            objects.insert(object.key.clone(), Arc::clone(object));
        }
        (objects, problems)
    }

    fn replace(&mut self, objects: BTreeMap<ObjectKey, Arc<Object>>, problems: FileProblems, changes: &mut Changes) {
        let same = |a: &Arc<Object>, b: &Arc<Object>| {
            Arc::ptr_eq(a, b)
                || (a.origin.file == b.origin.file
                    && a.uid == b.uid
                    && a.uid_given == b.uid_given
                    && a.content == b.content)
        };
        let changed = objects.values().filter(|new| self.objects.get(&new.key).is_none_or(|old| !same(old, new)));
        changes.upserted = changed.cloned().collect();
        changes.removed = self.objects.values().filter(|old| !objects.contains_key(&old.key)).cloned().collect();
        changes.problems = problems.other_than(&self.problems);
        changes.cleared = self.problems.without(&problems);
        self.objects = objects;
        self.problems = problems;
    }
}

/// Returns the id of the mount that a folder is on; none where the kernel does not report it.
fn mount_of(folder: &Path) -> Option<u64> {
    let seen = rustix::fs::statx(CWD, folder, AtFlags::empty(), StatxFlags::MNT_ID).ok()?;
    (seen.stx_mask & StatxFlags::MNT_ID.bits() != 0).then_some(seen.stx_mnt_id)
}
