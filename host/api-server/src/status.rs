//! A refused request as a gRPC status.

use tonic::Status;

use volhost_node::event_loop::requests::RequestError;

/// The status for what the node refused: the code for programs, the text for people.
pub(super) fn refused(error: &RequestError) -> Status {
    let text = error.to_string();
    match error {
        RequestError::Invalid(_) => Status::invalid_argument(text),
        RequestError::UnknownPod(_) | RequestError::UnknownObject(_) => Status::not_found(text),
        RequestError::Conflict(_) => Status::already_exists(text),
        RequestError::NotKept { is_full: true, .. } => Status::resource_exhausted(text),
        RequestError::NotKept { .. } => Status::internal(text),
        RequestError::Failed(_) => Status::failed_precondition(text),
        RequestError::Precondition(_) => Status::failed_precondition(text),
        RequestError::Stopping => Status::unavailable(text),
    }
}

/// The answer to a call that still waits when volhost ends.
pub(super) fn stopping() -> Status {
    refused(&RequestError::Stopping)
}
