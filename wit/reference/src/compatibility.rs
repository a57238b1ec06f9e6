//! Compares two surfaces: do plugins that were built for the older one run on a host with the newer
//! one?
//!
//! A component is linked item by item, and an item's type must be exactly equal. So no item may be
//! removed or changed, and the interfaces that plugins *export* may not grow: an older plugin lacks
//! the addition. The interfaces that plugins import may grow.

use std::fmt;

use crate::contract::HOST_WORLD;
use crate::surface::Surface;

/// A change that breaks plugins of the older contract.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Break {
    /// An item was removed.
    Gone {
        /// Its name.
        item: String,
    },
    /// An item was changed.
    Changed {
        /// Its name.
        item: String,
        /// Its old type.
        from: String,
        /// Its new type.
        to: String,
    },
    /// Plugins must have an item that was not required before.
    Demanded {
        /// Its name.
        item: String,
    },
}

impl fmt::Display for Break {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gone { item } => write!(formatter, "{item} was removed: plugins that use it do not load any more"),
            Self::Changed { item, from, to } => {
                write!(
                    formatter,
                    "{item} has changed: plugins that use it do not load any more\n  was: {from}\n  is:  {to}"
                )
            }
            Self::Demanded { item } => write!(
                formatter,
                "{item} is required of plugins, and existing ones lack it: make it an interface of its own, a new capability"
            ),
        }
    }
}

/// All breaking changes, in the order of the items' names.
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
