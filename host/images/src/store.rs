//! The store: finds images, and pulls them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tracing::{info, warn};
use volhost_kernel::{Directory, Kernel};
use volhost_model::images::{ImageError, ImageLease, ImagePull, Images, PullWatch, StoredImage};
use volhost_model::oci::{Digest, ImageLocation};

use crate::collect::{Candidate, choose, layers_of};
use crate::folders::{EVERYONE, Folders, ImageRecord, LayerRecord, ReferenceRecord};
use crate::in_flight::InFlight;
use crate::layer::{BlobFile, unpack};
use crate::manifest::{Blob, Found, Layer, MANIFEST_BYTES, apply_config, read};
use crate::pull_secrets;
use crate::source::Source;
use crate::source::layout::Layout;
use crate::source::registry::{Registry, RegistryProgram};

/// Begins the sources of the mounts of images.
const MOUNT_SOURCE: &str = "image@sha256:";
/// Lists of lists: the specification allows any depth, builders use one.
const MOST_LISTS: usize = 3;
/// How much more of a layer has to come before it is reported again, in bytes.
const REPORT_BYTES: u64 = 1 << 20;

/// Where a store is, and when it removes images.
#[derive(Debug, Clone)]
pub struct ImageStoreOptions {
    /// The store's folder; made when the first image is pulled.
    pub folder: PathBuf,
    /// When more than this of its disk is taken, images are removed; in percent.
    pub high: u8,
    /// Until no more than this is taken, in percent.
    pub low: u8,
}

/// The use of a store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ImageUsage {
    /// How many images it has.
    pub images: u64,
    /// What their layers have on disk, in bytes; of a layer that several images have, once.
    pub bytes: u64,
}

/// The images of a node.
#[derive(Debug)]
pub struct ImageStore {
    kernel: Arc<dyn Kernel>,
    /// The folder that has all mounts of volumes.
    mounts: Directory,
    program: RegistryProgram,
    folders: Folders,
    high: u8,
    low: u8,
    /// Whether what an earlier run left was removed. Locked while that is done.
    is_clean: Mutex<bool>,
    /// By reference.
    pulls: InFlight,
    /// By the digits of their digests.
    layers: InFlight,
    /// Of images.
    leases: Arc<Leases>,
    /// Of layers that pulls need.
    pins: Arc<Leases>,
}

/// How often each image or layer is used by this process, by the digits of its digest. Locked while
/// it is chosen what to remove.
#[derive(Debug, Default)]
struct Leases(Mutex<BTreeMap<String, usize>>);

impl Leases {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
struct Lease {
    leases: Arc<Leases>,
    hex: String,
}

impl ImageLease for Lease {}

impl Lease {
    fn take(leases: &Arc<Leases>, hex: &str) -> Self {
        Self::of_locked(leases, &mut leases.lock(), hex)
    }

    fn of_locked(leases: &Arc<Leases>, counts: &mut BTreeMap<String, usize>, hex: &str) -> Self {
        let count = counts.entry(hex.to_owned()).or_default();
        *count = count.saturating_add(1);
        Self { leases: Arc::clone(leases), hex: hex.to_owned() }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut leases = self.leases.lock();
        if let Some(count) = leases.get_mut(&self.hex) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                leases.remove(&self.hex);
            }
        }
    }
}

impl ImageStore {
    /// The store of these options. `mounts` is the folder that has all mounts of volumes; `program`
    /// speaks to registries.
    #[must_use]
    pub fn new(
        kernel: Arc<dyn Kernel>,
        mounts: Directory,
        program: RegistryProgram,
        options: ImageStoreOptions,
    ) -> Self {
        let ImageStoreOptions { folder, high, low } = options;
        Self {
            kernel,
            mounts,
            program,
            folders: Folders::new(folder),
            high,
            low,
            is_clean: Mutex::default(),
            pulls: InFlight::default(),
            layers: InFlight::default(),
            leases: Arc::default(),
            pins: Arc::default(),
        }
    }

    /// Removes what an earlier run has left unfinished. Blocks; pulls wait for it. Repeating it does
    /// nothing.
    pub fn clean(&self) {
        let mut is_clean = self.is_clean.lock().unwrap_or_else(PoisonError::into_inner);
        if !*is_clean && self.folders.exist() {
            self.remove_discarded();
        }
        *is_clean = true;
    }

