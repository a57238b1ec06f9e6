//! The imports, exports and stamp of the built components: an operator relies on the imports.
//!
//! Needs `make plugins fixtures`, as `make test` does.

use std::path::{Path, PathBuf};

use wasmparser::{Parser, Payload};

/// The size limit of a plugin: a larger one has linked something it should not have.
const LARGEST: usize = 120 * 1024;

#[derive(Debug, Default)]
struct Component {
    size: usize,
    imports: Vec<String>,
    exports: Vec<String>,
    abi: Option<String>,
}

fn read(variable: &str, folder: &str, name: &str, command: &str) -> Component {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let folder = std::env::var_os(variable).map_or_else(|| workspace.join("target").join(folder), PathBuf::from);
    let path = workspace.join(folder).join(name).with_extension("wasm");
    let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}; run `{command}`", path.display()));

    let mut component = Component { size: bytes.len(), ..Component::default() };
    let mut depth = 0;
    for payload in Parser::new(0).parse_all(&bytes) {
        match payload.unwrap() {
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
            Payload::End(_) => depth -= 1,
            Payload::ComponentImportSection(section) if depth == 0 => {
                component.imports.extend(section.into_iter().map(|import| import.unwrap().name.name.to_owned()));
            }
            Payload::ComponentExportSection(section) if depth == 0 => {
                component.exports.extend(section.into_iter().map(|export| export.unwrap().name.name.to_owned()));
            }
            Payload::CustomSection(section) if section.name() == "volhost:abi" => {
                component.abi = Some(String::from_utf8(section.data().to_owned()).unwrap());
            }
            _ => {}
        }
    }
    component.imports.sort();
    component.exports.sort();
    component
}

fn plugin(name: &str) -> Component {
    read("VOLHOST_PLUGIN_OUT", "plugins", name, "make plugins")
}

fn fixture(name: &str) -> Component {
    read("VOLHOST_FIXTURE_OUT", "fixtures", name, "make fixtures")
}

fn interfaces(names: &[&str]) -> Vec<String> {
    let mut names: Vec<String> = names.iter().map(|name| format!("volhost:plugin/{name}@0.1.0")).collect();
    names.sort();
    names
}

#[test]
fn a_plugin_imports_what_it_calls_and_nothing_else() {
    for (name, asks_for) in [
        ("empty-dir", &["events", "huge-pages", "log", "mounts", "node", "quotas", "tmpfs", "types", "volumes"][..]),
        ("host-path", &["host-paths", "log", "mounts", "types", "volumes"]),
        (
            "local",
            &[
                "block-devices",
                "devices",
                "events",
                "filesystems",
                "host-paths",
                "id-maps",
                "log",
                "mounts",
                "node",
                "types",
                "volumes",
            ],
        ),
        ("config-map", &["config-maps", "files", "log", "mounts", "types", "volumes"]),
        (
            "csi",
            &[
                "csi-driver-objects",
                "devices",
                "driver-mounts",
                "grpc",
                "log",
                "mounts",
                "node",
                "provisioning",
                "provisioning-calls",
                "secrets",
                "service-account-tokens",
                "types",
                "volumes",
            ],
        ),
        ("secret", &["events", "files", "log", "mounts", "secrets", "tmpfs", "types", "volumes"]),
        ("downward-api", &["files", "log", "mounts", "types", "volumes"]),
        ("git-repo", &["log", "mounts", "types", "volumes"]),
        (
            "overlay",
            &["devices", "host-paths", "log", "mounts", "node", "overlays", "pod-volumes", "tmpfs", "types", "volumes"],
        ),
        (
            "nfs",
            &[
                "events",
                "log",
                "mounts",
                "network-mounts",
                "provisioning",
                "settings",
                "share-folders",
                "types",
                "volumes",
            ],
        ),
        (
            "iscsi",
            &[
                "devices",
                "events",
                "filesystems",
                "iscsi-sessions",
                "log",
                "mounts",
                "node",
                "secrets",
                "types",
                "volumes",
            ],
        ),
        ("fc", &["devices", "events", "fc-devices", "filesystems", "log", "mounts", "node", "types", "volumes"]),
        ("sshfs", &["fuse-servers", "log", "mounts", "secrets", "types", "volumes"]),
        ("cifs", &["log", "mounts", "network-mounts", "secrets", "types", "volumes"]),
        ("s3", &["fuse-servers", "log", "mounts", "secrets", "types", "volumes"]),
        ("tmpfs", &["devices", "log", "mounts", "tmpfs", "types", "volumes"]),
        ("image", &["events", "log", "mounts", "oci-images", "types", "volumes"]),
        ("image-file", &["devices", "id-maps", "image-files", "log", "mounts", "types", "volumes"]),
        (
            "loop",
            &["devices", "filesystems", "id-maps", "log", "loop-devices", "mounts", "provisioning", "types", "volumes"],
        ),
    ] {
        assert_eq!(plugin(name).imports, interfaces(asks_for), "{name}");
    }
    assert!(!fixture("fixture-well-behaved").imports.contains(&interfaces(&["host-paths"])[0]));
}

#[test]
fn a_plugin_exports_the_contract_and_no_capability_it_lacks() {
    for component in [plugin("empty-dir"), plugin("host-path"), fixture("fixture-misbehaving")] {
        assert_eq!(component.exports, interfaces(&["plugin", "publisher"]));
    }
    let of_devices = interfaces(&["block-mapper", "expander", "plugin", "publisher", "stager"]);
    for name in ["fc", "iscsi", "local"] {
        assert_eq!(plugin(name).exports, of_devices, "{name}");
    }
    assert_eq!(plugin("nfs").exports, interfaces(&["controller", "plugin", "publisher"]));
    let all = interfaces(&[
        "attacher",
        "block-mapper",
        "controller",
        "expander",
        "group-snapshotter",
        "modifier",
        "plugin",
        "publisher",
        "snapshotter",
        "stager",
        "stats",
    ]);
    assert_eq!(plugin("loop").exports, all);
}

#[test]
fn a_plugin_names_the_contract_and_sdk_it_was_built_with() {
    assert_eq!(plugin("empty-dir").abi.as_deref(), Some(volhost_plugin_sdk::abi::STAMP));
}

#[test]
fn a_plugin_is_small() {
    for name in ["empty-dir", "host-path", "local", "config-map", "secret", "downward-api", "projected", "git-repo"] {
        let size = plugin(name).size;
        assert!(size < LARGEST, "{name} has {size} bytes");
    }
    // Twice as many exports, half as much again.
    for name in ["overlay", "image-file"] {
        let size = plugin(name).size;
        assert!(size < LARGEST * 3 / 2, "{name} has {size} bytes");
    }
    // Every export that there is but one.
    let size = plugin("loop").size;
    assert!(size < LARGEST * 2, "loop has {size} bytes");
}

#[test]
fn fixtures_are_wrong_in_the_way_they_are_named_for() {
    let foreign = |component: &Component| component.imports.iter().any(|import| import.starts_with("wasi:"));
    assert!(foreign(&fixture("fixture-wants-wasi")));
    assert!(fixture("fixture-ungranted").imports.contains(&interfaces(&["host-paths"])[0]));
    assert!(fixture("fixture-newer-abi").exports.contains(&"volhost:plugin/publisher@0.9.0".to_owned()));
    assert_eq!(fixture("fixture-wrong-world").exports, ["fixture:wrong-world/greeter@1.0.0"]);
    assert_eq!(fixture("fixture-wrong-shape").exports, interfaces(&["plugin", "publisher"]));
    assert!(fixture("fixture-wrong-shape").imports.is_empty(), "it takes no handle");
}
