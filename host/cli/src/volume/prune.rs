//! `volhost volume prune`: deletes the volumes that nobody uses, once a person agrees.

use std::io::{self, BufRead};
use std::path::Path;

use tonic::transport::Channel;
use volhost_api::pb;
use volhost_api::pb::named_volumes_client::NamedVolumesClient;

use super::{list, remove};
use crate::error::CliError;
use crate::format::printable;
use crate::output::Output;

/// The longest answer that is read, in bytes.
const ANSWER_BYTES: u64 = 64;

/// Deletes every volume without a user. Without `force`, lists them and asks first.
///
/// # Errors
/// [`CliError::Failed`] if the answer is not yes, or a volume cannot be deleted: the others are.
pub(super) async fn run(
    volumes: &mut NamedVolumesClient<Channel>,
    socket: &Path,
    force: bool,
    output: &mut Output,
) -> Result<(), CliError> {
    let listed = list(volumes, socket).await?;
    let unused: Vec<pb::NamedVolume> = listed.into_iter().filter(|volume| volume.users.is_empty()).collect();
    if unused.is_empty() {
        return Ok(());
    }
    if !force {
        output.note("These volumes have no user. They and their data will be deleted:");
        for volume in &unused {
            output.note(&format!(
                "  {} ({} bytes)",
                printable(&volume.name),
                volume.capacity_bytes.max(volume.requested_bytes)
            ));
        }
        output.note("Delete them? [y/N]");
        if !is_yes(io::stdin().lock())? {
            return Err(CliError::Failed("nothing was deleted; --force deletes without asking".to_owned()));
        }
    }
    let mut failures = Vec::new();
    for volume in unused {
        // The daemon refuses one that has a user by now.
        match remove(volumes, socket, volume.name.clone()).await {
            Ok(()) => output.line(&printable(&volume.name))?,
            Err(error) => failures.push(error.to_string()),
        }
    }
    if failures.is_empty() { Ok(()) } else { Err(CliError::Failed(failures.join("\n"))) }
}

/// Reads an answer. No answer is no.
fn is_yes(input: impl BufRead) -> Result<bool, CliError> {
    let mut answer = String::new();
    let read = input.take(ANSWER_BYTES).read_line(&mut answer);
    read.map_err(|source| CliError::File { path: "standard input".into(), source })?;
    Ok(["y", "yes"].iter().any(|yes| answer.trim().eq_ignore_ascii_case(yes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_yes_is_yes() {
        for yes in ["y\n", "Y", "yes\n", " YES \n", "y\nn\n"] {
            assert!(is_yes(yes.as_bytes()).unwrap(), "{yes:?}");
        }
        for no in ["", "\n", "n\n", "no\n", "yess\n", "\ny\n", "yes, but\n"] {
            assert!(!is_yes(no.as_bytes()).unwrap(), "{no:?}");
        }
        assert!(!is_yes("y".repeat(1 << 20).as_bytes()).unwrap());
    }
}
