//! Shared by publishing and pulling: credentials and the timeout.

use std::time::Duration;

use volhost_registry::{Access, Credentials, Reference};

use crate::arguments::RegistryArguments;
use crate::error::CliError;
use volhost_model::text::error_chain;

/// Runs `work` with access to the reference's registry.
///
/// # Errors
/// Its own, a timeout, or unusable credentials.
pub(super) fn within<T>(
    arguments: &RegistryArguments,
    reference: &Reference,
    work: impl AsyncFnOnce(&Access) -> Result<T, CliError>,
) -> Result<T, CliError> {
    let credentials = Credentials::find(reference.host(), |name| std::env::var_os(name))
        .map_err(|error| CliError::Failed(error_chain(&error)))?;
    let access = Access { credentials, plain_http: arguments.plain_http, ..Access::default() };
    // One thread is enough for one connection.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(CliError::Runtime)?;
    let timeout: Duration = arguments.timeout.0;
    runtime.block_on(async {
        tokio::time::timeout(timeout, work(&access)).await.unwrap_or_else(|_| {
            Err(CliError::Failed(format!(
                "{reference}: not done after {} s; --timeout gives it more",
                timeout.as_secs()
            )))
        })
    })
}
