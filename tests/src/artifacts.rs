//! Where the things under test were built: `make test` builds them before it runs the tests.

use std::path::{Path, PathBuf};

use volhost_runtime::{GrantPolicy, SHIPPED_LIST, ShippedPlugins};

/// The root of the checkout.
pub fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests' folder lies in the workspace").to_owned()
}

/// The command line's binary: the one that `VOLHOST_BIN` names, or the one beside the tests' own.
/// `volhostd` is beside it.
pub fn volhost() -> PathBuf {
    if let Some(named) = std::env::var_os("VOLHOST_BIN") {
        return PathBuf::from(named);
    }
    let test = std::env::current_exe().expect("the test has a path");
    // target/PROFILE/deps/TEST, or target/PROFILE/BIN
    let mut folders = test.ancestors().skip(1).take(2);
    let is_complete = |folder: &&Path| ["volhost", "volhostd"].iter().all(|name| folder.join(name).is_file());
    let folder = folders.find(is_complete).unwrap_or_else(|| {
        panic!(
            "volhost and volhostd are not beside {}; run `make test`, or `cargo build -p volhost -p volhostd` first",
            test.display()
        )
    });
    folder.join("volhost")
}

/// The daemon's binary, beside [`volhost`].
pub fn volhostd() -> PathBuf {
    volhost().with_file_name("volhostd")
}

/// A built plugin, such as `empty-dir`.
pub fn plugin(name: &str) -> PathBuf {
    built("VOLHOST_PLUGIN_OUT", "target/plugins", name, "make plugins")
}

/// A built plugin that only tests load, such as `fixture-misbehaving`.
pub fn fixture(name: &str) -> PathBuf {
    built("VOLHOST_FIXTURE_OUT", "target/fixtures", name, "make fixtures")
}

/// The list of the plugins that come with volhost.
pub fn shipped_list() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace().join("target"), PathBuf::from);
    let list = target.join(SHIPPED_LIST);
    assert!(list.is_file(), "{} is missing; run `make plugins`", list.display());
    list
}

/// What the plugins that come with volhost may do, whose files are those that the build has listed.
pub fn builtin_grants() -> GrantPolicy {
    GrantPolicy::builtin(ShippedPlugins::Listed(vec![shipped_list()]))
}

fn built(variable: &str, folder: &str, name: &str, command: &str) -> PathBuf {
    let folder = std::env::var_os(variable).map_or_else(|| workspace().join(folder), PathBuf::from);
    let path = folder.join(format!("{name}.wasm"));
    assert!(path.is_file(), "{} is not built; run `{command}`", path.display());
    path
}

/// Where `deploy/setup.sh --tests` keeps peers of the tests that no package has.
///
/// # Panics
/// When neither `VOLHOST_CI_CACHE` nor `HOME` is set.
pub fn tool_cache() -> PathBuf {
    std::env::var_os("VOLHOST_CI_CACHE").map_or_else(
        || PathBuf::from(std::env::var_os("HOME").expect("there is a home")).join(".cache/volhost-ci"),
        PathBuf::from,
    )
}
