//! The volume's storage in the scratch file system: what the case file has made before a case.

use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use volhost_kernel::{Kernel, LinuxKernel};
use volhost_model::quantity;
use volhost_process::Program;

use crate::case_error::CaseError;
use crate::case_file::SetUpFile;

/// Where programs are.
const PROGRAM_FOLDERS: [&str; 4] = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// Removes everything in the scratch file system except the host's root folder, and makes what the
/// case file names. Nothing may be mounted from there.
pub(crate) fn make_anew(
    kernel: &LinuxKernel,
    scratch: &Path,
    root: &str,
    files: &[SetUpFile],
) -> Result<(), CaseError> {
    let folder = kernel.open_directory(scratch)?;
    for name in kernel.names(&folder)? {
        if name == root {
            continue;
        }
        let is_folder = scratch.join(&name).symlink_metadata().is_ok_and(|found| found.is_dir());
        let removed = if is_folder { kernel.delete_folder(&folder, &name) } else { kernel.remove_file(&folder, &name) };
        removed?;
    }
    for file in files {
        make(scratch, file)?;
    }
    Ok(())
}

fn make(scratch: &Path, file: &SetUpFile) -> Result<(), CaseError> {
    let said = |path: &Path, source: std::io::Error| CaseError::Make { path: path.to_owned(), source };
    if let Some(words) = &file.run {
        return run(scratch, words).map(drop);
    }
    if let Some(path) = &file.folder {
        fs::create_dir_all(path).map_err(|error| said(path, error))?;
        return set_mode(path, file.mode).map_err(|error| said(path, error));
    }
    let Some(path) = &file.file else { return Ok(()) };
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(|error| said(parent, error))?;
    }
    fs::write(path, &file.content).map_err(|error| said(path, error))?;
    if let Some(size) = &file.size {
        let bytes = quantity::parse_bytes(size)?;
        let sized = fs::File::options().write(true).open(path).and_then(|file| file.set_len(bytes));
        sized.map_err(|error| said(path, error))?;
    }
    set_mode(path, file.mode).map_err(|error| said(path, error))
}

fn set_mode(path: &Path, mode: Option<u32>) -> std::io::Result<()> {
    mode.map_or(Ok(()), |mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)))
}

/// Runs a program of the case file to its end. Returns its output.
pub(crate) fn run(scratch: &Path, words: &[String]) -> Result<String, CaseError> {
    let Some((name, arguments)) = words.split_first() else { return Err(CaseError::EmptyCommand) };
    let mut paths = PROGRAM_FOLDERS.iter().map(|folder| PathBuf::from(folder).join(name));
    let path = paths.find(|path| path.exists()).ok_or_else(|| CaseError::NoProgram(name.clone()))?;
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (command, scratch) = (words.join(" "), scratch.to_owned());
    let program = Program::new(path).with_arguments(arguments).with_variable("LC_ALL", "C");
    let started = program.start();
    let mut child = match started {
        Ok(child) => child,
        Err(source) => return Err(CaseError::Run { command, scratch, source: source.into() }),
    };
    drop(child.stdin.take());
    let mut said = String::new();
    if let Some(mut out) = child.stdout.take() {
        let _ = out.read_to_string(&mut said);
    }
    if let Some(mut complaints) = child.stderr.take() {
        let _ = complaints.read_to_string(&mut said);
    }
    match child.wait() {
        Ok(ended) if ended.success() => Ok(said),
        Ok(_) => Err(CaseError::Program { command, scratch, output: said.trim().to_owned() }),
        Err(source) => Err(CaseError::Run { command, scratch, source: source.into() }),
    }
}