    /// The use of the store. Reads the records of all images.
    pub fn usage(&self) -> ImageUsage {
        let images = if self.folders.exist() { self.folders.images().unwrap_or_default() } else { Vec::new() };
        let layers: BTreeMap<&str, u64> = images
            .iter()
            .flat_map(|(_, _, record)| record.layers.iter().map(|layer| (layer.digest.as_str(), layer.bytes)))
            .collect();
        let count = u64::try_from(images.len()).unwrap_or(u64::MAX);
        ImageUsage { images: count, bytes: layers.values().fold(0, |sum, bytes| sum.saturating_add(*bytes)) }
    }

    /// Removes what is below `new`. Called while nothing is being made there, or with the names that
    /// were discarded.
    fn remove_discarded(&self) {
        let new = self.folders.new_folder();
        let removed = self.kernel.open_directory(&new).and_then(|folder| {
            for name in self.kernel.names(&folder)? {
                if new.join(&name).symlink_metadata().is_ok_and(|about| about.is_dir()) {
                    self.kernel.delete_folder(&folder, &name)?;
                } else {
                    self.kernel.remove_file(&folder, &name)?;
                }
            }
            Ok(())
        });
        if let Err(error) = removed {
            warn!(%error, "what a pull has left cannot be removed yet");
        }
    }

    /// The image of this digest, if every layer of it is there.
    fn stored(&self, digest: &Digest, leases: &mut BTreeMap<String, usize>) -> Option<StoredImage> {
        let record = self.folders.image(digest)?;
        let mut layers: Vec<PathBuf> = Vec::with_capacity(record.layers.len().saturating_add(1));
        let mut seen = BTreeSet::new();
        // An overlay refuses the same folder twice; the upper one counts.
        for layer in record.layers.iter().rev().filter(|layer| seen.insert(layer.digest.clone())) {
            layers.push(self.folders.layer(&layer.digest));
        }
        if !layers.iter().all(|layer| layer.is_dir()) {
            return None;
        }
        layers.push(self.folders.empty());
        let lease = Lease::of_locked(&self.leases, leases, digest.hex());
        self.folders.touch_image(digest);
        Some(StoredImage {
            digest: digest.clone(),
            bytes: record.bytes(),
            layers,
            mount_source: format!("{MOUNT_SOURCE}{}", digest.hex()),
            lease: Arc::new(lease),
        })
    }

    fn source<'a>(&'a self, pull: &ImagePull<'a>) -> Result<Box<dyn Source + 'a>, ImageError> {
        Ok(match pull.location {
            ImageLocation::Registry(reference) => {
                let logins = pull_secrets::logins(pull.secrets, reference);
                Box::new(Registry::new(&self.program, reference, logins))
            }
            ImageLocation::Layout { folder, tag, .. } => {
                Box::new(Layout::open(&*self.kernel, folder, tag.as_deref(), pull.layouts)?)
            }
        })
    }

    /// Finds out which image the reference names now, and its layers.
    fn resolve(
        &self,
        pull: &ImagePull<'_>,
        source: &mut dyn Source,
        watch: &dyn PullWatch,
    ) -> Result<(Digest, Vec<Layer>), ImageError> {
        watch.progress(format!("pull {}: its manifest", pull.location));
        let mut wanted = pull.location.digest().cloned();
        for _ in 0..MOST_LISTS {
            let bytes = source.manifest(wanted.as_ref(), watch)?;
            let digest = Digest::of(&bytes);
            if let Some(wanted) = wanted.as_ref().filter(|wanted| **wanted != digest) {
                let text = format!("the manifest does not match its digest: {wanted} was expected, {digest} received");
                return Err(ImageError::Corrupt(text));
            }
            match read(&bytes)? {
                Found::Listed(blob) => wanted = Some(blob.digest),
                Found::Image { config, mut layers } => {
                    if let Some(config) = config {
                        let config = self.small_blob(source, &config, watch)?;
                        apply_config(&mut layers, &config)?;
                    }
                    return Ok((digest, layers));
                }
            }
        }
        Err(ImageError::Unsupported("it is a list of lists of lists of images".to_owned()))
    }

