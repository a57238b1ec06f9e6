//! One layer: its blob, checked against size and digest, unpacked into a folder.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufRead as _, Read, Seek as _, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use sha2::{Digest as _, Sha256};
use tar::{Archive, EntryType, PaxExtensions};
use thiserror::Error;
use volhost_model::images::{ImageError, PullWatch};
use volhost_model::oci::Digest;
use volhost_model::text::{error_chain, printable};

use crate::folders::is_full;
use crate::manifest::{Blob, Compression, Layer};
use crate::tree::{Attributes, LayerTree, TreeError};

/// The most entries of a layer: the largest images have some hundred thousand.
const MOST_ENTRIES: u64 = 2_000_000;
/// The largest header extension, in bytes: two paths of the kernel's limit and some attributes.
const EXTENSION_BYTES: u64 = 1 << 20;
/// What an entry costs on disk besides its content, in bytes.
const ENTRY_BYTES: u64 = 512;
/// Bytes that are copied before it is looked whether the pull is still wanted.
const PIECE: usize = 256 << 10;

/// Why a layer cannot be used.
#[derive(Debug, Error)]
pub(crate) enum LayerError {
    /// The blob has another size than the manifest says.
    #[error("it has {found} bytes, and {expected} in the manifest")]
    Size {
        /// The manifest's.
        expected: u64,
        /// What came.
        found: u64,
    },
    /// The blob, or what it unpacks to, is another.
    #[error("{what} does not match its digest: {expected} was expected, {found} received")]
    Digest {
        /// Which.
        what: &'static str,
        /// What was to come.
        expected: Digest,
        /// What came.
        found: Digest,
    },
    /// The archive cannot be read.
    #[error("it is no archive that can be read: {}", printable(&error_chain(.0)))]
    Archive(#[source] io::Error),
    /// An entry of it may not be made.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// An entry of it is of a kind that is not known.
    #[error("{}: entries of type {kind:?} are not supported", path.display())]
    Kind {
        /// The entry.
        path: PathBuf,
        /// Its type.
        kind: u8,
    },
    /// It is larger than it may be.
    #[error("it unpacks to more than the {most} bytes that the grant allows (`image-size`)")]
    TooLarge {
        /// The bound.
        most: u64,
    },
    /// It has more files than it may have.
    #[error("it has more than {MOST_ENTRIES} files")]
    TooMany,
    /// The node's disk.
    #[error("{step}: {source}")]
    Disk {
        /// The step.
        step: &'static str,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Nobody waits for it any more.
    #[error("the pull was cancelled")]
    Cancelled,
}

impl LayerError {
    /// The failure of a pull.
    pub(crate) fn of_image(self, layer: &str) -> ImageError {
        let text = format!("{layer}: {self}");
        match self {
            Self::Cancelled => ImageError::Cancelled,
            Self::TooLarge { .. } | Self::TooMany | Self::Kind { .. } => ImageError::Unsupported(text),
            Self::Disk { source, .. } | Self::Tree(TreeError::Kernel { source, .. }) if is_full(&source) => {
                ImageError::DiskFull(text)
            }
            Self::Disk { .. } => ImageError::Retryable(text),
            // The node's disk is full, or of a kind that lacks something: the archive is not to blame.
            Self::Tree(TreeError::Kernel { .. }) => ImageError::Retryable(text),
            Self::Size { .. } | Self::Digest { .. } | Self::Archive(_) | Self::Tree(_) => ImageError::Corrupt(text),
        }
    }
}

/// Receives a blob: counts it, and writes it into a file.
pub(crate) struct BlobFile {
    file: File,
    hash: Sha256,
    bytes: u64,
    most: u64,
}

impl BlobFile {
    /// Receives at most what the manifest says.
    pub(crate) fn new(file: File, most: u64) -> Self {
        Self { file, hash: Sha256::new(), bytes: 0, most }
    }

    /// How much has come, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Takes the next piece.
    pub(crate) fn take(&mut self, piece: &[u8]) -> Result<(), LayerError> {
        self.bytes = self.bytes.saturating_add(u64::try_from(piece.len()).unwrap_or(u64::MAX));
        if self.bytes > self.most {
            return Err(LayerError::Size { expected: self.most, found: self.bytes });
        }
        self.hash.update(piece);
        self.file.write_all(piece).map_err(|source| LayerError::Disk { step: "write the layer", source })
    }

    /// The whole blob, from its beginning.
    ///
    /// # Errors
    /// When it is another.
    pub(crate) fn finish(mut self, blob: &Blob) -> Result<File, LayerError> {
        if self.bytes != blob.size {
            return Err(LayerError::Size { expected: blob.size, found: self.bytes });
        }
        let found = Digest::from_hash(self.hash);
        if found != blob.digest {
            return Err(LayerError::Digest { what: "it", expected: blob.digest.clone(), found });
        }
        self.file.seek(SeekFrom::Start(0)).map_err(|source| LayerError::Disk { step: "read the layer", source })?;
        Ok(self.file)
    }
}

/// Unpacks a layer into an empty folder. Returns what it has on disk, in bytes.
///
/// # Errors
/// [`LayerError`]; the folder then has a part of it.
pub(crate) fn unpack(
    blob: File,
    layer: &Layer,
    folder: &Path,
    most: u64,
    watch: &dyn PullWatch,
) -> Result<u64, LayerError> {
    let reader: Box<dyn Read> = match layer.compression {
        Compression::None => Box::new(io::BufReader::with_capacity(PIECE, blob)),
        Compression::Gzip => Box::new(MultiGzDecoder::new(io::BufReader::with_capacity(PIECE, blob))),
        Compression::Zstd => Box::new(ZstdFrames::new(blob)),
    };
    let mut unpacking =
        Unpacking { tree: LayerTree::open(folder)?, watch, most, bytes: 0, entries: 0, next: Extensions::default() };
    let mut archive = Archive::new(Hashed { reader, hash: Sha256::new(), left: most.saturating_add(most / 4) });
    for entry in archive.entries().map_err(LayerError::Archive)?.raw(true) {
        unpacking.entry(entry.map_err(|error| unpacking.read_error(error))?)?;
    }
    let bytes = unpacking.bytes;
    let most = unpacking.most;
    unpacking.tree.finish()?;
    let mut rest = archive.into_inner();
    io::copy(&mut rest, &mut io::sink()).map_err(|error| too_large_or(error, most))?;
    let found = Digest::from_hash(rest.hash);
    if let Some(expected) = layer.unpacked.as_ref().filter(|expected| **expected != found) {
        return Err(LayerError::Digest { what: "its archive", expected: expected.clone(), found });
    }
    Ok(bytes)
}

/// What headers say of the entry that follows them.
#[derive(Debug, Default)]
struct Extensions {
    path: Option<Vec<u8>>,
    target: Option<Vec<u8>>,
    uid: Option<u32>,
    gid: Option<u32>,
    modified: Option<i64>,
}

struct Unpacking<'a> {
    tree: LayerTree,
    watch: &'a dyn PullWatch,
    most: u64,
    bytes: u64,
    entries: u64,
    next: Extensions,
}

impl Unpacking<'_> {
    fn entry<R: Read>(&mut self, mut entry: tar::Entry<'_, R>) -> Result<(), LayerError> {
        if self.watch.is_cancelled() {
            return Err(LayerError::Cancelled);
        }
        self.entries = self.entries.saturating_add(1);
        if self.entries > MOST_ENTRIES {
            return Err(LayerError::TooMany);
        }
        let kind = entry.header().entry_type();
        match kind {
            EntryType::XHeader => return self.extend(&mut entry),
            EntryType::GNULongName => {
                self.next.path = Some(text_of(self.extension(&mut entry)?));
                return Ok(());
            }
            EntryType::GNULongLink => {
                self.next.target = Some(text_of(self.extension(&mut entry)?));
                return Ok(());
            }
            EntryType::XGlobalHeader => return self.extension(&mut entry).map(drop),
            _ => {}
        }
        let next = std::mem::take(&mut self.next);
        let path = next.path.unwrap_or_else(|| entry.path_bytes().into_owned());
        let path = PathBuf::from(OsStr::from_bytes(&path));
        let header = entry.header();
        let attributes = Attributes {
            uid: next.uid.map_or_else(|| id(header.uid()), Ok)?,
            gid: next.gid.map_or_else(|| id(header.gid()), Ok)?,
            mode: header.mode().map_err(LayerError::Archive)?,
            modified: match next.modified {
                Some(modified) => modified,
                None => i64::try_from(header.mtime().map_err(LayerError::Archive)?).unwrap_or(0),
            },
        };
        let target = || -> Vec<u8> {
            let of_header = || entry.link_name_bytes().map(|name| name.into_owned()).unwrap_or_default();
            next.target.clone().unwrap_or_else(of_header)
        };
        self.charge(ENTRY_BYTES)?;
        if self.tree.whiteout(&path)? {
            return Ok(());
        }
        match kind {
            EntryType::Directory => self.tree.folder(&path, attributes)?,
            EntryType::Regular | EntryType::Continuous => {
                // An archive older than folders in archives ends their names with a slash.
                if path.as_os_str().as_bytes().ends_with(b"/") {
                    return Ok(self.tree.folder(&path, attributes)?);
                }
                let mut file = self.tree.file(&path)?;
                self.copy(&mut entry, &mut file)?;
                LayerTree::finish_file(&file, &path, attributes)?;
            }
            EntryType::Symlink => self.tree.symlink(&path, OsStr::from_bytes(&target()), attributes)?,
            EntryType::Link => self.tree.hard_link(&path, Path::new(OsStr::from_bytes(&target())))?,
            EntryType::Fifo => self.tree.fifo(&path, attributes)?,
            // A pod could not open them: the mount is `nodev`.
            EntryType::Char | EntryType::Block => {}
            other => return Err(LayerError::Kind { path, kind: other.as_byte() }),
        }
        Ok(())
    }

