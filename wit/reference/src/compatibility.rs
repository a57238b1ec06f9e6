//! Two surfaces side by side: whether plugins that were built for the older one run on a host with
//! the newer one.
//!
//! A component is linked item by item, and an item's type must be the same to the last word. So
//! nothing may go, nothing may change, and what plugins *export* may not grow either: a plugin of
//! yesterday lacks what was added. What plugins import may grow.

use std::fmt;

use crate::contract::HOST_WORLD;
use crate::surface::Surface;

/// Something that a plugin of the older contract does not survive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Break {
    /// An item is not there any more.
    Gone {
        /// Its name.
        item: String,
    },
    /// An item is another one.
    Changed {
        /// Its name.
        item: String,
        /// What it was.
        from: String,
        /// What it is.
        to: String,
    },
    /// Plugins must have what they had not to have.
    Demanded {
        /// What.
        item: String,
    },
}

impl fmt::Display for Break {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gone { item } => write!(formatter, "{item} is gone: plugins that use it do not load any more"),
            Self::Changed { item, from, to } => {
                write!(
                    formatter,
                    "{item} has changed: plugins that use it do not load any more\n  was: {from}\n  is:  {to}"
                )
            }
            Self::Demanded { item } => write!(
                formatter,
                "{item} is demanded of plugins, and those that are there lack it: make it an interface of its own, a new capability"
            ),
        }
    }
}

/// All that breaks, in the order of the items' names.
pub fn breaks(older: &Surface, newer: &Surface) -> Vec<Break> {
    let mut found = Vec::new();
    for (item, from) in &older.items {
        match newer.items.get(item) {
            None => found.push(Break::Gone { item: item.clone() }),
            Some(to) if to != from => {
                found.push(Break::Changed { item: item.clone(), from: from.clone(), to: to.clone() });
            }
            Some(_) => {}
        }
    }
    let added = newer.items.keys().filter(|item| !older.items.contains_key(*item));
    found.extend(added.filter(|item| is_demanded(older, item)).map(|item| Break::Demanded { item: item.clone() }));
    found
}

fn is_demanded(older: &Surface, item: &str) -> bool {
    if let Some((world, wants)) = item.split_once(": ") {
        let known = older.items.contains_key(world) && world != format!("world {HOST_WORLD}");
        return known && wants.starts_with("export ");
    }
    item.split_once('.').is_some_and(|(interface, _)| older.exported.iter().any(|one| one == interface))
}
