//! What publishing and pulling share: who we are, and an end to waiting.

use std::time::Duration;

use volhost_registry::{Access, Credentials, Reference};

use crate::arguments::RegistryArguments;
use crate::error::{CliError, chain};

/// Runs `work` with access to the reference's registry.
///
/// # Errors
/// Its own, or that the time is over, or that it cannot be said who we are.
pub(super) fn within<T>(
    arguments: &RegistryArguments,
    reference: &Reference,
    work: impl AsyncFnOnce(&Access) -> Result<T, CliError>,
) -> Result<T, CliError> {
    let credentials = Credentials::find(reference.host(), |name| std::env::var_os(name))
        .map_err(|error| CliError::Failed(chain(&error)))?;
    let access = Access { credentials, plain_http: arguments.plain_http, ..Access::default() };
    // One thread is enough for one connection.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(CliError::Runtime)?;
    let patience: Duration = arguments.timeout.0;
    runtime.block_on(async {
        tokio::time::timeout(patience, work(&access)).await.unwrap_or_else(|_| {
            Err(CliError::Failed(format!(
                "{reference}: not done after {} s; --timeout gives it more",
                patience.as_secs()
            )))
        })
    })
}