    fn small_blob(&self, source: &mut dyn Source, blob: &Blob, watch: &dyn PullWatch) -> Result<Vec<u8>, ImageError> {
        use std::io::Read as _;
        let mut file = BlobFile::new(self.folders.blob_file()?, blob.size.min(MANIFEST_BYTES));
        source.blob(blob, &mut file, &mut |_| {}, watch)?;
        let mut bytes = Vec::new();
        let read = file.finish(blob).map_err(|error| error.of_image("the config"))?.read_to_end(&mut bytes);
        read.map_err(|error| ImageError::Retryable(format!("read the config: {error}")))?;
        Ok(bytes)
    }

    /// Makes sure that the store has a layer. Returns what it has on disk, in bytes.
    fn layer(
        &self,
        source: &mut dyn Source,
        layer: &Layer,
        most: u64,
        shown: &str,
        watch: &dyn PullWatch,
    ) -> Result<u64, ImageError> {
        let hex = layer.blob.digest.hex();
        let turn = self.layers.turn(hex, watch)?;
        if let Some(bytes) = self.folders.layer_bytes(hex) {
            turn.succeed();
            return Ok(bytes);
        }
        let mut file = BlobFile::new(self.folders.blob_file()?, layer.blob.size);
        let mut reported = 0;
        let mut progress = |bytes: u64| {
            if bytes >= reported {
                reported = bytes.saturating_add(REPORT_BYTES);
                watch.progress(format!("{shown}: {} of {} MiB", bytes >> 20, layer.blob.size >> 20));
            }
        };
        source.blob(&layer.blob, &mut file, &mut progress, watch)?;
        let name = layer.blob.digest.as_str();
        let blob = file.finish(&layer.blob).map_err(|error| error.of_image(name))?;
        watch.progress(format!("{shown}: unpack"));
        let (made, files) = self.folders.layer_folder()?;
        let unpacked = unpack(blob, layer, &files, most, watch).map_err(|error| error.of_image(name));
        let kept = unpacked.and_then(|bytes| {
            self.folders.keep_layer(&made, hex, bytes)?;
            Ok(bytes)
        });
        let bytes = kept.inspect_err(|_| self.remove_made(&made))?;
        turn.succeed();
        Ok(bytes)
    }

    /// Removes what is below `new` under one name.
    fn remove_made(&self, made: &Path) {
        let new = self.kernel.open_directory(&self.folders.new_folder());
        let removed = new.and_then(|new| made.file_name().map_or(Ok(()), |name| self.kernel.delete_folder(&new, name)));
        if let Err(error) = removed {
            warn!(%error, "a layer cannot be removed; the next start tries again");
        }
    }

    /// Brings an image into the store. `room` is what it needs for a moment, in bytes.
    fn bring(&self, pull: &ImagePull<'_>, room: &mut u64, watch: &dyn PullWatch) -> Result<StoredImage, ImageError> {
        let mut source = self.source(pull)?;
        let (digest, layers) = self.resolve(pull, &mut *source, watch)?;
        let packed = layers.iter().fold(0_u64, |sum, layer| sum.saturating_add(layer.blob.size));
        *room = packed.saturating_mul(2);
        if packed > pull.most_bytes {
            let text = format!("it has {packed} bytes, and the grant allows {} (`image-size`)", pull.most_bytes);
            return Err(ImageError::Unsupported(text));
        }
        // Before it is looked which of them the store has.
        let _pins: Vec<Lease> = layers.iter().map(|layer| Lease::take(&self.pins, layer.blob.digest.hex())).collect();
        let mut records = Vec::with_capacity(layers.len());
        let mut left = pull.most_bytes;
        for (index, layer) in layers.iter().enumerate() {
            let shown = format!("pull {}: layer {} of {}", pull.location, index.saturating_add(1), layers.len());
            let bytes = self.layer(&mut *source, layer, left, &shown, watch)?;
            left = left.saturating_sub(bytes);
            records.push(LayerRecord { digest: layer.blob.digest.hex().to_owned(), bytes });
        }
        let mut leases = self.leases.lock();
        self.folders.write_image(&digest, &ImageRecord { layers: records })?;
        let readers = self.readers(pull, &digest, source.used_login());
        let reference = pull.location.to_string();
        self.folders
            .write_reference(pull.location, &ReferenceRecord { reference, digest: digest.to_string(), readers })?;
        self.stored(&digest, &mut leases)
            .ok_or_else(|| ImageError::Retryable("a layer was removed while the image was pulled".to_owned()))
    }

