//! What a plugin is built from: the files of its folder, and when they have changed.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sha2::{Digest, Sha256};
use volhost_folder_watch::{Below, FolderWatch};

use crate::error::CliError;

/// How deep folders are searched.
const MAX_DEPTH: usize = 32;
/// How long the sources must be quiet after a change: an editor writes several files, and each by
/// several system calls.
const QUIET: Duration = Duration::from_millis(50);
/// How often a change may begin that time again, so that a file that is written all the time does
/// not delay the build for ever.
const MAX_QUIETS: usize = 20;
/// Folders that hold what is made from sources, by the usual tools of each language.
const MADE: [&str; 3] = ["target", "node_modules", "__pycache__"];
/// The file by which tools mark a folder that can be made again.
const CACHE_MARK: &str = "CACHEDIR.TAG";

/// The content of the sources at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SourceState([u8; 32]);

/// The sources, watched.
#[derive(Debug)]
pub(super) struct Sources {
    roots: Vec<PathBuf>,
    watches: Vec<FolderWatch>,
    /// What the build writes.
    output: Option<PathBuf>,
}

impl Sources {
    /// The files of these folders, and these files; without hidden ones, what tools make, and
    /// `output`. Needs a tokio runtime.
    ///
    /// # Errors
    /// A root does not exist, or the kernel has no inotify queue left for this user.
    pub(super) fn new(roots: &[PathBuf], output: Option<&Path>) -> Result<Self, CliError> {
        let mut watches = Vec::new();
        for root in roots {
            let failed = |source| CliError::File { path: root.clone(), source };
            let watch = if fs::metadata(root).map_err(failed)?.is_dir() {
                FolderWatch::folder(root, Below::Tree(MAX_DEPTH)).map(|watch| watch.with_skipped(is_skipped))
            } else {
                FolderWatch::file(root)
            };
            watches.push(watch.map_err(failed)?);
        }
        let output = output.map(std::path::absolute).transpose().map_err(CliError::Runtime)?;
        let roots = roots.iter().map(std::path::absolute).collect::<io::Result<_>>().map_err(CliError::Runtime)?;
        Ok(Self { roots, watches, output })
    }

    /// Waits until the sources differ from `old` and are quiet, and returns what they are then.
    /// Cancel-safe.
    ///
    /// # Errors
    /// A folder cannot be watched: `fs.inotify.max_user_watches` of this user.
    pub(super) async fn differ_from(&mut self, old: Option<&SourceState>) -> Result<SourceState, CliError> {
        loop {
            self.arm()?;
            if old != Some(&self.state()) {
                for _ in 0..MAX_QUIETS {
                    if tokio::time::timeout(QUIET, changed(&mut self.watches)).await.is_err() {
                        break;
                    }
                    self.arm()?;
                }
                let state = self.state();
                // A change may have been taken back meanwhile.
                if old != Some(&state) {
                    return Ok(state);
                }
            }
            changed(&mut self.watches).await;
        }
    }

    fn arm(&mut self) -> Result<(), CliError> {
        for (watch, root) in self.watches.iter_mut().zip(&self.roots) {
            watch.arm().map_err(|source| CliError::File { path: root.clone(), source })?;
        }
        Ok(())
    }

    /// The digest of all names and contents: a build that writes a source as it was changes
    /// nothing.
    fn state(&self) -> SourceState {
        let mut hasher = Sha256::new();
        for root in &self.roots {
            self.add(root, MAX_DEPTH, &mut hasher);
        }
        SourceState(hasher.finalize().into())
    }

    /// Adds a file, or the files of a folder by their names. A file that vanishes meanwhile is left
    /// out: its watch reports it.
    fn add(&self, path: &Path, depth: usize, hasher: &mut Sha256) {
        if path.is_dir() {
            let mut inside: Vec<PathBuf> =
                fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
            inside.sort();
            for path in inside.iter().filter(|path| depth > 0 && !path.is_symlink() && !is_skipped(path)) {
                self.add(path, depth - 1, hasher);
            }
        } else if self.output.as_deref() != Some(path)
            && let Ok(content) = fs::read(path)
        {
            let name = path.as_os_str().as_encoded_bytes();
            for part in [name, &content] {
                hasher.update(part.len().to_le_bytes());
                hasher.update(part);
            }
        }
    }
}

/// Whether an entry of a folder is no source: hidden, an editor's copy, or made by a tool.
fn is_skipped(path: &Path) -> bool {
    let Some(name) = path.file_name() else { return false };
    let bytes = name.as_encoded_bytes();
    bytes.starts_with(b".")
        || bytes.starts_with(b"#")
        || bytes.ends_with(b"~")
        || bytes.ends_with(b".wasm")
        || path.is_dir() && (MADE.iter().any(|made| name == *made) || path.join(CACHE_MARK).exists())
}

/// Waits until one of the folders may have changed. Cancel-safe.
async fn changed(watches: &mut [FolderWatch]) {
    match watches {
        [] => std::future::pending().await,
        [first, rest @ ..] => tokio::select! {
            () = first.changed() => {}
            () = Box::pin(changed(rest)) => {}
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_tools_write_and_a_save_without_a_change_are_no_difference() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in ["src", "target/debug", ".git", "cache"] {
            fs::create_dir_all(path(name)).unwrap();
        }
        fs::write(path("src/lib.rs"), "one").unwrap();
        fs::write(path("cache").join(CACHE_MARK), "").unwrap();
        let mut sources = Sources::new(&[folder.path().to_owned()], Some(&path("out.bin"))).unwrap();
        let first = sources.differ_from(None).await.unwrap();
        for made in ["target/debug/x", ".git/x", "cache/x", "src/.lib.rs.swp", "src/lib.rs~", "a.wasm", "out.bin"] {
            fs::write(path(made), "made").unwrap();
        }
        fs::write(path("src/lib.rs"), "one").unwrap();
        assert_eq!(sources.state(), first);
        fs::rename(path("src/lib.rs"), path("src/main.rs")).unwrap();
        let second = sources.differ_from(Some(&first)).await.unwrap();
        assert_ne!(second, first);
        fs::write(path("src/main.rs"), "two").unwrap();
        assert_ne!(sources.differ_from(Some(&second)).await.unwrap(), second);
    }

    #[test]
    fn a_missing_root_is_named() {
        let error = Sources::new(&[PathBuf::from("/no/such/folder")], None).unwrap_err().to_string();
        assert!(error.contains("/no/such/folder"), "{error}");
    }
}
