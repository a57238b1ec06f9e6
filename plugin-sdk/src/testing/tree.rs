//! The host's own paths, in memory.

use std::collections::BTreeMap;

use crate::error::{Error, Result};

/// The kind of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Node {
    Directory,
    File,
    Socket,
    Fifo,
    CharDevice,
    BlockDevice,
    /// A symbolic link to an absolute path.
    Link(String),
}

impl Node {
    /// The contract's word for it.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::Directory => "directory",
            Self::File => "file",
            Self::Socket => "socket",
            Self::Fifo => "fifo",
            Self::CharDevice => "char-device",
            Self::BlockDevice => "block-device",
            Self::Link(_) => "symlink",
        }
    }
}

/// Everything by its absolute path, which has no symbolic link in it. `/` is there without being in
/// the map.
#[derive(Debug, Default)]
pub(crate) struct Tree(BTreeMap<String, Node>);

impl Tree {
    /// Puts a node, and folders where parents are missing.
    pub(crate) fn put(&mut self, path: &str, node: Node) {
        let mut parent = String::new();
        for name in names(parent_of(path)) {
            parent = format!("{parent}/{name}");
            self.0.entry(parent.clone()).or_insert(Node::Directory);
        }
        if names(path).next().is_some() {
            self.0.insert(path.trim_end_matches('/').to_owned(), node);
        }
    }

    /// The kind and the real path of what the path leads to, links followed.
    pub(crate) fn resolve(&self, path: &str) -> Result<(String, Node)> {
        /// As many links as the kernel follows before it reports a loop.
        const MOST_LINKS: usize = 40;
        let mut links = 0;
        let mut rest: Vec<String> = names(path).map(str::to_owned).collect();
        rest.reverse();
        let mut real = String::new();
        let mut node = Node::Directory;
        while let Some(name) = rest.pop() {
            if node != Node::Directory {
                return Err(Error::other("ENOTDIR", format!("open {path}: Not a directory")));
            }
            let next = format!("{real}/{name}");
            let Some(found) = self.0.get(&next) else {
                return Err(Error::not_found(format!("open {path}: No such file or directory")));
            };
            if let Node::Link(to) = found {
                links += 1;
                if links > MOST_LINKS {
                    return Err(Error::other("ELOOP", format!("open {path}: Too many levels of symbolic links")));
                }
                rest.extend(names(to).map(str::to_owned).collect::<Vec<_>>().into_iter().rev());
                real = String::new();
                node = Node::Directory;
            } else {
                real = next;
                node = found.clone();
            }
        }
        Ok((if real.is_empty() { "/".to_owned() } else { real }, node))
    }
}

/// The folder a path lies in.
pub(crate) fn parent_of(path: &str) -> &str {
    path.trim_end_matches('/').rsplit_once('/').map_or("/", |(parent, _)| parent)
}

fn names(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|name| !name.is_empty() && *name != ".")
}
