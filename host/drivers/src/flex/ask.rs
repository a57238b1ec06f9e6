//! A driver asked by hand what it can do, without a daemon.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use volhost_model::driver_programs::DriverAnswer;

use super::{DriverPolicies, FlexDrivers, Standing, folder, watch};

/// The most that is read of a driver's script, in bytes; the longest known have a tenth.
const SCRIPT_BYTES: u64 = 256 << 10;
/// How a script begins.
const SCRIPT: &[u8] = b"#!";

/// A driver that has answered.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    /// Its name: `vendor/driver`, or `driver`.
    pub name: String,
    /// What it answered to `init`.
    pub answer: DriverAnswer,
    /// Its text, if it is a script.
    pub script: Option<String>,
}

/// Runs `init` of a driver, as the daemon does: `driver` is its program, its folder (`vendor~driver`), or its name below `drivers`.
///
/// # Errors
/// In words for the user: that there is no such driver, that it can be none, or how its `init` failed.
pub fn ask(driver: &Path, drivers: &Path) -> Result<Asked, String> {
    let program = program_of(driver, drivers)?;
    let real = program.canonicalize().map_err(|error| format!("{}: {error}", program.display()))?;
    // Links are followed within the folder that holds the driver's own, as in the folder of all drivers.
    let inside = real.parent().and_then(Path::parent).unwrap_or(Path::new("/"));
    folder::look(&real, inside)?;
    let name = folder::driver_at(&program)
        .ok_or_else(|| format!("{}: a driver's name is UTF-8, and does not begin with a dot", program.display()))?;
    let alone = FlexDrivers::new(inside.to_owned(), DriverPolicies::default());
    alone.keep(&name, &real, Standing::Starting);
    let answer = watch::init(&alone, &name).map_err(|why| format!("{name}: {why}"))?;
    Ok(Asked { name, answer, script: script(&real) })
}

fn program_of(driver: &Path, drivers: &Path) -> Result<PathBuf, String> {
    if driver.is_dir() {
        let name = driver.canonicalize().ok().and_then(|folder| folder::name_at(&folder));
        let name = name.ok_or_else(|| format!("{}: a driver's folder is VENDOR~DRIVER", driver.display()))?;
        return Ok(driver.join(name.rsplit('/').next().unwrap_or(&name)));
    }
    if driver.is_file() {
        return Ok(driver.to_owned());
    }
    let name = driver.to_str().filter(|name| !name.starts_with(['/', '.']) && name.split('/').count() <= 2);
    let program = name.map(|name| folder::place_of(drivers, name));
    match program {
        Some(program) if program.exists() => Ok(program),
        Some(program) => Err(format!(
            "there is neither a file {} nor a driver of that name: {} does not exist",
            driver.display(),
            program.display()
        )),
        None => Err(format!("{} does not exist", driver.display())),
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
        // Another program writes the file: a child that another test starts has what this process has
        // open for a moment, and a file that is open for writing cannot be run.
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
            let asked = ask(driver, drivers.path()).unwrap();
            assert_eq!(asked.name, "acme/lun");
            assert_eq!(asked.answer["capabilities"]["attach"], false);
            assert_eq!(asked.script.as_deref(), Some(ANSWERS));
        }
        let plain = drivers.path().join("lun.sh");
        let copied = Command::new("cp").args([&program, &plain]).status().unwrap();
        assert!(copied.success(), "{}", plain.display());
        assert_eq!(ask(&plain, drivers.path()).unwrap().name, "lun.sh");
    }

    #[test]
    fn what_can_not_be_asked_is_said() {
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
            let why = ask(driver, drivers.path()).unwrap_err();
            assert!(why.contains(said), "{}: {why}", driver.display());
        }
    }
}
