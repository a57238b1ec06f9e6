//! Memory file systems.

use crate::backend::{self, FsOption};
use crate::error::Result;
use crate::mounts::DetachedMount;

/// Options of a memory file system that [`Tmpfs::create`] makes.
///
/// ```
/// # use volhost_plugin_sdk::prelude::*;
/// # use volhost_plugin_sdk::testing::TestHost;
/// # let host = TestHost::new();
/// # fn example(target: &MountTarget) -> Result<()> {
/// let mount = Tmpfs::new().size(64 << 20).mode(0o700).noswap().create()?;
/// target.attach(mount)
/// # }
/// ```
#[derive(Debug, Clone, Default)]
#[must_use = "nothing exists before `create`"]
pub struct Tmpfs {
    options: Vec<(String, Option<String>)>,
}

impl Tmpfs {
    /// A tmpfs with the kernel's defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets its size in bytes. Without it the kernel allows half of the machine's memory.
    pub fn size(self, bytes: u64) -> Self {
        self.option("size", Some(bytes.to_string()))
    }

    /// Sets how many files and folders it can have.
    ///
    /// ```
    /// use volhost_plugin_sdk::prelude::*;
    /// # let _host = volhost_plugin_sdk::testing::TestHost::new();
    /// let mount = Tmpfs::new().inodes(1000).user(1000).group(2000).create()?;
    /// # drop(mount);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn inodes(self, count: u64) -> Self {
        self.option("nr_inodes", Some(count.to_string()))
    }

    /// Sets the mode of its root.
    pub fn mode(self, mode: u32) -> Self {
        self.option("mode", Some(format!("{mode:o}")))
    }

    /// Sets the owner of its root.
    pub fn user(self, uid: u32) -> Self {
        self.option("uid", Some(uid.to_string()))
    }

    /// Sets the group of its root.
    pub fn group(self, gid: u32) -> Self {
        self.option("gid", Some(gid.to_string()))
    }

    /// Makes the kernel never write its pages to swap. Kernels before 6.4, and user namespaces,
    /// lack it.
    pub fn noswap(self) -> Self {
        self.option("noswap", None)
    }

    fn option(mut self, key: &str, value: Option<String>) -> Self {
        self.options.push((key.to_owned(), value));
        self
    }

    /// Makes it: new, empty and detached.
    ///
    /// # Errors
    /// [`Unsupported`](crate::Error::Unsupported) when this kernel, or this user namespace, lacks
    /// an option; its name is in the text.
    pub fn create(&self) -> Result<DetachedMount> {
        let options: Vec<FsOption> =
            self.options.iter().map(|(key, value)| FsOption { key: key.clone(), value: value.clone() }).collect();
        backend::tmpfs::create(&options).map(DetachedMount::new).map_err(backend::error_in)
    }
}

/// Makes a tmpfs with options by tmpfs(5)'s names; no value for a flag. [`Tmpfs`] has names for
/// those that exist.
///
/// # Errors
/// As [`Tmpfs::create`].
pub fn create(options: &[(&str, Option<&str>)]) -> Result<DetachedMount> {
    options.iter().fold(Tmpfs::new(), |tmpfs, (key, value)| tmpfs.option(key, value.map(str::to_owned))).create()
}
