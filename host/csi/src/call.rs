//! One call of a driver with a timeout.

use std::error::Error;
use std::time::Duration;

use thiserror::Error;
use tokio::time::timeout;
use tonic::{Response, Status};

/// Why a call has no answer.
#[derive(Debug, Error)]
pub(super) enum RpcError {
    /// The driver answered with an error, or the connection failed.
    #[error("{:?}: {}{}", .0.code(), .0.message(), cause_text(.0))]
    Status(#[source] Box<Status>),
    /// The driver did not answer in time.
    #[error("no answer within {} s", .0.as_secs())]
    NoAnswer(Duration),
}

/// The innermost cause of a status: tonic's outer ones only say "transport error".
pub(super) fn innermost(status: &Status) -> Option<&(dyn Error + 'static)> {
    std::iter::successors(status.source(), |cause| (*cause).source()).last()
}

fn cause_text(status: &Status) -> String {
    innermost(status).map(|cause| format!(": {cause}")).unwrap_or_default()
}

/// Waits for the answer of a call, for this time at most.
///
/// # Errors
/// [`RpcError`].
pub(super) async fn within<T>(
    time: Duration,
    call: impl Future<Output = Result<Response<T>, Status>>,
) -> Result<T, RpcError> {
    match timeout(time, call).await {
        Ok(Ok(answer)) => Ok(answer.into_inner()),
        Ok(Err(status)) => Err(RpcError::Status(Box::new(status))),
        Err(_) => Err(RpcError::NoAnswer(time)),
    }
}
