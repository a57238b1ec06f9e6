//! Modules become components, or are refused with a useful error.

use volhost_plugin_build::encode::{EncodeError, component};
use volhost_plugin_build::foreign::{self, ForeignError};
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
fn the_error_for_a_module_without_a_contract_names_the_missing_macro() {
    let error = component(EMPTY_MODULE).unwrap_err();
    assert!(matches!(error, EncodeError::NoContract));
    assert!(error.to_string().contains("export_plugin!"), "{error}");
}

#[test]
fn a_missing_export_is_named() {
    let error = component(&module_claiming("export publish: func();")).unwrap_err().to_string();
    assert!(error.contains("publish"), "{error}");
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

/// A folder with `text` as its WIT.
fn wit(text: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("world.wit"), format!("package t:t;\n{text}")).unwrap();
    folder
}

#[test]
fn a_module_of_another_language_gets_the_contract_from_its_wit() {
    let module = wat::parse_str(r#"(module (func (export "ready")))"#).unwrap();
    let wit = wit("world w { export ready: func(); }");
    let bytes = foreign::component(&module, wit.path(), None).unwrap();
    assert!(wasmparser::Parser::is_component(&bytes));
    assert_eq!(bytes, foreign::component(&module, wit.path(), Some("w")).unwrap());
    assert!(matches!(foreign::component(&bytes, wit.path(), None), Err(ForeignError::AlreadyComponent)));
}

#[test]
fn wasi_preview_1_becomes_wasi_0_2() {
    let module = wat::parse_str(
        r#"(module
            (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
            (memory (export "memory") 1)
            (func (export "ready") (call $exit (i32.const 1))))"#,
    )
    .unwrap();
    let wit = wit("world w { export ready: func(); }");
    let bytes = foreign::component(&module, wit.path(), None).unwrap();
    let text = imports_of(&bytes);
    assert!(text.iter().any(|name| name.starts_with("wasi:cli/exit@0.2.")), "{text:?}");
}

/// The imports of a component.
fn imports_of(component: &[u8]) -> Vec<String> {
    let mut names = Vec::new();
    for payload in wasmparser::Parser::new(0).parse_all(component) {
        if let wasmparser::Payload::ComponentImportSection(section) = payload.unwrap() {
            names.extend(section.into_iter().map(|import| import.unwrap().name.name.to_owned()));
        }
    }
    names
}

#[test]
fn the_error_names_what_a_foreign_module_or_its_wit_lacks() {
    let module = wat::parse_str("(module)").unwrap();
    let refused = |text: &str, world| {
        let wit = wit(text);
        foreign::component(&module, wit.path(), world).unwrap_err()
    };
    let missing = refused("world w { export ready: func(); }", None);
    assert!(matches!(&missing, ForeignError::Mismatch { message } if message.contains("ready")), "{missing}");
    let worlds = refused("world a {} world b {}", None);
    assert!(matches!(&worlds, ForeignError::World { message, .. } if message.contains("world")), "{worlds}");
    let no_world = refused("world a {}", Some("z"));
    assert!(matches!(&no_world, ForeignError::World { message, .. } if message.contains('z')), "{no_world}");
    let broken = refused("world w {", None);
    assert!(matches!(&broken, ForeignError::Wit { message, .. } if message.contains("world.wit")), "{broken}");
    assert!(matches!(
        foreign::component(b"\0asm\x01\0\0\0\x01", wit("world w {}").path(), None),
        Err(ForeignError::NotWasm(_))
    ));
}
