//! Walking a granted path without a look at what is not granted.
//!
//! A path that leads out of the grant gets one answer, whether or not anything exists there: the
//! walk ends at the name or link that leads out, before the kernel is asked about what lies behind
//! it. Links within the grant are followed by the text of their targets.

use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

use crate::error::Errno;

/// The most links of one walk, as the kernel's.
const MOST_LINKS: usize = 40;

/// The type of a name in a folder.
pub enum PathEntry<P> {
    /// A symbolic link, and its target.
    Link(PathBuf),
    /// Anything else.
    Place(P),
}

/// Why a path was not opened.
#[derive(Debug, PartialEq, Eq)]
pub enum PathRefusal {
    /// It is not within the grant, or leads out of it.
    Outside,
    /// It is, and cannot be opened.
    Failed(Errno),
}

impl From<Errno> for PathRefusal {
    fn from(errno: Errno) -> Self {
        Self::Failed(errno)
    }
}

/// A file system, one name at a time.
pub trait Places {
    /// An open place.
    type Place;
    /// Opens a path of the operator's, links followed.
    fn open_root(&self, root: &Path) -> Result<Self::Place, Errno>;
    /// Returns the path of a place, without links.
    fn real_path(&self, place: &Self::Place) -> Result<PathBuf, Errno>;
    /// Opens a path below a place if there is no link on it, and none if there is.
    fn open_plain(&self, from: &Self::Place, below: &Path) -> Result<Option<Self::Place>, Errno>;
    /// Looks at a name in a folder, without following it.
    fn look_up(&self, folder: &Self::Place, name: &OsStr) -> Result<PathEntry<Self::Place>, Errno>;
}

/// Opens an absolute path without `..` within the granted roots.
pub fn open<S: Places>(places: &S, path: &Path, roots: &[PathBuf]) -> Result<S::Place, PathRefusal> {
    if roots.iter().any(|root| root == Path::new("/")) {
        return Ok(places.open_root(path)?);
    }
    let mut wanted = path.to_owned();
    for _ in 0..=MOST_LINKS {
        match walk(places, &wanted, roots)? {
            Ok(place) => return Ok(place),
            Err(target) => wanted = target,
        }
    }
    Err(PathRefusal::Failed(Errno::LOOP))
}

/// One stretch of the walk: to the end, or to where a link leads.
fn walk<S: Places>(places: &S, wanted: &Path, roots: &[PathBuf]) -> Result<Result<S::Place, PathBuf>, PathRefusal> {
    let (mut place, below) = start(places, wanted, roots)?;
    if below.as_os_str().is_empty() {
        return Ok(Ok(place));
    }
    if let Some(end) = places.open_plain(&place, &below)? {
        return Ok(Ok(end));
    }
    // Only a link needs it.
    let mut real = places.real_path(&place)?;
    let mut names = below.components();
    while let Some(name) = names.next() {
        match places.look_up(&place, name.as_os_str())? {
            PathEntry::Place(inner) => {
                place = inner;
                real.push(name);
            }
            PathEntry::Link(target) => return Ok(Err(led_to(&real, &target, names.as_path())?)),
        }
    }
    Ok(Ok(place))
}

/// The granted root that the path lies within, opened, and the path below it.
fn start<S: Places>(places: &S, wanted: &Path, roots: &[PathBuf]) -> Result<(S::Place, PathBuf), PathRefusal> {
    let as_written = roots.iter().filter_map(|root| Some((root, wanted.strip_prefix(root).ok()?)));
    // Of two that contain it, the inner one: its folder is the one that the operator meant.
    if let Some((root, below)) = as_written.min_by_key(|(_, below)| below.as_os_str().len()) {
        return Ok((places.open_root(root)?, below.to_owned()));
    }
    // A grant may be written with links (/var/run); it means the folder that they lead to.
    for root in roots {
        if let Ok(place) = places.open_root(root)
            && let Ok(real) = places.real_path(&place)
            && let Ok(below) = wanted.strip_prefix(&real)
        {
            let below = below.to_owned();
            return Ok((place, below));
        }
    }
    Err(PathRefusal::Outside)
}

/// Where a link in a folder leads, by its text. `real` has no links.
fn led_to(real: &Path, target: &Path, rest: &Path) -> Result<PathBuf, PathRefusal> {
    let mut to = if target.is_absolute() { PathBuf::from("/") } else { real.to_owned() };
    let mut names = 0_usize;
    for part in target.components() {
        match part {
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
            // What a name leads to whose parent is meant is known only to who looks at it.
            Component::ParentDir if names > 0 => return Err(PathRefusal::Outside),
            Component::ParentDir => drop(to.pop()),
            Component::Normal(name) => {
                to.push(name);
                names = names.saturating_add(1);
            }
        }
    }
    to.extend(rest.components());
    Ok(to)
}
