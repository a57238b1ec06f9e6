//! Approves a file: the daemon knows which content is pending approval because its plugin's grant
//! belongs to another. That content is approved, and no other that may be in the file by then.

use std::path::Path;

use sha2::{Digest, Sha256};
use volhost_api::pb::Kind;
use volhost_model::view::APPROVAL;

use volhost_model::text::lower_hex;

use super::file::read_plugin;
use crate::arguments::GrantArguments;
use crate::client::Client;
use crate::error::CliError;
use crate::list::{self, Query, View};
use crate::output::Output;

/// Content that is pending approval, as the daemon read it.
struct PendingContent {
    file: String,
    /// SHA-256 in hex.
    digest: String,
}

/// The arguments, with the digest of the content that is pending approval under this plugin's name.
/// Without a daemon, or when the user names a digest, they stay as they are.
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
        [pending] => {
            check_unchanged(pending)?;
            let PendingContent { file, digest } = pending;
            output.line(&format!("{file} is pending approval: its content, sha256 {digest}, gets the grant"))?;
            arguments.sha256.push(digest.clone());
        }
        several => {
            let files: Vec<&str> = several.iter().map(|pending| pending.file.as_str()).collect();
            return Err(CliError::Failed(format!(
                "several files of plugin {} are pending approval: {}; name the one that is to have the grant by --sha256",
                arguments.plugin,
                files.join(", ")
            )));
        }
    }
    Ok(arguments)
}

/// Checks that the file still has the content that the daemon read.
fn check_unchanged(pending: &PendingContent) -> Result<(), CliError> {
    let PendingContent { file, digest } = pending;
    if digest.is_empty() {
        return Err(CliError::Failed(format!(
            "{file} is pending approval, and the daemon does not report which content it read; name it by --sha256"
        )));
    }
    let found = lower_hex(&Sha256::digest(read_plugin(Path::new(file))?));
    if found == *digest {
        return Ok(());
    }
    Err(CliError::Failed(format!(
        "{file} has changed: the daemon waits for the approval of sha256 {digest}, and the file has sha256 {found} now. Nothing was granted. \
         Inspect the file (volhost plugin inspect {file}), then name the content that is to have the grant by --sha256"
    )))
}

/// The contents of this plugin that are pending approval.
async fn waiting(plugin: &str, socket: &Path) -> Result<Vec<PendingContent>, CliError> {
    let mut client = Client::connect(socket).await?;
    let views = list::all(&mut client, socket, Query::new(Kind::Plugins, None, Some(plugin))).await?;
    let waits = views.into_iter().filter_map(|view| match view {
        View::Plugin(view) if view.waits_for.iter().any(|what| what == APPROVAL) => {
            Some(PendingContent { file: view.file, digest: view.pending_digest })
        }
        _ => None,
    });
    Ok(waits.collect())
}
