//! OCI image layouts: folders with `index.json` and blobs by digest. Others may write to them.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
use volhost_kernel::{ErrorKind, Kernel, MountSource};
use volhost_model::images::{ImageError, PullWatch};
use volhost_model::oci::Digest;
use volhost_model::text::printable;

use super::Source;
use crate::layer::BlobFile;
use crate::manifest::{Blob, MANIFEST_BYTES, read_layout_index};

/// Bytes that are read at once.
const PIECE: usize = 256 << 10;

/// A layout that was opened.
#[derive(Debug)]
pub(crate) struct Layout {
    folder: MountSource,
    path: PathBuf,
    tag: Option<String>,
}

impl Layout {
    /// Opens a layout, which must lie within the granted folders.
    ///
    /// # Errors
    /// `Refused` outside of the grant, `NotFound`, `Retryable`.
    pub(crate) fn open(
        kernel: &dyn Kernel,
        path: &Path,
        tag: Option<&str>,
        granted: &[PathBuf],
    ) -> Result<Self, ImageError> {
        let folder = kernel.open_host_path(path, granted).map_err(|error| match error.kind() {
            ErrorKind::NotFound => ImageError::NotFound(error.to_string()),
            ErrorKind::PermissionDenied => {
                ImageError::Refused(format!("{error}; see `image-layouts` under [grants] in the configuration"))
            }
            _ => ImageError::Retryable(error.to_string()),
        })?;
        Ok(Self { folder, path: path.to_owned(), tag: tag.map(str::to_owned) })
    }

    /// Opens a regular file of the layout.
    fn file(&self, name: &str) -> Result<File, ImageError> {
        let shown = self.path.join(name);
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let failed = |errno: rustix::io::Errno| {
            let text = format!("open {}: {}", shown.display(), io::Error::from(errno));
            match errno {
                rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR => ImageError::NotFound(text),
                rustix::io::Errno::LOOP => ImageError::Corrupt(format!("{text}: a layout has no symbolic links")),
                _ => ImageError::Retryable(text),
            }
        };
        let file = rustix::fs::openat2(&self.folder, name, flags, Mode::empty(), beneath).map_err(failed)?;
        let about = rustix::fs::fstat(&file).map_err(failed)?;
        if FileType::from_raw_mode(about.st_mode) != FileType::RegularFile {
            return Err(ImageError::Corrupt(format!("{} is no regular file", shown.display())));
        }
        Ok(file.into())
    }

    fn small(&self, name: &str) -> Result<Vec<u8>, ImageError> {
        let mut bytes = Vec::new();
        let read = self.file(name)?.take(MANIFEST_BYTES.saturating_add(1)).read_to_end(&mut bytes);
        let shown = self.path.join(name);
        read.map_err(|error| ImageError::Retryable(format!("read {}: {error}", shown.display())))?;
        if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > MANIFEST_BYTES {
            return Err(ImageError::Corrupt(format!("{} has more than {MANIFEST_BYTES} bytes", shown.display())));
        }
        Ok(bytes)
    }

    /// The manifest that the index has under the tag; without one its only manifest.
    fn chosen(&self) -> Result<Digest, ImageError> {
        let all = read_layout_index(&self.small("index.json")?)?;
        let found = match (&self.tag, all.as_slice()) {
            (None, [only]) => Some(only),
            (tag, all) => {
                let wanted = tag.as_deref().unwrap_or(volhost_model::oci::LATEST);
                all.iter().find(|one| one.reference_name() == Some(wanted))
            }
        };
        let Some(found) = found else {
            let names: Vec<String> = all.iter().filter_map(|one| one.reference_name().map(printable)).take(8).collect();
            let wanted = self.tag.as_deref().unwrap_or(volhost_model::oci::LATEST);
            return Err(ImageError::NotFound(format!(
                "the layout {} has no image {}; it has: {}",
                self.path.display(),
                printable(wanted),
                names.join(", ")
            )));
        };
        Ok(found.of_manifest()?.digest)
    }
}

/// The path of a blob in a layout.
fn path_of(digest: &Digest) -> String {
    format!("blobs/sha256/{}", digest.hex())
}

impl Source for Layout {
    fn manifest(&mut self, digest: Option<&Digest>, _: &dyn PullWatch) -> Result<Vec<u8>, ImageError> {
        let chosen = match digest {
            Some(digest) => digest.clone(),
            None => self.chosen()?,
        };
        let bytes = self.small(&path_of(&chosen))?;
        if Digest::of(&bytes) != chosen {
            let text = format!("{}: the manifest {chosen} does not match its digest", self.path.display());
            return Err(ImageError::Corrupt(text));
        }
        Ok(bytes)
    }

    fn blob(
        &mut self,
        blob: &Blob,
        file: &mut BlobFile,
        progress: &mut dyn FnMut(u64),
        watch: &dyn PullWatch,
    ) -> Result<(), ImageError> {
        let name = path_of(&blob.digest);
        let mut from = self.file(&name)?;
        let mut piece = vec![0; PIECE];
        loop {
            if watch.is_cancelled() {
                return Err(ImageError::Cancelled);
            }
            let count = from
                .read(&mut piece)
                .map_err(|error| ImageError::Retryable(format!("read {}: {error}", self.path.join(&name).display())))?;
            let Some(read) = piece.get(..count).filter(|read| !read.is_empty()) else { return Ok(()) };
            file.take(read).map_err(|error| error.of_image(&blob.digest.to_string()))?;
            progress(file.bytes());
        }
    }

    fn used_login(&self) -> bool {
        false
    }
}
