//! Compiled plugins on disk, by the digest of what they were compiled from.
//!
//! A process that can write here controls the host, so the folder is the host's alone (mode 0700),
//! which is checked at the start. Two files a plugin: `DIGEST-ENGINE.cwasm`, the code, and
//! `DIGEST-ENGINE.json`, what the host wants to know beside it, the code's own digest above all.
//! The second is written last: code without it, or of another digest, was not written to its end
//! and is made again. A file is never written in place: it may be mapped. `DIGEST-ENGINE.refused`
//! says why the compiler refused a plugin.
//!
//! Several processes of one user may use a folder at once: each file appears whole, under its name,
//! and says what it belongs to.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use crate::digest::sha256_hex;
use crate::error::CacheError;

/// The note beside the code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Note {
    /// SHA-256 of the code.
    pub(crate) code: String,
    /// The plugin file it was compiled from.
    pub(crate) file: PathBuf,
    /// What built the plugin, if it says so.
    pub(crate) sdk: Option<String>,
}

/// A plugin that the compiler refused, remembered so that a start does not pay for the same answer
/// again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CompileRefusal {
    /// Why, in words for the user.
    pub(crate) reason: String,
    /// The host and the limits that it was refused by: under others it is tried again.
    pub(crate) by: String,
}

/// How many refusals are remembered. Each is a small file; without a bound, a user who writes to
/// the plugin folder could fill the cache.
const REFUSALS: usize = 1024;
/// How old a half-written file is when no process writes it any more. Writing one takes
/// milliseconds.
const UNFINISHED: Duration = Duration::from_secs(600);
/// The extension of machine code.
const CODE: &str = "cwasm";
/// How the files of refusals end.
const REFUSED: &str = "refused";

/// The folder.
#[derive(Debug)]
pub(crate) struct Cache {
    folder: PathBuf,
    /// Names the engine: code of another one is not ours.
    engine: String,
}

