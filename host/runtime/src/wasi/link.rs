//! Which interfaces of WASI are served, and how a component's imports of them are linked.

use wasmtime::Engine;
use wasmtime::component::types::{self, ComponentItem};
use wasmtime::component::{Component, HasSelf, Linker, LinkerInstance, ResourceType};
use wasmtime_wasi::p2::bindings::clocks::monotonic_clock;
use wasmtime_wasi::p2::bindings::sync::LinkOptions;
use wasmtime_wasi::p2::{self, DynInputStream, DynOutputStream, DynPollable, IoError};

use crate::abort::Abort;
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

/// Links WASI for a component that imports it.
///
/// # Errors
/// wasmtime's, when the component imports of `wasi:http` what no interface can have.
pub(crate) fn link(linker: &mut Linker<State>, component: &Component, engine: &Engine) -> wasmtime::Result<()> {
    let mut options = LinkOptions::default();
    options.network_error_code(true);
    p2::add_to_linker_with_options_sync(linker, &options)?;
    linker.allow_shadowing(true);
    monotonic_clock::add_to_linker::<State, HasSelf<State>>(linker, |state| state)?;
    linker.allow_shadowing(false);
    for (name, import) in component.component_type().imports(engine) {
        if let (true, ComponentItem::ComponentInstance(interface)) = (name.starts_with("wasi:http/"), import.ty) {
            refuse_http(&mut linker.instance(name)?, name, &interface, engine)?;
        }
    }
    Ok(())
}

/// Links an interface of `wasi:http` so that each of its functions ends the call. Some languages
/// import it unasked, and `wasmtime_wasi` does not have it.
fn refuse_http(
    linker: &mut LinkerInstance<'_, State>,
    interface: &str,
    ty: &types::ComponentInstance,
    engine: &Engine,
) -> wasmtime::Result<()> {
    /// A resource of `wasi:http`, of which there is none.
    struct Http;

    for (name, export) in ty.exports(engine) {
        match export.ty {
            ComponentItem::ComponentFunc(_) => {
                let what = format!("it called {name} of {interface}, and a plugin has no network");
                linker.func_new(name, move |_, _, _, _| Err(Abort::contract(what.clone()).into()))?;
            }
            ComponentItem::Resource(_) => {
                let ty = match name {
                    "pollable" => ResourceType::host::<DynPollable>(),
                    "input-stream" => ResourceType::host::<DynInputStream>(),
                    "output-stream" => ResourceType::host::<DynOutputStream>(),
                    "io-error" => ResourceType::host::<IoError>(),
                    _ => ResourceType::host::<Http>(),
                };
                linker.resource(name, ty, |_, _| Ok(()))?;
            }
            ComponentItem::Type(_) => {}
            _ => wasmtime::bail!("its import {interface} has {name}, which is neither a function nor a type"),
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
