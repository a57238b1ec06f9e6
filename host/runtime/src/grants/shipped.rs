//! The plugins that come with volhost, known by the SHA-256 of their files.
//!
//! The build writes the list (`volhost-plugin-build`), one line for each plugin as `sha256sum`
//! prints it. The list is as powerful as the program: it decides whose file gets the built-in
//! grants and the names of the reserved vendors.

use std::collections::BTreeSet;
use std::fs::{self, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use thiserror::Error;
use volhost_model::PluginName;

use crate::digest::is_digest;

/// The name of the list's file.
pub const SHIPPED_LIST: &str = "shipped-plugins.sha256";
/// Vendors whose names only the plugins that come with volhost may take.
const RESERVED_VENDORS: [&str; 2] = ["kubernetes.io", "volhost.io"];
/// Where the list is installed, seen from the folder above the program's: `/usr/bin/volhost` and
/// `/usr/lib/volhost/shipped-plugins.sha256`.
const INSTALLED: &str = "lib/volhost";
/// The running program.
const PROGRAM: &str = "/proc/self/exe";
/// The largest list that is read, in bytes. A line has about 90.
const LIST_BYTES: u64 = 64 << 10;
/// Permission bits by which others than the owner may write.
const OTHERS_WRITE: u32 = 0o022;

/// Returns whether names of this vendor belong to the plugins that come with volhost.
pub(crate) fn is_reserved(vendor: &str) -> bool {
    RESERVED_VENDORS.contains(&vendor)
}

/// The vendor of a plugin's name.
pub(crate) fn vendor(name: &PluginName) -> &str {
    name.as_str().split_once('/').map_or(name.as_str(), |(vendor, _)| vendor)
}

/// Why the list cannot be used.
#[derive(Debug, Error)]
pub enum ShippedListError {
    /// It cannot be read.
    #[error("the list of the plugins that come with volhost, {path}, cannot be read: {source}")]
    Read {
        /// The list.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Others may write to it: they could give their plugins the built-in grants.
    #[error(
        "the list of the plugins that come with volhost is not safe: {path} belongs to user {owner} and has mode {mode:o}; it must \
         belong to root, or to the owner of the volhost program, and no other user may write to it (chmod go-w)"
    )]
    Unsafe {
        /// The list or its folder.
        path: PathBuf,
        /// The owner.
        owner: u32,
        /// The permissions.
        mode: u32,
    },
    /// A line is no digest.
    #[error(
        "the list of the plugins that come with volhost, {path}, line {line}: write `SHA-256  FILE`, as sha256sum prints it"
    )]
    Malformed {
        /// The list.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
    },
}

/// Why a file does not count as a plugin that comes with volhost: a part of a sentence.
#[derive(Debug, Error)]
pub enum NotShipped {
    /// It is none of those that are known.
    #[error("its content is none of theirs")]
    None,
    /// The list does not name it.
    #[error("its content is none of those that {} names", .0.display())]
    NotListed(PathBuf),
    /// There is no list at any of these places.
    #[error("no list of them was found; volhost looked for {}", looked_for(.0))]
    NoList(Vec<PathBuf>),
    /// The list is of no use.
    #[error(transparent)]
    List(#[from] ShippedListError),
}

/// Where to learn which files are the plugins that come with volhost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ShippedPlugins {
    /// The first of these lists that exists. It is read whenever a plugin is loaded, so that a
    /// build or an upgrade takes effect at once.
    Listed(Vec<PathBuf>),
    /// Files of these digests.
    Known(BTreeSet<String>),
}

impl Default for ShippedPlugins {
    /// None.
    fn default() -> Self {
        Self::Known(BTreeSet::new())
    }
}

impl ShippedPlugins {
    /// Looks for the list beside the running program: where it is installed, and where the build
    /// writes it.
    #[must_use]
    pub fn beside_program() -> Self {
        let program = fs::read_link(PROGRAM).unwrap_or_default();
        let above = program.parent().and_then(Path::parent).unwrap_or(Path::new("/"));
        Self::Listed(vec![above.join(INSTALLED).join(SHIPPED_LIST), above.join(SHIPPED_LIST)])
    }

    /// Checks that the list can be used. A list that does not exist is no error unless it was
    /// named: then no plugin has built-in grants.
    ///
    /// # Errors
    /// [`ShippedListError`].
    pub fn check(&self) -> Result<(), ShippedListError> {
        match self {
            Self::Known(_) => Ok(()),
            Self::Listed(lists) => match (existing(lists), lists.as_slice()) {
                (Some(list), _) => read(list).map(drop),
                (None, [named]) => read(named).map(drop),
                (None, _) => Ok(()),
            },
        }
    }

    /// Returns a warning for the log if there is no list: then every plugin that comes with volhost
    /// is refused.
    #[must_use]
    pub fn warning(&self) -> Option<String> {
        match self {
            Self::Listed(lists) if existing(lists).is_none() => Some(format!(
                "no list of shipped plugins: looked for {}. Every plugin that comes with volhost is refused; install {SHIPPED_LIST}, which \
                 the build writes, or name it by --shipped-plugins",
                looked_for(lists)
            )),
            _ => None,
        }
    }