impl Cache {
    /// Takes the folder, made if it is missing, for code of this engine. What a crash left
    /// half-written is removed.
    ///
    /// # Errors
    /// [`CacheError`] when it cannot be made or is not the host's alone.
    pub(crate) fn open(folder: PathBuf, engine: String) -> Result<Self, CacheError> {
        if let Some(parent) = folder.parent() {
            fs::create_dir_all(parent).map_err(|source| CacheError::Create { path: folder.clone(), source })?;
        }
        match DirBuilder::new().mode(0o700).create(&folder) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(source) => {
                return Err(CacheError::Create { path: folder, source });
            }
        }
        check(&folder)?;
        let cache = Self { folder, engine };
        cache.remove_unfinished();
        Ok(cache)
    }

    /// Where the code of this digest is or would be.
    pub(crate) fn code_path(&self, digest: &str) -> PathBuf {
        self.folder.join(format!("{digest}-{}.{CODE}", self.engine))
    }

    fn note_path(&self, digest: &str) -> PathBuf {
        self.folder.join(format!("{digest}-{}.json", self.engine))
    }

    /// The note on this digest, if its code is there and whole.
    pub(crate) fn find(&self, digest: &str) -> Option<Note> {
        let note: Note = serde_json::from_slice(&fs::read(self.note_path(digest)).ok()?).ok()?;
        let code = fs::read(self.code_path(digest)).ok()?;
        (sha256_hex(&code) == note.code).then_some(note)
    }

    /// Puts code and note in place.
    ///
    /// # Errors
    /// [`CacheError::Write`].
    pub(crate) fn store(&self, digest: &str, code: &[u8], note: &Note) -> Result<(), CacheError> {
        self.put(&self.code_path(digest), code)?;
        let text = serde_json::to_vec(note)
            .map_err(|error| CacheError::Write { path: self.note_path(digest), source: error.into() })?;
        self.put(&self.note_path(digest), &text)
    }

    fn refusal_path(&self, digest: &str) -> PathBuf {
        self.folder.join(format!("{digest}-{}.{REFUSED}", self.engine))
    }

    /// Why this digest was refused before by the same host under the same limits; none when it was
    /// not.
    pub(crate) fn refusal(&self, digest: &str, by: &str) -> Option<String> {
        let refusal: CompileRefusal = serde_json::from_slice(&fs::read(self.refusal_path(digest)).ok()?).ok()?;
        (refusal.by == by).then_some(refusal.reason)
    }

    /// Remembers that this digest was refused. A failure only costs another try.
    pub(crate) fn refuse(&self, digest: &str, refusal: &CompileRefusal) {
        if self.refusals().count() >= REFUSALS {
            self.forget_refusals();
        }
        let text = serde_json::to_vec(refusal).unwrap_or_default();
        if let Err(error) = self.put(&self.refusal_path(digest), &text) {
            tracing::warn!(%error, "that a plugin was refused cannot be remembered");
        }
    }

    /// Forgets every refusal.
    pub(crate) fn forget_refusals(&self) {
        for path in self.refusals() {
            remove_leftover(&path);
        }
    }

    fn refusals(&self) -> impl Iterator<Item = PathBuf> {
        self.files().into_iter().filter(|path| path.extension().is_some_and(|extension| extension == REFUSED))
    }

    /// Forgets what is cached of a digest. Code that is mapped stays usable: only its name goes.
    pub(crate) fn forget(&self, digest: &str) {
        for path in [self.note_path(digest), self.code_path(digest)] {
            if let Err(error) = fs::remove_file(&path)
                && error.kind() != io::ErrorKind::NotFound
            {
                tracing::warn!(path = %path.display(), %error, "a cached plugin could not be removed");
            }
        }
    }

    /// Removes what belongs to none of `digests`, or to another engine.
    pub(crate) fn keep_only(&self, digests: &[String]) {
        for path in self.files() {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let stem = [".cwasm", ".json", ".refused"].into_iter().find_map(|suffix| name.strip_suffix(suffix));
            let Some(stem) = stem else { continue };
            let kept = stem
                .split_once('-')
                .is_some_and(|(digest, engine)| engine == self.engine && digests.iter().any(|d| d == digest));
            if !kept {
                remove_leftover(&path);
            }
        }
    }

    fn put(&self, path: &Path, content: &[u8]) -> Result<(), CacheError> {
        let failed = |source| CacheError::Write { path: path.to_owned(), source };
        // Two threads, of one process or of two, may compile the same plugin: a name for each.
        let (process, thread) = (std::process::id(), std::thread::current().id());
        let part = path.with_extension(format!("{process}-{thread:?}.part"));
        let written = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&part)
            .and_then(|mut file: File| file.write_all(content))
            .and_then(|()| fs::rename(&part, path));
        if written.is_err() {
            remove_leftover(&part);
        }
        written.map_err(failed)
    }

    /// Removes files that a crash left half-written.
    fn remove_unfinished(&self) {
        for path in self.files() {
            if path.extension().is_some_and(|extension| extension == "part") && is_older(&path, UNFINISHED) {
                remove_leftover(&path);
            }
        }
    }

    fn files(&self) -> Vec<PathBuf> {
        fs::read_dir(&self.folder)
            .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
            .unwrap_or_default()
    }
}

fn is_older(path: &Path, age: Duration) -> bool {
    let written = fs::symlink_metadata(path).and_then(|found| found.modified());
    written.is_ok_and(|written| SystemTime::now().duration_since(written).is_ok_and(|passed| passed > age))
}

/// Only a nuisance when it stays, so that a failure is only logged.
fn remove_leftover(path: &Path) {
    if let Err(error) = fs::remove_file(path)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(path = %path.display(), %error, "a leftover in the plugin cache could not be removed");
    }
}

