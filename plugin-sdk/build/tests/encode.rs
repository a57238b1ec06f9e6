//! What becomes a component, and what a person reads when it can't.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "tests may panic"
)]

use volhost_plugin_build::encode::{EncodeError, component};
use wit_component::{StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

/// The smallest core module: the magic number and the version.
const EMPTY_MODULE: &[u8] = b"\0asm\x01\0\0\0";

/// An empty module that claims to implement `world`, written in WIT.
fn module_claiming(world: &str) -> Vec<u8> {
    let mut resolve = Resolve::default();
    let package = resolve.push_str("t.wit", &format!("package t:t; world w {{ {world} }}")).unwrap();
    let world = resolve.select_world(&[package], Some("w")).unwrap();
    let mut module = EMPTY_MODULE.to_vec();
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8).unwrap();
    module
}

#[test]
fn a_module_that_fits_its_contract_becomes_a_component() {
    let bytes = component(&module_claiming("")).unwrap();
    assert!(wasmparser::Parser::is_component(&bytes));
}

#[test]
fn the_same_module_gives_the_same_component() {
    let module = module_claiming("");
    assert_eq!(component(&module).unwrap(), component(&module).unwrap());
}

#[test]
fn a_core_module_without_a_contract_is_told_of_the_macro_that_is_missing() {
    let error = component(EMPTY_MODULE).unwrap_err();
    assert!(matches!(error, EncodeError::NoContract));
    assert!(error.to_string().contains("export_plugin!"), "{error}");
}

#[test]
fn a_missing_export_is_named() {
    let error = component(&module_claiming("export set-up: func();")).unwrap_err().to_string();
    assert!(error.contains("set-up"), "{error}");
}

#[test]
fn a_component_is_not_wrapped_again() {
    let done = component(&module_claiming("")).unwrap();
    assert!(matches!(component(&done), Err(EncodeError::AlreadyComponent)));
}

#[test]
fn garbage_and_cut_off_modules_are_refused() {
    for bytes in [&b"not wasm at all"[..], &b""[..], &module_claiming("")[..20]] {
        let error = component(bytes).unwrap_err();
        assert!(matches!(error, EncodeError::NotWasm(_)), "{bytes:?}: {error}");
    }
}
