//! What lies on the shares of the double's servers.

use super::host::TestHost;

impl TestHost {
    /// Puts a folder on a share, with its parents.
    pub fn share_folder(&self, server: &str, path: &str, folder: &str) -> &Self {
        let share = format!("{server}:{path}");
        self.change(|world| {
            let files = world.share_files.entry(share).or_default();
            let ends = folder.match_indices('/').map(|(at, _)| at).chain([folder.len()]);
            for path in ends.filter_map(|end| folder.get(..end)) {
                files.insert(path.to_owned(), None);
            }
        })
    }

    /// Puts a file of this content on a share, where its folder exists.
    pub fn share_text(&self, server: &str, path: &str, file: &str, content: &str) -> &Self {
        let share = format!("{server}:{path}");
        self.change(|world| {
            world.share_files.entry(share).or_default().insert(file.to_owned(), Some(content.to_owned()));
        })
    }

    /// The folders and files of a share, sorted.
    ///
    /// ```
    /// use volhost_plugin_sdk::testing::TestHost;
    ///
    /// let host = TestHost::new();
    /// host.share_folder("nas", "/export", "a/b").share_text("nas", "/export", "a/word", "x");
    /// assert_eq!(host.share_entries("nas", "/export"), ["a", "a/b", "a/word"]);
    /// ```
    #[must_use]
    pub fn share_entries(&self, server: &str, path: &str) -> Vec<String> {
        let share = format!("{server}:{path}");
        let world = self.world.borrow();
        world.share_files.get(&share).map(|files| files.keys().cloned().collect()).unwrap_or_default()
    }
}

pub(crate) mod share_folders {
    use std::collections::BTreeMap;

    use crate::error::{Error, Result};
    use crate::testing::mount::DetachedMount;
    use crate::testing::world::current;

    /// Folders are none, files their content.
    type Files = BTreeMap<String, Option<String>>;
    const FILE_BYTES: usize = 4096;
    const PATH_BYTES: usize = 1023;

    fn check(path: &str) -> Result<()> {
        let plain = path.is_empty() || !path.split('/').any(|name| matches!(name, "" | "." | ".."));
        if plain && path.len() <= PATH_BYTES && !path.chars().any(char::is_control) {
            return Ok(());
        }
        Err(Error::invalid_argument(format!("path {path:?} must be relative, of plain names")))
    }

    /// Runs a step on the files of the mounted share.
    fn on<T>(
        call: &'static str,
        mount: &DetachedMount,
        paths: &[&str],
        run: impl FnOnce(&mut Files) -> Result<T>,
    ) -> Result<T> {
        paths.iter().try_for_each(|path| check(path))?;
        let world = current();
        world.borrow_mut().called(call)?;
        let mount = mount.mount();
        let share = mount.source.filter(|_| mount.fs_type == "nfs");
        let share = share.ok_or_else(|| Error::conflict("the mount shows no share"))?;
        run(world.borrow_mut().share_files.entry(share).or_default())
    }

    fn parent(files: &Files, path: &str) -> Result<()> {
        match path.rsplit_once('/') {
            None => Ok(()),
            Some((parent, _)) if files.get(parent) == Some(&None) => Ok(()),
            Some((parent, _)) => Err(Error::not_found(format!("opening folder {parent}: ENOENT"))),
        }
    }

    fn below<'a>(files: &'a Files, path: &str) -> impl Iterator<Item = &'a String> {
        let inside = format!("{path}/");
        files.keys().filter(move |key| key.starts_with(&inside))
    }

    pub(crate) fn make(mount: &DetachedMount, path: &str, _mode: u32) -> Result<()> {
        on("share-folders.make", mount, &[path], |files| {
            for (end, _) in path.match_indices('/').chain([(path.len(), "")]) {
                let folder = path.get(..end).unwrap_or_default();
                if matches!(files.get(folder), Some(Some(_))) {
                    return Err(Error::conflict(format!("{folder} is a file, and must be a folder")));
                }
                files.insert(folder.to_owned(), None);
            }
            Ok(())
        })
    }

    pub(crate) fn names(mount: &DetachedMount, path: &str) -> Result<Vec<String>> {
        on("share-folders.names", mount, &[path], |files| {
            if path.is_empty() {
                return Ok(files.keys().filter(|key| !key.contains('/')).cloned().collect());
            }
            if files.get(path) != Some(&None) {
                return Err(Error::not_found(format!("opening folder {path}: ENOENT")));
            }
            let inner = below(files, path).filter_map(|key| key.get(path.len() + 1..));
            Ok(inner.filter(|name| !name.contains('/')).map(str::to_owned).collect())
        })
    }

    pub(crate) fn rename(mount: &DetachedMount, path: &str, to: &str) -> Result<()> {
        on("share-folders.rename", mount, &[path, to], |files| {
            parent(files, to)?;
            if files.get(path) != Some(&None) {
                return Err(Error::not_found(format!("renaming folder {path}: ENOENT")));
            }
            if below(files, to).next().is_some() {
                return Err(Error::conflict(format!("{to} is not empty")));
            }
            let moved: Vec<String> = below(files, path).cloned().chain([path.to_owned()]).collect();
            for old in moved {
                if let (Some(content), Some(rest)) = (files.remove(&old), old.get(path.len()..)) {
                    files.insert(format!("{to}{rest}"), content);
                }
            }
            Ok(())
        })
    }

    pub(crate) fn remove(mount: &DetachedMount, path: &str) -> Result<()> {
        on("share-folders.remove", mount, &[path], |files| {
            let gone: Vec<String> = below(files, path).cloned().chain([path.to_owned()]).collect();
            gone.iter().for_each(|path| drop(files.remove(path)));
            Ok(())
        })
    }

    pub(crate) fn write_file(mount: &DetachedMount, path: &str, content: &str) -> Result<()> {
        on("share-folders.write-file", mount, &[path], |files| {
            parent(files, path)?;
            if content.len() > FILE_BYTES {
                return Err(Error::invalid_argument(format!("path {path:?} can have a content of 4096 bytes at most")));
            }
            files.insert(path.to_owned(), Some(content.to_owned()));
            Ok(())
        })
    }

    pub(crate) fn read_file(mount: &DetachedMount, path: &str) -> Result<Option<String>> {
        on("share-folders.read-file", mount, &[path], |files| match files.get(path) {
            None => Ok(None),
            Some(Some(content)) => Ok(Some(content.clone())),
            Some(None) => Err(Error::conflict(format!("{path} is a folder, and must be a file"))),
        })
    }

    pub(crate) fn remove_file(mount: &DetachedMount, path: &str) -> Result<()> {
        on("share-folders.remove-file", mount, &[path], |files| {
            files.remove(path);
            Ok(())
        })
    }
}
