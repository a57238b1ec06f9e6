//! A crate on disk becomes a component in the plugin folder, with the compiler of this machine.

use std::fs;

use volhost_plugin_build::publish::Written;
use volhost_plugin_build::workspace::WorkspaceError;
use volhost_plugin_build::{Error, Request, build_plugins};
use wit_component::{StringEncoding, metadata};
use wit_parser::Resolve;

/// The output of an export macro: the contract in a section of its own. `contract.bin`
/// lies beside it.
const WITH_CONTRACT: &str = r#"
#[unsafe(link_section = "component-type:w")]
#[used]
pub static CONTRACT: [u8; include_bytes!("contract.bin").len()] = *include_bytes!("contract.bin");
#[unsafe(export_name = "answer")]
pub extern "C" fn answer() -> u32 { VALUE }
"#;

/// A crate in a folder of its own, without dependencies (so cargo needs no network). Each test's
/// has a name of its own: they may share a target folder that the environment names.
fn crate_with(name: &str, source: &str) -> (tempfile::TempDir, Request) {
    let folder = tempfile::tempdir().unwrap();
    let source_folder = folder.path().join("src");
    fs::create_dir(&source_folder).unwrap();
    fs::write(
        folder.path().join("Cargo.toml"),
        format!(
            "[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\
             [lib]\ncrate-type = [\"cdylib\", \"rlib\"]\n[workspace]\n"
        ),
    )
    .unwrap();
    let mut resolve = Resolve::default();
    let package = resolve.push_str("t.wit", "package t:t; world w { export answer: func() -> u32; }").unwrap();
    let world = resolve.select_world(&[package], Some("w")).unwrap();
    let contract = metadata::encode(&resolve, world, StringEncoding::UTF8, None).unwrap();
    fs::write(source_folder.join("contract.bin"), contract).unwrap();
    fs::write(source_folder.join("lib.rs"), source).unwrap();
    let request = Request {
        manifest: Some(folder.path().join("Cargo.toml")),
        out: Some(folder.path().join("out")),
        ..Request::default()
    };
    (folder, request)
}

#[test]
fn a_plugin_crate_becomes_a_component_and_only_changes_rewrite_it() {
    let (folder, request) = crate_with("tiny-plugin", &format!("const VALUE: u32 = 1;{WITH_CONTRACT}"));
    let built = build_plugins(&request).unwrap().remove(0);
    assert_eq!((built.name.as_str(), built.written), ("tiny-plugin", Written::Changed));
    assert_eq!(built.path, folder.path().join("out/tiny-plugin.wasm"));
    let bytes = fs::read(&built.path).unwrap();
    assert!(wasmparser::Parser::is_component(&bytes));
    assert_eq!(bytes.len(), built.size);

    assert_eq!(build_plugins(&request).unwrap()[0].written, Written::Unchanged);

    fs::write(folder.path().join("src/lib.rs"), format!("const VALUE: u32 = 2;{WITH_CONTRACT}")).unwrap();
    assert_eq!(build_plugins(&request).unwrap()[0].written, Written::Changed);
}

#[test]
fn a_crate_that_is_not_a_plugin_leaves_the_folder_alone() {
    let (folder, request) = crate_with("no-plugin", "pub fn f() {}");
    let error = build_plugins(&request).unwrap_err();
    assert!(matches!(&error, Error::Encode { name, .. } if name == "no-plugin"), "{error}");
    assert!(!folder.path().join("out").exists());
}

#[test]
fn an_unknown_crate_is_refused_before_anything_is_compiled() {
    let (folder, mut request) = crate_with("no-rust", "this is not Rust");
    request.crates = vec!["tiny_plugin".to_owned()];
    let error = build_plugins(&request).unwrap_err();
    assert!(matches!(error, Error::Workspace(WorkspaceError::NoSuchCrate { .. })), "{error}");
    assert!(!folder.path().join("target").exists());
}