    /// Returns whether the file of this digest is one of them.
    ///
    /// # Errors
    /// [`NotShipped`].
    pub(crate) fn check_digest(&self, digest: &str) -> Result<(), NotShipped> {
        let (digests, list) = match self {
            Self::Known(digests) if digests.contains(digest) => return Ok(()),
            Self::Known(_) => return Err(NotShipped::None),
            Self::Listed(lists) => match existing(lists) {
                Some(list) => (read(list)?, list),
                None => return Err(NotShipped::NoList(lists.clone())),
            },
        };
        if digests.contains(digest) {
            return Ok(());
        }
        Err(NotShipped::NotListed(list.to_owned()))
    }
}

fn looked_for(lists: &[PathBuf]) -> String {
    let looked: Vec<String> = lists.iter().map(|list| list.display().to_string()).collect();
    looked.join(" and ")
}

fn existing(lists: &[PathBuf]) -> Option<&PathBuf> {
    lists.iter().find(|list| list.symlink_metadata().is_ok())
}

/// The digests of a list, if only users who can write the program can have written it.
fn read(path: &Path) -> Result<BTreeSet<String>, ShippedListError> {
    let failed = |source| ShippedListError::Read { path: path.to_owned(), source };
    let file = fs::File::open(path).map_err(failed)?;
    check_writers(path, &file.metadata().map_err(failed)?)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // A user who can write to a folder above the program can replace the program anyway.
    if !fs::read_link(PROGRAM).is_ok_and(|program| program.starts_with(folder)) {
        check_writers(folder, &fs::metadata(folder).map_err(failed)?)?;
    }
    let mut text = String::new();
    file.take(LIST_BYTES).read_to_string(&mut text).map_err(failed)?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
    lines
        .map(|(index, line)| match line.split_whitespace().next() {
            Some(digest) if is_digest(digest) => Ok(digest.to_owned()),
            _ => Err(ShippedListError::Malformed { path: path.to_owned(), line: index.saturating_add(1) }),
        })
        .collect()
}

fn check_writers(path: &Path, found: &Metadata) -> Result<(), ShippedListError> {
    let (owner, mode) = (found.uid(), found.mode() & 0o7777);
    let of_program = fs::metadata(PROGRAM).map(|program| program.uid()).ok();
    let trusted = owner == 0 || owner == rustix::process::geteuid().as_raw() || Some(owner) == of_program;
    if trusted && mode & OTHERS_WRITE == 0 {
        return Ok(());
    }
    Err(ShippedListError::Unsafe { path: path.to_owned(), owner, mode })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn list(text: &str) -> (tempfile::TempDir, ShippedPlugins, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(SHIPPED_LIST);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        (folder, ShippedPlugins::Listed(vec![path.clone()]), path)
    }

    #[test]
    fn a_list_names_files_by_their_content() {
        let (digest, other) = ("a".repeat(64), "b".repeat(64));
        let (_folder, shipped, path) = list(&format!("# the build wrote this\n{digest}  loop.wasm\n\n"));
        shipped.check().unwrap();
        shipped.check_digest(&digest).unwrap();
        assert!(shipped.check_digest(&other).unwrap_err().to_string().contains(&path.display().to_string()));
        fs::write(&path, format!("{other}  loop.wasm\n")).unwrap();
        shipped.check_digest(&other).unwrap();
        assert!(shipped.check_digest(&digest).is_err(), "the list is read anew");
    }

    #[test]
    fn a_list_that_others_can_write_or_that_is_none_is_refused() {
        let (folder, shipped, path) = list("not a digest  loop.wasm\n");
        assert!(matches!(shipped.check().unwrap_err(), ShippedListError::Malformed { line: 1, .. }));
        for place in [path.as_path(), folder.path()] {
            let before = fs::metadata(place).unwrap().permissions();
            fs::set_permissions(place, fs::Permissions::from_mode(0o775)).unwrap();
            let error = shipped.check().unwrap_err();
            assert!(matches!(&error, ShippedListError::Unsafe { mode: 0o775, .. }), "{error}");
            assert!(shipped.check_digest(&"a".repeat(64)).unwrap_err().to_string().contains("chmod go-w"));
            fs::set_permissions(place, before).unwrap();
        }
        fs::remove_file(&path).unwrap();
        assert!(matches!(shipped.check().unwrap_err(), ShippedListError::Read { .. }));
        let nowhere = ShippedPlugins::Listed(vec!["/no/such/list".into(), "/no/such/other".into()]);
        nowhere.check().unwrap();
        assert!(
            nowhere
                .warning()
                .unwrap()
                .starts_with("no list of shipped plugins: looked for /no/such/list and /no/such/other.")
        );
        assert_eq!((ShippedPlugins::default().warning(), shipped.warning().is_some()), (None, true));
        assert!(nowhere.check_digest("").unwrap_err().to_string().contains("/no/such/list and /no/such/other"));
    }
}