    /// The content of a header that belongs to the next entry.
    fn extension<R: Read>(&mut self, entry: &mut tar::Entry<'_, R>) -> Result<Vec<u8>, LayerError> {
        let mut content = Vec::new();
        let size = entry.header().entry_size().map_err(LayerError::Archive)?;
        if size > EXTENSION_BYTES {
            let text = format!("a header of {size} bytes");
            return Err(LayerError::Archive(io::Error::new(io::ErrorKind::InvalidData, text)));
        }
        entry.take(EXTENSION_BYTES).read_to_end(&mut content).map_err(|error| self.read_error(error))?;
        Ok(content)
    }

    fn extend<R: Read>(&mut self, entry: &mut tar::Entry<'_, R>) -> Result<(), LayerError> {
        let content = self.extension(entry)?;
        for extension in PaxExtensions::new(&content) {
            let extension = extension.map_err(LayerError::Archive)?;
            let value = extension.value_bytes();
            let number = || std::str::from_utf8(value).ok();
            match extension.key_bytes() {
                b"path" => self.next.path = Some(value.to_vec()),
                b"linkpath" => self.next.target = Some(value.to_vec()),
                b"uid" => self.next.uid = number().and_then(|text| text.parse().ok()),
                b"gid" => self.next.gid = number().and_then(|text| text.parse().ok()),
                b"mtime" => {
                    let whole = number().and_then(|text| text.split('.').next());
                    self.next.modified = whole.and_then(|text| text.parse().ok());
                }
                key @ (b"size" | b"GNU.sparse.major" | b"GNU.sparse.map") => {
                    let text = format!("the extension {} is not supported", String::from_utf8_lossy(key));
                    return Err(LayerError::Archive(io::Error::new(io::ErrorKind::Unsupported, text)));
                }
                // Attributes, among others: capabilities of files mean nothing where none is run.
                _ => {}
            }
        }
        Ok(())
    }

