//! The items of the contract that a plugin can rely on.

use std::collections::BTreeMap;

use crate::contract::Contract;
use crate::words;

/// Items by name: `mounts.mount-target.attach`. An item is equal to another one if plugins that
/// were built for the one fit the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Surface {
    pub(crate) items: BTreeMap<String, String>,
    /// The interfaces that plugins export.
    pub(crate) exported: Vec<String>,
}

impl Surface {
    /// The surface of a contract.
    pub fn of(contract: &Contract) -> Self {
        let mut items = BTreeMap::new();
        let mut exported = Vec::new();
        for (name, interface) in contract.interfaces() {
            items.insert(name.to_owned(), "interface".to_owned());
            if contract.is_exported(name) {
                exported.push(name.to_owned());
            }
            let types = interface.types.iter().filter_map(|(kind, id)| Some((kind, contract.resolve.types.get(*id)?)));
            for (kind, definition) in types {
                if let Some(words) = words::of_definition(&contract.resolve, definition) {
                    items.insert(format!("{name}.{kind}"), words);
                }
            }
            for (function, definition) in &interface.functions {
                items.insert(format!("{name}.{}", plain(function)), words::of_function(&contract.resolve, definition));
            }
        }
        for (name, world) in contract.worlds() {
            items.insert(format!("world {name}"), "world".to_owned());
            for import in contract.names(world.imports.keys()) {
                items.insert(format!("world {name}: import {import}"), "import".to_owned());
            }
            for export in contract.names(world.exports.keys()) {
                items.insert(format!("world {name}: export {export}"), "export".to_owned());
            }
        }
        Self { items, exported }
    }
}

/// A function's name without the mark of a method: `[method]mount-target.attach`.
pub(crate) fn plain(name: &str) -> &str {
    name.rsplit(']').next().unwrap_or(name)
}
