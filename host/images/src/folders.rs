//! The store's folders and records. Only root can enter them.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use volhost_model::images::ImageError;
use volhost_model::oci::{Digest, ImageLocation};

const IMAGES: &str = "images";
const REFERENCES: &str = "references";
const LAYERS: &str = "layers";
/// The files of a layer, in its folder.
const FILES: &str = "files";
/// What they have on disk, beside them.
const BYTES: &str = "bytes";
const EMPTY: &str = "empty";
const NEW: &str = "new";
/// The store's folder, which only root may enter: a layer has files of every owner and mode.
const STORE_MODE: u32 = 0o700;
/// The root of a layer that does not say otherwise.
const LAYER_MODE: u32 = 0o755;
/// Stands for every namespace among readers.
pub(crate) const EVERYONE: &str = "*";

/// A step on the store failed.
#[derive(Debug, Error)]
#[error("the image store: {step} {}: {source}", path.display())]
pub(crate) struct StoreError {
    step: &'static str,
    path: PathBuf,
    #[source]
    source: io::Error,
}

impl From<StoreError> for ImageError {
    fn from(error: StoreError) -> Self {
        let text = error.to_string();
        if is_full(&error.source) { Self::DiskFull(text) } else { Self::Retryable(text) }
    }
}

/// Whether the disk has no room, or its owner's quota none.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// An image: its layers, the lowest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ImageRecord {
    pub(crate) layers: Vec<LayerRecord>,
}

/// A layer of an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LayerRecord {
    /// The digits of its blob's digest.
    pub(crate) digest: String,
    /// What it has on disk, in bytes.
    pub(crate) bytes: u64,
}

/// What a reference leads to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ReferenceRecord {
    /// The reference, for people.
    pub(crate) reference: String,
    /// The digest of the image's manifest.
    pub(crate) digest: String,
    /// The namespaces whose pods may use it; [`EVERYONE`] if no login was needed.
    pub(crate) readers: Vec<String>,
}

impl ImageRecord {
    pub(crate) fn bytes(&self) -> u64 {
        self.layers.iter().fold(0, |sum, layer| sum.saturating_add(layer.bytes))
    }
}

impl ReferenceRecord {
    pub(crate) fn may_use(&self, namespace: &str) -> bool {
        self.readers.iter().any(|reader| reader == EVERYONE || reader == namespace)
    }
}

/// The folders of a store.
#[derive(Debug)]
pub(crate) struct Folders {
    root: PathBuf,
    next: AtomicU64,
}

impl Folders {
    pub(crate) fn new(root: PathBuf) -> Self {
        Self { root, next: AtomicU64::new(0) }
    }

    /// Whether anything was ever stored.
    pub(crate) fn exist(&self) -> bool {
        self.root.is_dir()
    }

    /// Makes what is missing.
    pub(crate) fn make(&self) -> Result<(), StoreError> {
        make_folder(&self.root, STORE_MODE)?;
        for (name, mode) in [
            (IMAGES, STORE_MODE),
            (REFERENCES, STORE_MODE),
            (LAYERS, STORE_MODE),
            (NEW, STORE_MODE),
            (EMPTY, LAYER_MODE),
        ] {
            make_folder(&self.root.join(name), mode)?;
        }
        Ok(())
    }

    pub(crate) fn new_folder(&self) -> PathBuf {
        self.root.join(NEW)
    }

    pub(crate) fn empty(&self) -> PathBuf {
        self.root.join(EMPTY)
    }

    /// The files of a layer.
    pub(crate) fn layer(&self, hex: &str) -> PathBuf {
        self.root.join(LAYERS).join(hex).join(FILES)
    }

    /// What a layer has on disk, in bytes; none if the store lacks it.
    pub(crate) fn layer_bytes(&self, hex: &str) -> Option<u64> {
        read(&self.root.join(LAYERS).join(hex).join(BYTES))
    }

    /// A path below `new` that nothing has yet.
    pub(crate) fn fresh(&self) -> PathBuf {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.root.join(NEW).join(format!("{}-{number}", std::process::id()))
    }

    /// A file for a blob, which is gone when it is closed.
    pub(crate) fn blob_file(&self) -> Result<File, StoreError> {
        let path = self.fresh();
        let file = File::options().read(true).write(true).create_new(true).open(&path).map_err(at("make", &path))?;
        fs::remove_file(&path).map_err(at("unlink", &path))?;
        Ok(file)
    }

    /// A folder for a layer in the making, and the empty one in it for the files.
    pub(crate) fn layer_folder(&self) -> Result<(PathBuf, PathBuf), StoreError> {
        let path = self.fresh();
        make_folder(&path, STORE_MODE)?;
        let files = path.join(FILES);
        make_folder(&files, LAYER_MODE)?;
        Ok((path, files))
    }

