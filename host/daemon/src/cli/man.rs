//! `volhost man`.

use std::fs;
use std::path::Path;

use super::arguments;
use super::error::CliError;
use super::output::Output;

/// Prints volhost(1), or writes all pages into a folder, which is made if it is missing.
pub(super) fn write(folder: Option<&Path>, output: &mut Output) -> Result<(), CliError> {
    let Some(folder) = folder else {
        let mut page = Vec::new();
        clap_mangen::Man::new(arguments::command()).render(&mut page)?;
        return output.write_bytes(&page);
    };
    let failed = |source| CliError::File { path: folder.to_path_buf(), source };
    fs::create_dir_all(folder).map_err(failed)?;
    clap_mangen::generate_to(arguments::command(), folder).map_err(failed)
}
