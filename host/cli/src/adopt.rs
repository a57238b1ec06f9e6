//! `volhost adopt`: takes over a kubelet's root folder, once a person agrees.

use std::io;
use std::path::{Path, PathBuf};

use clap::Args;
use volhost_kernel::Kernel;
use volhost_kubelet_root::found::{Fate, Found};
use volhost_kubelet_root::{adopt, claim, look};
use volhost_volume_ops::layout;

use super::answer::is_yes;
use super::error::CliError;
use super::output::Output;
use volhost_table::{Cell, Colour, Table};

/// `adopt`.
#[derive(Debug, Args)]
pub(super) struct AdoptArguments {
    /// The kubelet's root folder
    #[arg(long, value_name = "DIR")]
    pub(super) kubelet_root: PathBuf,
    /// Print what was found, and change nothing
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Adopt without asking
    #[arg(short, long, conflicts_with = "dry_run")]
    pub(super) yes: bool,
}

/// Prints what a kubelet left, and takes it over.
///
/// # Errors
/// [`CliError::Failed`] if the folder cannot be taken over, or the answer is not yes; nothing was
/// changed then.
pub(super) fn run(arguments: &AdoptArguments, output: &mut Output) -> Result<(), CliError> {
    let root = std::path::absolute(&arguments.kubelet_root)
        .map_err(|source| CliError::File { path: arguments.kubelet_root.clone(), source })?;
    let failed = |error: &dyn std::fmt::Display| CliError::Failed(error.to_string());
    let kernel = volhost_process::linux_kernel();
    let folder = kernel.open_directory(&root).map_err(|error| failed(&error))?;
    if claim::kubelets_file(&kernel, &folder).map_err(|error| failed(&error))?.is_none() {
        let text = format!("{} is not a kubelet's root folder: it has none of the files of one", root.display());
        return Err(CliError::Failed(text));
    }
    let found = look::look(&kernel, &folder).map_err(|error| failed(&error))?;
    let rows: Vec<Vec<Cell>> = found.all().iter().map(row).collect();
    output.write(&Table::new(&["FOUND", "ACTION", "PATH", "REASON"], output.colour()).rows(&rows))?;
    check(&root, found.with(Fate::Blocks).count())?;
    if arguments.dry_run {
        return Ok(());
    }
    if !arguments.yes {
        output.flush()?;
        output.note(&format!("Adopt {}? No kubelet may use it from then on. [y/N]", root.display()));
        if !is_yes(io::stdin().lock())? {
            return Err(CliError::Failed("nothing was changed; --yes adopts without asking".to_owned()));
        }
    }
    let _lock = kernel.lock_root(&folder, layout::LOCK.as_ref()).map_err(|error| failed(&error))?;
    // A kubelet may have been started since.
    check(&root, 0)?;
    let found = look::look(&kernel, &folder).map_err(|error| failed(&error))?;
    check(&root, found.with(Fate::Blocks).count())?;
    adopt::adopt(&kernel, &folder, &found).map_err(|error| failed(&error))?;
    let root = root.display();
    output.line(&format!("{root} is adopted; start volhost on it: volhost run --root-dir {root}"))
}

/// Checks that no kubelet uses the folder, and that nothing in it blocks.
fn check(root: &Path, blocking: usize) -> Result<(), CliError> {
    if let Some(socket) = claim::running_kubelet(root) {
        let text = format!("a kubelet answers at {}: stop it first; nothing was changed", socket.display());
        return Err(CliError::Failed(text));
    }
    if blocking > 0 {
        let text = format!(
            "{blocking} of what was found cannot be taken over (ACTION is `blocks`, and REASON says what to do); nothing was changed"
        );
        return Err(CliError::Failed(text));
    }
    Ok(())
}

fn row(found: &Found) -> Vec<Cell> {
    let colour = match found.fate {
        Fate::Blocks => Some(Colour::Red),
        Fate::Adopt => Some(Colour::Green),
        Fate::Clean => Some(Colour::Yellow),
        Fate::Leave => None,
    };
    vec![
        Cell::new(&found.what),
        Cell::coloured(found.fate.word(), colour),
        Cell::new(found.path.to_string_lossy()),
        Cell::new(&found.why),
    ]
}