    /// Gives a whole layer its name.
    pub(crate) fn keep_layer(&self, made: &Path, hex: &str, bytes: u64) -> Result<(), StoreError> {
        let size = made.join(BYTES);
        fs::write(&size, bytes.to_string()).map_err(at("write", &size))?;
        let folder = File::open(made).map_err(at("open", made))?;
        rustix::fs::syncfs(&folder).map_err(|errno| at("sync", made)(errno.into()))?;
        let path = self.root.join(LAYERS).join(hex);
        fs::rename(made, &path).map_err(at("name", &path))?;
        sync(&self.root.join(LAYERS))
    }

    pub(crate) fn image(&self, digest: &Digest) -> Option<ImageRecord> {
        read(&self.image_path(digest.hex()))
    }

    pub(crate) fn write_image(&self, digest: &Digest, record: &ImageRecord) -> Result<(), StoreError> {
        self.write(&self.image_path(digest.hex()), record)
    }

    /// Notes that an image is used now.
    pub(crate) fn touch_image(&self, digest: &Digest) {
        let path = self.image_path(digest.hex());
        let touched = File::options().write(true).open(&path).and_then(|file| file.set_modified(SystemTime::now()));
        if let Err(error) = touched {
            tracing::debug!(%error, path = %path.display(), "the use of an image is not noted");
        }
    }

    /// All images, by the digits of their digests, with the time of their last use.
    pub(crate) fn images(&self) -> Result<Vec<(String, SystemTime, ImageRecord)>, StoreError> {
        let folder = self.root.join(IMAGES);
        let mut all = Vec::new();
        for entry in fs::read_dir(&folder).map_err(at("read", &folder))? {
            let entry = entry.map_err(at("read", &folder))?;
            let used = entry.metadata().and_then(|about| about.modified()).map_err(at("look at", &entry.path()))?;
            // A record that cannot be read leads to nothing: the image is pulled again.
            if let (Ok(name), Some(record)) = (entry.file_name().into_string(), read(&entry.path())) {
                all.push((name, used, record));
            }
        }
        Ok(all)
    }

    /// The digits of all layers.
    pub(crate) fn layers(&self) -> Result<Vec<String>, StoreError> {
        let folder = self.root.join(LAYERS);
        let entries = fs::read_dir(&folder).map_err(at("read", &folder))?;
        Ok(entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect())
    }

    pub(crate) fn remove_image(&self, hex: &str) -> Result<(), StoreError> {
        let path = self.image_path(hex);
        fs::remove_file(&path).map_err(at("remove", &path))
    }

    /// Takes a layer's name away. Returns where it is then, below `new`.
    pub(crate) fn discard_layer(&self, hex: &str) -> Result<PathBuf, StoreError> {
        let (path, discarded) = (self.root.join(LAYERS).join(hex), self.fresh());
        fs::rename(&path, &discarded).map_err(at("remove", &path))?;
        Ok(discarded)
    }

    pub(crate) fn reference(&self, location: &ImageLocation) -> Option<ReferenceRecord> {
        read::<ReferenceRecord>(&self.reference_path(location))
            .filter(|record| record.reference == location.to_string())
    }

    pub(crate) fn write_reference(&self, location: &ImageLocation, record: &ReferenceRecord) -> Result<(), StoreError> {
        self.write(&self.reference_path(location), record)
    }

    /// The use of the store's disk, in bytes: how much there is, and how much of it is taken.
    pub(crate) fn disk(&self) -> Result<(u64, u64), StoreError> {
        let found =
            rustix::fs::statvfs(&self.root).map_err(|errno| at("ask for the room of", &self.root)(errno.into()))?;
        let (size, free) =
            (found.f_blocks.saturating_mul(found.f_frsize), found.f_bavail.saturating_mul(found.f_frsize));
        Ok((size, size.saturating_sub(free)))
    }

    fn image_path(&self, hex: &str) -> PathBuf {
        self.root.join(IMAGES).join(hex)
    }

    fn reference_path(&self, location: &ImageLocation) -> PathBuf {
        self.root.join(REFERENCES).join(Digest::of(location.to_string().as_bytes()).hex())
    }

    fn write(&self, path: &Path, record: &impl Serialize) -> Result<(), StoreError> {
        // Texts and numbers are always JSON.
        let text = serde_json::to_vec(record).unwrap_or_default();
        let new = self.fresh();
        let written = File::create_new(&new).and_then(|mut file| {
            file.write_all(&text)?;
            file.sync_all()
        });
        written.map_err(at("write", &new))?;
        fs::rename(&new, path).map_err(at("name", path))?;
        sync(path.parent().unwrap_or(&self.root))
    }
}

fn at(step: &'static str, path: &Path) -> impl Fn(io::Error) -> StoreError {
    move |source| StoreError { step, path: path.to_owned(), source }
}

fn read<T: DeserializeOwned>(path: &Path) -> Option<T> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

fn make_folder(path: &Path, mode: u32) -> Result<(), StoreError> {
    match DirBuilder::new().mode(mode).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made.and_then(|()| fs::set_permissions(path, fs::Permissions::from_mode(mode))),
    }
    .map_err(at("make", path))
}

/// A name must survive a crash of the machine.
fn sync(folder: &Path) -> Result<(), StoreError> {
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(at("sync", folder))
}
