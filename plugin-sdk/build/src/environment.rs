//! The environment of the cargo that a build starts.
//!
//! We may ourselves run under `cargo run`, `cargo test` or `cargo clippy`, whose variables describe
//! *that* build: flags for the host's processor, a wrapper that only checks, the crate being built.
//! Inherited, they would break the plugin's build or, worse, make it rebuild everything at each
//! call.

use std::ffi::{OsStr, OsString};
use std::process::Command;

/// Variables of another cargo or rustc call that never fit a plugin's build.
const NAMES: &[&str] = &[
    // Flags and targets chosen for the host.
    "CARGO_BUILD_RUSTFLAGS",
    "CARGO_BUILD_TARGET",
    "CARGO_BUILD_TARGET_DIR",
    "CARGO_ENCODED_RUSTFLAGS",
    "CARGO_TARGET_DIR",
    "RUSTFLAGS",
    // clippy-driver and friends, which check instead of compiling.
    "CLIPPY_ARGS",
    "RUSTC_WORKSPACE_WRAPPER",
    // The crate that an outer cargo is building or running.
    "CARGO",
    "CARGO_BIN_NAME",
    "CARGO_CRATE_NAME",
    "CARGO_MANIFEST_DIR",
    "CARGO_MANIFEST_PATH",
    "CARGO_PRIMARY_PACKAGE",
    "OUT_DIR",
    "TARGET",
    // The toolchain is chosen by path, see `Toolchain`.
    "RUSTC",
    "RUSTDOC",
];

/// Families of such variables, by how their names begin.
const PREFIXES: &[&str] = &["CARGO_BIN_EXE_", "CARGO_CFG_", "CARGO_FEATURE_", "CARGO_PKG_", "DEP_"];

/// Removes from `command`'s environment what another cargo call left in ours.
pub(crate) fn scrub(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        if is_left_over(&name) {
            command.env_remove(name);
        }
    }
}

/// `name` if it is set and not empty.
pub(crate) fn value_of(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

fn is_left_over(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else {
        return false;
    };
    NAMES.contains(&name) || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variables_of_an_outer_build_are_left_behind() {
        for name in ["RUSTFLAGS", "CARGO_PKG_NAME", "CARGO_TARGET_DIR", "RUSTC_WORKSPACE_WRAPPER", "DEP_Z_ROOT"] {
            assert!(is_left_over(OsStr::new(name)), "{name} would reach the plugin's build");
        }
    }

    #[test]
    fn the_users_settings_for_every_cargo_are_kept() {
        for name in
            ["PATH", "HOME", "CARGO_HOME", "CARGO_NET_OFFLINE", "CARGO_HTTP_PROXY", "RUSTUP_TOOLCHAIN", "RUSTC_WRAPPER"]
        {
            assert!(!is_left_over(OsStr::new(name)), "{name} would be lost");
        }
    }
}
