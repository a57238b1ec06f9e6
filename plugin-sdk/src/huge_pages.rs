//! File systems whose files are made of huge pages of the node's memory.
//!
//! A plugin that calls one of these needs the grant `huge-pages`; one that calls none does not
//! request it.
//!
//! ```
//! use volhost_plugin_sdk::prelude::*;
//! # let host = volhost_plugin_sdk::testing::TestHost::new();
//! let mount = HugePages::of_size(2 << 20).size(64 << 20).mode(0o770).group(2000).create()?;
//! # drop(mount);
//! # Ok::<(), Error>(())
//! ```

use crate::backend::{self, FsOption};
use crate::error::Result;
use crate::mounts::DetachedMount;

/// Options of a hugetlbfs that [`HugePages::create`] makes.
#[derive(Debug, Clone)]
#[must_use = "nothing exists before `create`"]
pub struct HugePages {
    options: Vec<(&'static str, String)>,
}

impl HugePages {
    /// A hugetlbfs with pages of this size, in bytes.
    pub fn of_size(page: u64) -> Self {
        Self { options: vec![("pagesize", page.to_string())] }
    }

    /// Sets its size in bytes, of which only whole pages count. Without it, as much as the node
    /// has.
    pub fn size(self, bytes: u64) -> Self {
        self.option("size", bytes.to_string())
    }

    /// Sets the mode of its root: permissions and the sticky bit.
    pub fn mode(self, mode: u32) -> Self {
        self.option("mode", format!("{mode:o}"))
    }

    /// Sets the group of its root.
    pub fn group(self, gid: u32) -> Self {
        self.option("gid", gid.to_string())
    }

    fn option(mut self, key: &'static str, value: String) -> Self {
        self.options.push((key, value));
        self
    }

    /// Makes it: new, empty and detached. No page is taken before a file uses it.
    ///
    /// # Errors
    /// [`Unsupported`](crate::Error::Unsupported) when the node has no pages of this size.
    pub fn create(&self) -> Result<DetachedMount> {
        let options: Vec<FsOption> = self
            .options
            .iter()
            .map(|(key, value)| FsOption { key: (*key).to_owned(), value: Some(value.clone()) })
            .collect();
        backend::huge_pages::create(&options).map(DetachedMount::new).map_err(backend::error_in)
    }
}
