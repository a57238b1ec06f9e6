//! The imports and exports of a component, read without running any of it.

use thiserror::Error;
use wit_component::DecodedWasm;
use wit_parser::{Resolve, WorldItem, WorldKey};

/// The imports and exports of a plugin.
pub(crate) struct PluginSurface {
    /// The contract's version, from the names of its interfaces.
    pub(crate) contract: Option<String>,
    /// The interfaces it exports, sorted. Those of the contract by their short names.
    pub(crate) exports: Vec<String>,
    /// The interfaces it imports, likewise.
    pub(crate) imports: Vec<String>,
    /// The interfaces it exports by their full names, as other tools know them.
    pub(crate) full_exports: Vec<String>,
    /// The interfaces it imports, likewise.
    pub(crate) full_imports: Vec<String>,
}

/// What a file is if not a plugin.
#[derive(Debug, Error)]
pub(crate) enum NotAPlugin {
    /// Something else than WebAssembly.
    #[error("it is not WebAssembly")]
    NotWasm,
    /// A core module.
    #[error("it is a core module, not a component; `volhost plugin encode` makes a component of it")]
    CoreModule,
    /// A WIT package.
    #[error("it is a WIT package: a contract, not a plugin")]
    WitPackage,
    /// A component that cannot be decoded, with the decoder's message.
    #[error("it is not a valid component: {0}")]
    Malformed(String),
    /// A component without a world.
    #[error("it is not a valid component: it has no world")]
    NoWorld,
}

/// Reads the imports and exports of a component.
///
/// # Errors
/// [`NotAPlugin`].
pub(crate) fn read(wasm: &[u8]) -> Result<PluginSurface, NotAPlugin> {
    const MAGIC: &[u8] = b"\0asm";
    const CORE_MODULE: &[u8] = &[1, 0, 0, 0];
    match wasm.strip_prefix(MAGIC) {
        None => return Err(NotAPlugin::NotWasm),
        Some(rest) if rest.starts_with(CORE_MODULE) => return Err(NotAPlugin::CoreModule),
        Some(_) => {}
    }
    let (resolve, world) = match wit_component::decode(wasm) {
        Ok(DecodedWasm::Component(resolve, world)) => (resolve, world),
        Ok(DecodedWasm::WitPackage(..)) => return Err(NotAPlugin::WitPackage),
        Err(error) => return Err(NotAPlugin::Malformed(format!("{error:#}"))),
    };
    let Some(world) = resolve.worlds.get(world) else {
        return Err(NotAPlugin::NoWorld);
    };
    let mut contract = None;
    let exports = names(&resolve, world.exports.iter(), &mut contract);
    let imports = names(&resolve, world.imports.iter(), &mut contract);
    let full = |items: &mut dyn Iterator<Item = &WorldKey>| items.map(|key| resolve.name_world_key(key)).collect();
    let full_exports = full(&mut world.exports.keys());
    let full_imports = full(&mut world.imports.keys());
    Ok(PluginSurface { contract, exports, imports, full_exports, full_imports })
}

fn names<'a>(
    resolve: &Resolve,
    items: impl Iterator<Item = (&'a WorldKey, &'a WorldItem)>,
    contract: &mut Option<String>,
) -> Vec<String> {
    let mut names: Vec<String> = items
        .map(|(key, _)| {
            let name = resolve.name_world_key(key);
            let Some((interface, version)) = name
                .strip_prefix(volhost_runtime::PACKAGE)
                .and_then(|rest| rest.strip_prefix('/'))
                .and_then(|rest| rest.split_once('@'))
            else {
                return name;
            };
            *contract = Some(version.to_owned());
            interface.to_owned()
        })
        .collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_no_plugin_is_named_for_what_it_is() {
        let error = |wasm: &[u8]| read(wasm).err().unwrap();
        assert!(matches!(error(b"hello"), NotAPlugin::NotWasm));
        assert!(matches!(error(b""), NotAPlugin::NotWasm));
        assert!(matches!(error(b"\0asm\x01\0\0\0"), NotAPlugin::CoreModule));
        assert!(error(b"\0asm\x0d\0\x01\0garbage").to_string().contains("not a valid component"));
    }
}