    fn copy(&mut self, from: &mut impl Read, to: &mut File) -> Result<(), LayerError> {
        let mut piece = vec![0; PIECE];
        loop {
            if self.watch.is_cancelled() {
                return Err(LayerError::Cancelled);
            }
            let count = from.read(&mut piece).map_err(|error| self.read_error(error))?;
            let Some(read) = piece.get(..count).filter(|read| !read.is_empty()) else { return Ok(()) };
            self.charge(u64::try_from(count).unwrap_or(u64::MAX))?;
            to.write_all(read).map_err(|source| LayerError::Disk { step: "write a file of the layer", source })?;
        }
    }

    fn charge(&mut self, bytes: u64) -> Result<(), LayerError> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > self.most { Err(LayerError::TooLarge { most: self.most }) } else { Ok(()) }
    }

    fn read_error(&self, error: io::Error) -> LayerError {
        too_large_or(error, self.most)
    }
}

fn too_large_or(error: io::Error, most: u64) -> LayerError {
    if error.kind() == io::ErrorKind::FileTooLarge { LayerError::TooLarge { most } } else { LayerError::Archive(error) }
}

/// A long name of an archive ends with a zero byte.
fn text_of(mut content: Vec<u8>) -> Vec<u8> {
    while content.last() == Some(&0) {
        content.pop();
    }
    content
}

