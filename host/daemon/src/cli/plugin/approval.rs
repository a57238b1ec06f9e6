//! Approving a file: the daemon knows which one waits because its content is not the one that has its plugin's grant.

use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use volhost::api::pb::Kind;
use volhost::plugins::APPROVAL;

use super::read_plugin;
use crate::cli::arguments::GrantArguments;
use crate::cli::client::Client;
use crate::cli::error::CliError;
use crate::cli::list::{self, Query, View};
use crate::cli::output::Output;

/// The arguments, with the digest of the file that waits for approval under this plugin's name. Without a daemon, or when the user names a
/// digest, they stay as they are.
pub(super) fn added(
    arguments: &GrantArguments,
    socket: &Path,
    output: &mut Output,
) -> Result<GrantArguments, CliError> {
    let mut arguments = arguments.clone();
    if arguments.remove || !arguments.sha256.is_empty() {
        return Ok(arguments);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(CliError::Runtime)?;
    // Grants are edited where no daemon runs, too.
    let Ok(waiting) = runtime.block_on(waiting(&arguments.plugin, socket)) else { return Ok(arguments) };
    match waiting.as_slice() {
        [] => {}
        [file] => {
            let digest: String = Sha256::digest(read_plugin(file)?).iter().map(|byte| format!("{byte:02x}")).collect();
            output.line(&format!(
                "{} waits for approval: its content, sha256 {digest}, gets the grant",
                file.display()
            ))?;
            arguments.sha256.push(digest);
        }
        several => {
            let files: Vec<String> = several.iter().map(|file| file.display().to_string()).collect();
            return Err(CliError::Failed(format!(
                "several files of plugin {} wait for approval: {}; name the one that is to have the grant by --sha256",
                arguments.plugin,
                files.join(", ")
            )));
        }
    }
    Ok(arguments)
}

/// The files of this plugin that wait for approval.
async fn waiting(plugin: &str, socket: &Path) -> Result<Vec<PathBuf>, CliError> {
    let mut client = Client::connect(socket).await?;
    let views = list::all(&mut client, socket, Query::new(Kind::Plugins, None, Some(plugin))).await?;
    let waits = views.into_iter().filter_map(|view| match view {
        View::Plugin(view) if view.waits_for.iter().any(|what| what == APPROVAL) => Some(PathBuf::from(view.file)),
        _ => None,
    });
    Ok(waits.collect())
}
