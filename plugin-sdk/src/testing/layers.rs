//! Overlays, the pod's other volumes, and image files of the double.

use super::host::TestHost;

impl TestHost {
    /// Grants the plugin a folder of image files to mount.
    pub fn grant_image_files(&self, folder: &str) -> &Self {
        self.change(|world| world.image_folders.push(folder.to_owned()))
    }

    /// Publishes another volume of the pod, which the plugin may open.
    pub fn pod_volume(&self, name: &str) -> &Self {
        self.change(|world| {
            world.pod_volumes.insert(name.to_owned());
        })
    }

    /// Puts an image file with this content on the host: `erofs`, `nothing`.
    pub fn image_file(&self, path: &str, content: &str) -> &Self {
        self.change(|world| {
            world.images.insert(path.to_owned(), content.to_owned());
        })
    }
}

pub(crate) mod overlays {
    use crate::error::{Error, Result};
    use crate::testing::mount::{DetachedMount, FsOption, MountSource, TestMount};
    use crate::testing::world::current;

    pub(crate) fn mount(
        lowers: &[&MountSource],
        top: Option<&MountSource>,
        options: &[FsOption],
    ) -> Result<DetachedMount> {
        let world = current();
        world.borrow_mut().called("overlays.mount")?;
        if lowers.is_empty() || (lowers.len() == 1 && top.is_none()) {
            return Err(Error::invalid_argument("option \"lowers\" of overlay: there are too few"));
        }
        if let Some(other) = lowers.iter().copied().chain(top).find(|layer| !layer.is_folder()) {
            return Err(Error::conflict(format!("{}: expected directory, found {}", other.layer(), other.kind())));
        }
        if top.is_some_and(MountSource::is_read_only) {
            return Err(Error::permission_denied("a read-only source cannot be the top of an overlay"));
        }
        let lowers: Vec<String> = lowers.iter().map(|lower| lower.layer()).collect();
        let top = top.map(MountSource::layer);
        let mut layers: Vec<&String> = lowers.iter().chain(&top).collect();
        layers.sort_unstable();
        layers.dedup();
        if layers.len() < lowers.len() + usize::from(top.is_some()) {
            return Err(Error::conflict("two of the layers are the same folder"));
        }
        let mut mount = TestMount::of_type("overlay");
        mount.options = options.iter().map(|option| (option.key.clone(), option.value.clone())).collect();
        if top.is_none() {
            mount.flags.insert("ro".to_owned());
        }
        (mount.lowers, mount.top) = (lowers, top);
        Ok(DetachedMount::new(&world, mount))
    }
}

pub(crate) mod pod_volumes {
    use crate::error::{Error, Result};
    use crate::testing::mount::MountSource;
    use crate::testing::target::MountTarget;
    use crate::testing::world::current;

    /// The double does not check `identity.needs-volume`: the plugin may open every volume of the
    /// pod.
    pub(crate) fn open(_target: &MountTarget, name: &str) -> Result<MountSource> {
        let world = current();
        world.borrow_mut().called("pod-volumes.open")?;
        if !world.borrow().pod_volumes.contains(name) {
            return Err(Error::not_found(format!(
                "`identify` did not declare that the volume needs the volume {name:?} of the pod"
            )));
        }
        Ok(MountSource::of_pod_volume(&world, name))
    }
}

pub(crate) mod image_files {
    use crate::error::{Error, Result};
    use crate::testing::mount::{DetachedMount, FsOption, TestMount};
    use crate::testing::world::current;

    /// The file systems that the contract allows.
    const TYPES: &[&str] = &["erofs", "squashfs", "ext4"];

    pub(crate) fn folders() -> Vec<String> {
        current().borrow().image_folders.clone()
    }

    pub(crate) fn mount(path: &str, fs_type: &str, options: &[FsOption]) -> Result<DetachedMount> {
        let world = current();
        world.borrow_mut().called("image-files.mount")?;
        if !path.starts_with('/') || path.split('/').any(|name| name == "..") || path.contains('\0') {
            return Err(Error::invalid_argument(format!("{path:?} must be an absolute path without `..`")));
        }
        let within =
            |root: &String| path.strip_prefix(root.trim_end_matches('/')).is_some_and(|rest| rest.starts_with('/'));
        if !world.borrow().image_folders.iter().any(within) {
            return Err(Error::permission_denied(format!("{path} lies outside the folders granted to this plugin")));
        }
        if !TYPES.contains(&fs_type) {
            return Err(Error::unsupported(format!("file-system type {fs_type} is not known; {}", TYPES.join(", "))));
        }
        let content = world.borrow().images.get(path).cloned();
        let content = content.ok_or_else(|| Error::not_found(format!("open {path}: No such file or directory")))?;
        if content != fs_type {
            return Err(Error::conflict(format!("{path}: contains {content}, not an image of type {fs_type}")));
        }
        let mut mount = TestMount::of_type(fs_type);
        mount.source = Some(path.to_owned());
        mount.options = options.iter().map(|option| (option.key.clone(), option.value.clone())).collect();
        mount.flags.insert("ro".to_owned());
        Ok(DetachedMount::new(&world, mount))
    }
}