fn id(number: io::Result<u64>) -> Result<u32, LayerError> {
    let number = number.map_err(LayerError::Archive)?;
    // The highest means "unchanged" to the kernel.
    u32::try_from(number).ok().filter(|id| *id != u32::MAX).ok_or_else(|| {
        LayerError::Archive(io::Error::new(io::ErrorKind::InvalidData, format!("the owner {number} is none")))
    })
}

/// Hashes what is read, and ends an endless archive.
struct Hashed<R> {
    reader: R,
    hash: Sha256,
    left: u64,
}

impl<R: Read> Read for Hashed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.reader.read(buffer)?;
        self.left = self
            .left
            .checked_sub(u64::try_from(count).unwrap_or(u64::MAX))
            .ok_or_else(|| io::Error::new(io::ErrorKind::FileTooLarge, "larger than it may be"))?;
        self.hash.update(buffer.get(..count).unwrap_or_default());
        Ok(count)
    }
}

/// The frames of a zstd file, one after the other; those without content are skipped.
struct ZstdFrames {
    reader: io::BufReader<File>,
    decoder: FrameDecoder,
    /// A frame has begun.
    inside: bool,
}

impl ZstdFrames {
    fn new(blob: File) -> Self {
        Self { reader: io::BufReader::with_capacity(PIECE, blob), decoder: FrameDecoder::new(), inside: false }
    }

    /// Begins the next frame. False at the end of the file.
    fn begin(&mut self) -> io::Result<bool> {
        while !self.reader.fill_buf()?.is_empty() {
            match self.decoder.init(&mut self.reader) {
                Ok(()) => return Ok(true),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame { length, .. })) => {
                    let length = u64::from(length);
                    if io::copy(&mut (&mut self.reader).take(length), &mut io::sink())? < length {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                }
                Err(error) => return Err(invalid(error)),
            }
        }
        Ok(false)
    }
}

impl Read for ZstdFrames {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if !self.inside {
                self.inside = self.begin()?;
                if !self.inside {
                    return Ok(0);
                }
            }
            while self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                self.decoder.decode_blocks(&mut self.reader, BlockDecodingStrategy::UptoBlocks(1)).map_err(invalid)?;
            }
            match self.decoder.read(buffer)? {
                0 if !buffer.is_empty() => self.inside = false,
                count => return Ok(count),
            }
        }
    }
}

fn invalid(error: FrameDecoderError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

// By its path, as the fuzzers, which have this file for themselves, look for it.
#[cfg(test)]
#[path = "layer/tests.rs"]
mod tests;