    /// Who may use the image under this reference: those who could before, if it is the same image,
    /// and who pulled it now.
    fn readers(&self, pull: &ImagePull<'_>, digest: &Digest, used_login: bool) -> Vec<String> {
        let before = self.folders.reference(pull.location).filter(|record| record.digest == digest.as_str());
        let mut readers = before.map(|record| record.readers).unwrap_or_default();
        let reader = if used_login { pull.namespace } else { EVERYONE };
        if !readers.iter().any(|one| one == reader) {
            readers.push(reader.to_owned());
        }
        readers
    }

    /// Removes images that nothing uses until this many bytes are free. False if there is none.
    fn make_room(&self, bytes: u64) -> bool {
        self.remove_unused(bytes).unwrap_or_else(|error| {
            warn!(%error, "images that nothing uses cannot be removed");
            false
        })
    }

    /// Removes images that nothing uses if too much of the disk is taken.
    fn collect(&self) {
        let collected = self.disk_excess().and_then(|excess| match excess {
            0 => Ok(()),
            bytes => self.remove_unused(bytes).map(drop),
        });
        if let Err(error) = collected {
            warn!(%error, "images that nothing uses cannot be removed");
        }
    }

    /// How much has to become free, in bytes; 0 while no more than the upper bound is taken.
    fn disk_excess(&self) -> Result<u64, ImageError> {
        let (size, taken) = self.folders.disk()?;
        let part = |percent: u8| size / 100 * u64::from(percent);
        Ok(if taken > part(self.high) { taken.saturating_sub(part(self.low)) } else { 0 })
    }

    fn remove_unused(&self, bytes: u64) -> Result<bool, ImageError> {
        let mut discarded = Vec::new();
        {
            // Meanwhile no image comes into use, and no pull begins to count on a layer.
            let (leases, pins) = (self.leases.lock(), self.pins.lock());
            let mut in_use: BTreeSet<String> = leases.keys().cloned().collect();
            let mounts = self.kernel.mounts_below(&self.mounts);
            for mount in mounts.map_err(|error| ImageError::Retryable(error.to_string()))? {
                let hex = mount.source.to_str().and_then(|source| source.strip_prefix(MOUNT_SOURCE));
                in_use.extend(hex.map(str::to_owned));
            }
            let images = self.folders.images()?.into_iter();
            let images: Vec<Candidate> = images.map(|(hex, used, record)| Candidate { hex, used, record }).collect();
            let removed: BTreeSet<String> = choose(&images, &in_use, bytes).into_iter().collect();
            for hex in &removed {
                info!(image = %hex, "the image is removed: nothing uses it, and its disk fills up");
                self.folders.remove_image(hex)?;
            }
            let wanted = layers_of(&images, &removed);
            for layer in self.folders.layers()? {
                if !wanted.contains(layer.as_str()) && !pins.contains_key(&layer) {
                    discarded.push(self.folders.discard_layer(&layer)?);
                }
            }
        }
        discarded.iter().for_each(|layer| self.remove_made(layer));
        Ok(!discarded.is_empty())
    }
}

impl Images for ImageStore {
    fn find(&self, location: &ImageLocation, namespace: &str) -> Result<Option<StoredImage>, ImageError> {
        if !self.folders.exist() {
            return Ok(None);
        }
        let mut leases = self.leases.lock();
        let record = self.folders.reference(location).filter(|record| record.may_use(namespace));
        let digest = record.and_then(|record| record.digest.parse().ok());
        Ok(digest.and_then(|digest| self.stored(&digest, &mut leases)))
    }

    fn pull(&self, pull: ImagePull<'_>, watch: &dyn PullWatch) -> Result<StoredImage, ImageError> {
        self.clean();
        self.folders.make()?;
        let turn = self.pulls.turn(&pull.location.to_string(), watch)?;
        if turn.is_shared()
            && let Some(image) = self.find(pull.location, pull.namespace)?
        {
            turn.succeed();
            return Ok(image);
        }
        self.collect();
        let mut room = 0;
        let image = match self.bring(&pull, &mut room, watch) {
            // The bounds are parts of a disk that others fill, too.
            Err(ImageError::DiskFull(why)) if self.make_room(room) => {
                info!(image = %pull.location, why, "images that nothing uses were removed to make room");
                self.bring(&pull, &mut room, watch)
            }
            brought => brought,
        }?;
        turn.succeed();
        self.collect();
        Ok(image)
    }
}
