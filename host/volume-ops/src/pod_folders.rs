//! The folders of a pod that are kept open while operations of it run.

use std::collections::BTreeMap;
use std::sync::Mutex;

use volhost_kernel::{Directory, KernelError};
use volhost_model::names::PluginName;

use super::kept_open::lock;

/// What is known of the folder of a pod's sub-paths.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum SubPathFolder {
    #[default]
    Unknown,
    Absent,
    /// It was made, or is about to be.
    Made,
}

/// The folders of one pod.
#[derive(Debug, Default)]
pub(super) struct PodFolders {
    /// Where volumes are published, by plugin.
    published: Mutex<BTreeMap<PluginName, Directory>>,
    sub_paths: Mutex<SubPathFolder>,
}

impl PodFolders {
    /// Returns the folder in which the plugin's volumes are published. `open` opens it, if it is
    /// not open.
    pub(super) fn published(
        &self,
        plugin: &PluginName,
        open: impl FnOnce() -> Result<Option<Directory>, KernelError>,
    ) -> Result<Option<Directory>, KernelError> {
        let mut folders = lock(&self.published);
        if let Some(folder) = folders.get(plugin) {
            return Ok(Some(folder.clone()));
        }
        let opened = open()?;
        folders.extend(opened.clone().map(|folder| (plugin.clone(), folder)));
        Ok(opened)
    }

    /// Closes the folders while `work` may remove them: no folder that it removes is used
    /// afterwards.
    pub(super) fn closed<T>(&self, work: impl FnOnce() -> T) -> T {
        let mut folders = lock(&self.published);
        folders.clear();
        work()
    }

    /// Returns whether the pod has no sub-paths. `is_absent` looks for their folder; nothing but
    /// this process makes it.
    pub(super) fn has_no_sub_paths(
        &self,
        is_absent: impl FnOnce() -> Result<bool, KernelError>,
    ) -> Result<bool, KernelError> {
        let mut sub_paths = lock(&self.sub_paths);
        if *sub_paths == SubPathFolder::Unknown && is_absent()? {
            *sub_paths = SubPathFolder::Absent;
        }
        Ok(*sub_paths == SubPathFolder::Absent)
    }

    /// Sub-paths are about to be made.
    pub(super) fn make_sub_paths(&self) {
        *lock(&self.sub_paths) = SubPathFolder::Made;
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use volhost_kernel::Kernel;
    use volhost_testing_kernel::InMemoryKernel;

    use super::*;

    #[test]
    fn a_folder_is_opened_once_until_a_cleanup_may_have_removed_it() {
        let kernel = InMemoryKernel::new();
        let (folders, plugin) = (PodFolders::default(), PluginName::new("a/b").unwrap());
        let mut opened = 0;
        let mut open = |folders: &PodFolders| {
            let found = folders.published(&plugin, || {
                opened += 1;
                kernel.open_directory(Path::new("/")).map(Some)
            });
            assert!(found.unwrap().is_some());
            opened
        };
        assert_eq!((open(&folders), open(&folders)), (1, 1));
        folders.closed(|| ());
        assert_eq!(open(&folders), 2);
        assert!(folders.published(&PluginName::new("a/c").unwrap(), || Ok(None)).unwrap().is_none());
    }

    #[test]
    fn sub_paths_are_absent_only_if_nothing_makes_any() {
        let folders = PodFolders::default();
        assert!(!folders.has_no_sub_paths(|| Ok(false)).unwrap());
        assert!(folders.has_no_sub_paths(|| Ok(true)).unwrap());
        assert!(folders.has_no_sub_paths(|| unreachable!("it is known")).unwrap());
        folders.make_sub_paths();
        assert!(!folders.has_no_sub_paths(|| unreachable!("they are about to be made")).unwrap());
    }
}
