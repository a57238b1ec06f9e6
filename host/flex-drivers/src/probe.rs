//! `init` of a driver by hand, without a daemon.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use thiserror::Error;
use volhost_model::driver_programs::DriverAnswer;

use crate::drivers::{FlexDrivers, Readiness};
use crate::folder::{self, ProgramError};
use crate::init::{InitError, init};
use crate::policy::DriverPolicies;

/// The most that is read of a driver's script, in bytes: ten times the longest known.
const SCRIPT_BYTES: u64 = 256 << 10;
/// The first bytes of a script.
const SCRIPT: &[u8] = b"#!";

/// A driver that has answered `init`.
#[derive(Debug, Clone, PartialEq)]
pub struct ProbedDriver {
    /// Its name: `vendor/driver`, or `driver`.
    pub name: String,
    /// Its answer.
    pub answer: DriverAnswer,
    /// Its text, if it is a script.
    pub script: Option<String>,
}

/// Why a driver was not probed.
#[derive(Debug, Error)]
pub enum ProbeError {
    /// The folder's name is no driver's.
    #[error("{folder}: a driver's folder is VENDOR~DRIVER")]
    FolderName {
        /// The folder.
        folder: PathBuf,
    },
    /// The program's name is no driver's.
    #[error("{program}: a driver's name is UTF-8, and does not begin with a dot")]
    Name {
        /// The program.
        program: PathBuf,
    },
    /// There is no such file.
    #[error("{path} does not exist")]
    NoFile {
        /// The path.
        path: PathBuf,
    },
    /// There is neither such a file nor such a driver.
    #[error("there is neither a file {driver} nor a driver of that name: {program} does not exist")]
    NoDriver {
        /// The words that name the driver.
        driver: PathBuf,
        /// The path of a driver of that name.
        program: PathBuf,
    },
    /// The file cannot be a driver's program.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// Its `init` failed.
    #[error("{driver}: {source}")]
    Init {
        /// The driver's name.
        driver: String,
        /// Why.
        #[source]
        source: InitError,
    },
}

/// Runs `init` of a driver, as the daemon does: `driver` is its program, its folder
/// (`vendor~driver`), or its name below `drivers`.
///
/// # Errors
/// [`ProbeError`].
pub fn probe(driver: &Path, drivers: &Path) -> Result<ProbedDriver, ProbeError> {
    let program = program_of(driver, drivers)?;
    let real = program.canonicalize().map_err(ProgramError::io(&program))?;
    // Links are followed within the folder above the driver's own, as in the folder of all drivers.
    let inside = real.parent().and_then(Path::parent).unwrap_or(Path::new("/"));
    folder::check_program(&real, inside)?;
    let name = folder::driver_at(&program).ok_or(ProbeError::Name { program })?;
    let alone = FlexDrivers::new(inside.to_owned(), DriverPolicies::default());
    alone.set(&name, &real, Readiness::Starting);
    match init(&alone, &name) {
        Ok(answer) => Ok(ProbedDriver { name, answer, script: script(&real) }),
        Err(source) => Err(ProbeError::Init { driver: name, source }),
    }
}

fn program_of(driver: &Path, drivers: &Path) -> Result<PathBuf, ProbeError> {
    if driver.is_dir() {
        let name = driver.canonicalize().ok().and_then(|folder| folder::name_at(&folder));
        let name = name.ok_or_else(|| ProbeError::FolderName { folder: driver.to_owned() })?;
        return Ok(driver.join(name.rsplit('/').next().unwrap_or(&name)));
    }
    if driver.is_file() {
        return Ok(driver.to_owned());
    }
    let name = driver.to_str().filter(|name| !name.starts_with(['/', '.']) && name.split('/').count() <= 2);
    let program = name.map(|name| folder::place_of(drivers, name));
    match program {
        Some(program) if program.exists() => Ok(program),
        Some(program) => Err(ProbeError::NoDriver { driver: driver.to_owned(), program }),
        None => Err(ProbeError::NoFile { path: driver.to_owned() }),
    }
}

/// A program's text, if it is one.
fn script(program: &Path) -> Option<String> {
    let mut text = Vec::new();
    File::open(program).ok()?.take(SCRIPT_BYTES).read_to_end(&mut text).ok()?;
    text.starts_with(SCRIPT).then(|| String::from_utf8_lossy(&text).into_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::process::Command;

    use super::*;

    fn install(folder: &Path, name: &str, script: &str) -> PathBuf {
        let (program, text) = (folder::place_of(folder, name), folder.join("text"));
        fs::write(&text, script).unwrap();
        // Another program writes the file: for a moment, a child that another test starts has every
        // file that this process has open, and a file that is open for writing cannot be run.
        let installed = Command::new("install").args(["-D", "-m", "755"]).args([&text, &program]).status().unwrap();
        assert!(installed.success(), "{}", program.display());
        program
    }

    const ANSWERS: &str =
        "#!/bin/sh\n[ \"$1\" = init ] && echo '{\"status\":\"Success\",\"capabilities\":{\"attach\":false}}'\n";

    #[test]
    fn a_driver_is_found_by_its_program_its_folder_and_its_name() {
        let drivers = tempfile::tempdir().unwrap();
        let program = install(drivers.path(), "acme/lun", ANSWERS);
        for driver in [program.as_path(), program.parent().unwrap(), Path::new("acme/lun")] {
            let probed = probe(driver, drivers.path()).unwrap();
            assert_eq!(probed.name, "acme/lun");
            assert_eq!(probed.answer["capabilities"]["attach"], false);
            assert_eq!(probed.script.as_deref(), Some(ANSWERS));
        }
        let plain = drivers.path().join("lun.sh");
        let copied = Command::new("cp").args([&program, &plain]).status().unwrap();
        assert!(copied.success(), "{}", plain.display());
        assert_eq!(probe(&plain, drivers.path()).unwrap().name, "lun.sh");
    }

    #[test]
    fn the_reason_why_a_driver_cannot_be_probed_is_named() {
        let drivers = tempfile::tempdir().unwrap();
        let fails = install(
            drivers.path(),
            "acme/fails",
            "#!/bin/sh\necho '{\"status\":\"Failure\",\"message\":\"no tools\"}'\n",
        );
        let silent = install(drivers.path(), "acme/silent", "#!/bin/sh\nexit 3\n");
        let plain = install(drivers.path(), "acme/plain", "");
        fs::set_permissions(&plain, fs::Permissions::from_mode(0o644)).unwrap();
        for (driver, said) in [
            (fails.as_path(), "no tools"),
            (silent.as_path(), "exited with 3 and answered nothing"),
            (plain.as_path(), "is not executable"),
            (Path::new("acme/none"), "acme~none/none does not exist"),
            (Path::new("/none"), "/none does not exist"),
            (drivers.path(), "VENDOR~DRIVER"),
        ] {
            let why = probe(driver, drivers.path()).unwrap_err().to_string();
            assert!(why.contains(said), "{}: {why}", driver.display());
        }
    }
}
