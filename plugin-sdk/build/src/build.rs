//! One cargo call that compiles plugin crates to core modules.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use crate::TARGET;
use crate::environment;
use crate::toolchain::Toolchain;
use crate::workspace::Crate;

/// The name of the cargo profile plugins are built with.
const PROFILE: &str = "plugin";

/// That profile: small code, and a panic is a trap that the host reports. Passed on the command
/// line, so that a plugin outside volhost's own workspace needs no copy of it.
const PROFILE_SETTINGS: &[&str] = &[
    "profile.plugin.inherits='release'",
    "profile.plugin.opt-level='s'",
    "profile.plugin.lto=true",
    "profile.plugin.codegen-units=1",
    "profile.plugin.panic='abort'",
    "profile.plugin.strip=true",
];

/// The reasons for which compiling failed.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// Cargo could not be started.
    #[error("could not start {}", cargo.display())]
    Start {
        /// The cargo that was tried.
        cargo: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The code does not compile. Cargo has written the reason to standard error.
    #[error("cargo could not compile {crates} ({status}); its messages are above")]
    Compile {
        /// The crates of the call.
        crates: String,
        /// How cargo ended.
        status: ExitStatus,
    },
    /// Cargo succeeded and yet the module is not where cargo puts it.
    #[error("cargo built '{name}' but the core module {} can't be read", path.display())]
    Module {
        /// The crate.
        name: String,
        /// Where the module should be.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
}

/// A compiled crate, not yet a component.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CoreModule {
    /// The crate's name, dashes kept.
    pub name: String,
    /// The WebAssembly core module with its contract in a custom section.
    pub bytes: Vec<u8>,
}

/// Compiles `crates` in one cargo call, below `target_dir`, with progress and compiler messages on
/// standard error.
///
/// `target_dir` should not be the folder of native builds: different flags in one folder make cargo
/// rebuild shared dependencies at every switch.
///
/// # Errors
/// When cargo does not start, the code does not compile, or a module is missing afterwards.
pub fn compile(
    toolchain: &Toolchain,
    crates: &[Crate],
    manifest: Option<&Path>,
    target_dir: &Path,
) -> Result<Vec<CoreModule>, BuildError> {
    let mut command = cargo_build(toolchain, crates, manifest, target_dir);
    let status = command.status().map_err(|source| BuildError::Start { cargo: toolchain.cargo.clone(), source })?;
    if !status.success() {
        let names: Vec<_> = crates.iter().map(|one| one.name.as_str()).collect();
        return Err(BuildError::Compile { crates: names.join(", "), status });
    }
    crates.iter().map(|one| read_module(one, target_dir)).collect()
}

fn cargo_build(toolchain: &Toolchain, crates: &[Crate], manifest: Option<&Path>, target_dir: &Path) -> Command {
    let mut command = Command::new(&toolchain.cargo);
    environment::scrub(&mut command);
    toolchain.apply(&mut command);
    command.args(["build", "--profile", PROFILE, "--target", TARGET]).arg("--target-dir").arg(target_dir);
    for setting in PROFILE_SETTINGS {
        command.args(["--config", setting]);
    }
    if let Some(manifest) = manifest {
        command.arg("--manifest-path").arg(manifest);
    }
    for one in crates {
        command.args(["-p", &one.name]);
    }
    // The library alone: a plugin's binaries and examples, if any, are native tools.
    command.arg("--lib").stdin(Stdio::null());
    command
}

fn read_module(one: &Crate, target_dir: &Path) -> Result<CoreModule, BuildError> {
    // rustc names the file for the library, which cannot contain a dash.
    let file = one.cdylib.as_deref().unwrap_or(&one.name).replace('-', "_");
    let path = target_dir.join(TARGET).join(PROFILE).join(format!("{file}.wasm"));
    match std::fs::read(&path) {
        Ok(bytes) => Ok(CoreModule { name: one.name.clone(), bytes }),
        Err(source) => Err(BuildError::Module { name: one.name.clone(), path, source }),
    }
}
