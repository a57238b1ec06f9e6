//! The contract as a package of WIT in a registry, by wkg, the tool of the Bytecode Alliance.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use volhost_tests::artifacts::workspace;
use volhost_tests::registry::Registry;
use wit_parser::{Resolve, WorldKey};

/// What `deploy/setup.sh --tests` installs.
fn wkg() -> PathBuf {
    let setup = fs::read_to_string(workspace().join("deploy/setup.sh")).unwrap();
    let version = setup.lines().find_map(|line| line.strip_prefix("WKG=")).unwrap();
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap()).join(".cache/volhost-ci");
    let cache = std::env::var_os("VOLHOST_CI_CACHE").map_or_else(home, PathBuf::from);
    cache.join(format!("wkg-{version}/bin/wkg"))
}

/// Runs wkg in a folder, with a configuration and a cache of the test's own.
fn run(config: &Path, folder: &Path, words: &[&str]) {
    let mut command = Command::new(wkg());
    command.args(words).current_dir(folder).env("WKG_CONFIG_FILE", config).env("WKG_CACHE_DIR", folder.join("cache"));
    let ran = command.output().expect("wkg runs (deploy/setup.sh --tests)");
    let said = [ran.stdout, ran.stderr].concat();
    assert!(ran.status.success(), "wkg {words:?}: {}", String::from_utf8_lossy(&said));
}

#[test]
fn a_stranger_gets_the_contract_from_a_registry() {
    let registry = Registry::plain();
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("registries.toml");
    let address = registry.address();
    let text = format!(
        "[namespace_registries.volhost]\nregistry = \"{address}\"\nmetadata = {{ preferredProtocol = \"oci\", oci = {{ registry = \"{address}\", namespacePrefix = \"wit/\" }} }}\n\n[registry.\"{address}\".oci]\nprotocol = \"http\"\n"
    );
    fs::write(&config, text).unwrap();

    let ours = folder.path().join("ours");
    fs::create_dir_all(ours.join("wit")).unwrap();
    for file in fs::read_dir(workspace().join("wit")).unwrap().map(|entry| entry.unwrap().path()) {
        if file.extension().is_some_and(|extension| extension == "wit") {
            fs::copy(&file, ours.join("wit").join(file.file_name().unwrap())).unwrap();
        }
    }
    run(&config, &ours, &["build", "--output", "contract.wasm"]);
    run(&config, &ours, &["publish", "contract.wasm"]);

    // The world of the examples, in a folder that has nothing else.
    let theirs = folder.path().join("theirs");
    fs::create_dir_all(theirs.join("wit")).unwrap();
    fs::copy(workspace().join("examples/plugins/wit/world.wit"), theirs.join("wit/world.wit")).unwrap();
    run(&config, &theirs, &["fetch"]);
    assert!(fs::read_to_string(theirs.join("wkg.lock")).unwrap().contains("volhost:plugin"));
    run(&config, &theirs, &["get", "volhost:plugin@0.1.0", "--output", "./plugin.wit"]);
    assert!(fs::read_to_string(theirs.join("plugin.wit")).unwrap().contains("interface publisher"));

    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_dir(theirs.join("wit")).unwrap();
    let world = resolve.select_world(&[package], Some("scratch")).unwrap();
    let imports: Vec<String> =
        resolve.worlds[world].imports.keys().map(|key: &WorldKey| resolve.name_world_key(key)).collect();
    assert!(imports.contains(&"volhost:plugin/tmpfs@0.1.0".to_owned()), "{imports:?}");
}
