//! Which interfaces are served, and how a component's imports of them are filled in.

use wasmtime::Engine;
use wasmtime::component::types::{self, ComponentItem};
use wasmtime::component::{Component, Linker, LinkerInstance, Resource, ResourceType};

use super::Handle;
use super::answers::Answer;
use crate::host::State;

/// The packages of WASI whose interfaces are served.
const PACKAGES: &[&str] = &["cli", "clocks", "filesystem", "http", "io", "random", "sockets"];
/// The line of releases that is served: each adds to the one before.
const RELEASES: &str = "0.2.";

/// Returns whether this import is one of those that are served: `wasi:cli/stdout@0.2.6`.
pub(crate) fn is_served(import: &str) -> bool {
    let parts = import.strip_prefix("wasi:").and_then(|rest| rest.split_once('/'));
    parts.is_some_and(|(package, interface)| {
        PACKAGES.contains(&package)
            && interface.split_once('@').is_some_and(|(_, version)| version.starts_with(RELEASES))
    })
}

/// Fills in what the component imports of WASI, by the types that it brings with it. Nothing else is touched.
///
/// # Errors
/// wasmtime's, when an import has parts that no interface of WASI 0.2 has.
pub(crate) fn link(linker: &mut Linker<State>, component: &Component, engine: &Engine) -> wasmtime::Result<()> {
    for (name, import) in component.component_type().imports(engine).filter(|(name, _)| is_served(name)) {
        let ComponentItem::ComponentInstance(interface) = import.ty else {
            wasmtime::bail!("its import {name} is not an interface");
        };
        let short = name.split_once('@').map_or(name, |(short, _)| short);
        link_interface(&mut linker.instance(name)?, short, &interface, engine)?;
    }
    Ok(())
}

fn link_interface(
    linker: &mut LinkerInstance<'_, State>,
    interface: &str,
    ty: &types::ComponentInstance,
    engine: &Engine,
) -> wasmtime::Result<()> {
    for (name, export) in ty.exports(engine) {
        match export.ty {
            ComponentItem::ComponentFunc(_) => {
                let answer = Answer::to(interface, name);
                linker.func_new(name, move |store, ty, parameters, results| {
                    answer.give(store, &ty, parameters, results)
                })?;
            }
            ComponentItem::Resource(_) => {
                linker.resource(name, ResourceType::host::<Handle>(), |mut store, rep| {
                    store.data_mut().table.delete(Resource::<Handle>::new_own(rep))?;
                    Ok(())
                })?;
            }
            ComponentItem::Type(_) => {}
            _ => wasmtime::bail!("its import {interface} holds {name}, which is neither a function nor a type"),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_preview_of_wasi_is_served_and_nothing_beside_it() {
        for served in ["wasi:cli/stdout@0.2.0", "wasi:sockets/tcp@0.2.12", "wasi:http/types@0.2.10"] {
            assert!(is_served(served), "{served}");
        }
        for other in [
            "wasi:cli/stdout@0.3.0",
            "wasi:cli/stdout",
            "wasi:nn/graph@0.2.0",
            "wasi:keyvalue/store@0.2.0-draft",
            "my:cli/stdout@0.2.0",
        ] {
            assert!(!is_served(other), "{other}");
        }
    }
}