/// Checks an existing cache folder as the host does at its start, changes nothing, and returns of how
/// many plugins it has the code. Code of other versions of volhost counts, too.
///
/// # Errors
/// [`CacheError`] if it is not the host's alone.
pub fn examine_cache(folder: &Path) -> Result<usize, CacheError> {
    check(folder)?;
    let entries = fs::read_dir(folder).map_err(|source| CacheError::Inspect { path: folder.to_owned(), source })?;
    let is_code = |path: &Path| path.extension().is_some_and(|extension| extension == CODE);
    Ok(entries.filter_map(Result::ok).filter(|entry| is_code(&entry.path())).count())
}

/// Removes the code that was compiled first from an existing cache folder, until the rest has at
/// most `bytes`. For a folder that no daemon prunes.
///
/// # Errors
/// [`CacheError`] if it is not the host's alone.
pub fn trim_cache(folder: &Path, bytes: u64) -> Result<(), CacheError> {
    check(folder)?;
    let entries = fs::read_dir(folder).map_err(|source| CacheError::Inspect { path: folder.to_owned(), source })?;
    let mut code: Vec<(SystemTime, u64, PathBuf)> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == CODE))
        .filter_map(|path| {
            let found = fs::symlink_metadata(&path).ok()?;
            Some((found.modified().ok()?, found.len(), path))
        })
        .collect();
    code.sort();
    let mut left: u64 = code.iter().map(|(_, length, _)| length).sum();
    for (_, length, path) in code {
        if left <= bytes {
            break;
        }
        // The note first: without it, the code does not count.
        remove_leftover(&path.with_extension("json"));
        remove_leftover(&path);
        left = left.saturating_sub(length);
    }
    Ok(())
}

/// Refuses a folder that is not the host's alone.
fn check(folder: &Path) -> Result<(), CacheError> {
    const OTHERS_WRITE: u32 = 0o022;
    let found =
        fs::symlink_metadata(folder).map_err(|source| CacheError::Inspect { path: folder.to_owned(), source })?;
    if !found.is_dir() {
        return Err(CacheError::NotAFolder { path: folder.to_owned() });
    }
    let mode = found.permissions().mode() & 0o7777;
    if found.uid() != rustix::process::geteuid().as_raw() || mode & OTHERS_WRITE != 0 {
        return Err(CacheError::WritableByOthers { path: folder.to_owned(), owner: found.uid(), mode });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note() -> Note {
        Note { code: sha256_hex(b"code"), file: PathBuf::from("a.wasm"), sdk: None }
    }

    fn cache(folder: &Path) -> Cache {
        Cache::open(folder.to_owned(), "engine".to_owned()).unwrap()
    }

    #[test]
    fn a_file_that_another_process_is_writing_is_left_and_an_old_one_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("cache");
        cache(&folder);
        let (new, old) = (folder.join("a.1-2.part"), folder.join("b.1-2.part"));
        fs::write(&new, "").unwrap();
        File::create(&old).unwrap().set_modified(SystemTime::now() - 2 * UNFINISHED).unwrap();
        cache(&folder);
        assert!(new.exists() && !old.exists());
    }

    #[test]
    fn the_oldest_code_goes_when_there_is_too_much() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("cache");
        let cache = cache(&folder);
        for (age, digest) in [(3, "aa"), (1, "bb"), (2, "cc")] {
            cache.store(digest, b"code", &note()).unwrap();
            let written = SystemTime::now() - Duration::from_secs(age);
            File::options().write(true).open(cache.code_path(digest)).unwrap().set_modified(written).unwrap();
        }
        trim_cache(&folder, 12).unwrap();
        assert!(["aa", "bb", "cc"].iter().all(|digest| cache.find(digest).is_some()));
        trim_cache(&folder, 8).unwrap();
        let left: Vec<bool> = ["aa", "bb", "cc"].iter().map(|digest| cache.find(digest).is_some()).collect();
        assert_eq!(left, [false, true, true]);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 4, "a note is left");
    }
}
