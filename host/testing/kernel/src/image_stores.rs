//! Folders of image files.

use std::path::{Path, PathBuf};

use volhost_kernel::implement::{check_absolute, text};
use volhost_kernel::{Errno, ImageFacts, ImageStores, KernelError, LoopDevices, MountSource, Result, SourceKind, Step};

use super::devices::Backing;
use super::state::InodeContent;
use super::{InMemoryKernel, lock};

/// Mode of an image, as the real kernel's.
const IMAGE_MODE: u32 = 0o600;
/// The free space of the disk, in bytes.
const FREE_BYTES: u64 = 1 << 40;

impl ImageStores for InMemoryKernel {
    fn image_names(&self, folder: &Path, roots: &[PathBuf]) -> Result<Vec<String>> {
        let mut state = lock(&self.state);
        let (at, kind) = state.open_granted(folder, roots)?;
        if kind != SourceKind::Directory {
            let (expected, found) = (SourceKind::Directory.as_str(), kind.as_str());
            return Err(KernelError::WrongType { path: text(folder), expected, found });
        }
        let failed = |errno| KernelError::failed(Step::ListFolder, text(folder), errno);
        state.step(Step::ListFolder, folder)?;
        let children = state.children(at.node).map_err(failed)?;
        let files = children
            .iter()
            .filter(|(_, node)| state.node(**node).is_ok_and(|node| matches!(node.content, InodeContent::File(_))));
        Ok(files.filter_map(|(name, _)| name.to_str().map(str::to_owned)).collect())
    }

    fn image_facts(&self, image: &MountSource) -> Result<ImageFacts> {
        let node = self.file(image)?;
        let state = lock(&self.state);
        let failed = |errno| KernelError::failed(Step::Inspect, text(image.label()), errno);
        let taken = state.devices.reserved.get(&node).copied().unwrap_or_default();
        Ok(ImageFacts { size: state.file_size(node).map_err(failed)?, modified: 0, taken })
    }

    fn reserve_image(&self, image: &MountSource, bytes: u64) -> Result<u64> {
        let node = self.file(image)?;
        let mut state = lock(&self.state);
        state.step(Step::ReserveImage, image.label())?;
        let failed = |errno| KernelError::failed(Step::ReserveImage, text(image.label()), errno);
        let size = state.file_size(node).map_err(failed)?.max(bytes);
        if size > FREE_BYTES {
            return Err(failed(Errno::NOSPC));
        }
        state.devices.sizes.insert(node, size);
        state.devices.reserved.insert(node, size);
        Ok(size)
    }

    fn release_image(&self, image: &MountSource) -> Result<()> {
        let node = self.file(image)?;
        let mut state = lock(&self.state);
        state.step(Step::ReleaseImage, image.label())?;
        if state.devices.over(Backing::File(node)).is_some() {
            return Err(KernelError::failed(Step::ReleaseImage, text(image.label()), Errno::BUSY));
        }
        state.devices.reserved.remove(&node);
        Ok(())
    }

    fn copy_image(&self, image: &MountSource, to: &Path, roots: &[PathBuf]) -> Result<u64> {
        check_absolute(to)?;
        let node = self.file(image)?;
        let mut state = lock(&self.state);
        let failed = |errno| KernelError::failed(Step::CopyImage, text(to), errno);
        let (Some(folder), Some(name)) = (to.parent(), to.file_name()) else {
            return Err(failed(Errno::ISDIR));
        };
        let (parent, _) = state.open_granted(folder, roots)?;
        state.step(Step::CopyImage, to)?;
        if state.entry(parent, name).is_ok() {
            return Err(failed(Errno::EXIST));
        }
        if state.devices.over(Backing::File(node)).is_some() {
            return Err(KernelError::failed(Step::CopyImage, text(image.label()), Errno::BUSY));
        }
        let size = state.file_size(node).map_err(failed)?;
        let content = state.node(node).map_err(failed)?.content.clone();
        let copy = state.create(parent, name, content, IMAGE_MODE).map_err(failed)?;
        state.devices.sizes.insert(copy.node, size);
        if let Some(medium) = state.devices.media.get(&Backing::File(node)).cloned() {
            state.devices.media.insert(Backing::File(copy.node), medium);
        }
        Ok(size)
    }

    // Its disk shares no blocks: an image with a device is copied neither alone nor with others.
    fn copy_images_together(&self, copies: &[(MountSource, PathBuf)], roots: &[PathBuf]) -> Result<()> {
        let mut made = Vec::new();
        for (image, to) in copies {
            if let Err(cause) = self.copy_image(image, to, roots) {
                made.into_iter().try_for_each(|path| self.remove_image(path, roots))?;
                return Err(cause);
            }
            made.push(to.as_path());
        }
        Ok(())
    }

    fn thaw_images(&self, roots: &[PathBuf]) -> Result<Vec<PathBuf>> {
        let _ = roots;
        Ok(Vec::new())
    }

    fn remove_image(&self, path: &Path, roots: &[PathBuf]) -> Result<()> {
        let opened = lock(&self.state).open_granted(path, roots);
        let (at, kind) = match opened {
            Ok(found) => found,
            Err(KernelError::Failed { errno: Errno::NOENT, .. }) => return Ok(()),
            Err(error) => return Err(error),
        };
        let image = self.host_source(at, path, kind)?;
        let node = self.file(&image)?;
        if self.find_loop(&image)?.is_some() {
            return Err(KernelError::failed(Step::RemoveFile, text(path), Errno::BUSY));
        }
        let mut state = lock(&self.state);
        let failed = |errno| KernelError::walking(Step::RemoveFile, text(path), errno);
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(failed(Errno::ISDIR));
        };
        state.step(Step::RemoveFile, path)?;
        let parent = state.resolve(folder).map_err(failed)?;
        if state.lower(parent, name).map_err(failed)?.node != node {
            return Err(failed(Errno::LOOP));
        }
        state.unlink(parent, name).map_err(failed)?;
        state.devices.sizes.remove(&node);
        state.devices.reserved.remove(&node);
        state.devices.media.remove(&Backing::File(node));
        Ok(())
    }

    fn free_space(&self, folder: &Path, roots: &[PathBuf]) -> Result<u64> {
        self.image_names(folder, roots).map(|_| FREE_BYTES)
    }
}
