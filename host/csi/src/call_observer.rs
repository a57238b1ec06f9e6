//! Calls of drivers, observed as they end: for the metrics.

use std::error::Error as _;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tonic::{Code, Status, TimeoutExpired};

/// Learns of every call of a driver that has ended. Called from many threads; must not block.
pub trait CallObserver: Send + Sync + fmt::Debug {
    /// Notes a call. `method` is its full gRPC path, which a plugin may have chosen; `code` is the
    /// name of its gRPC status as the kubelet writes it.
    fn call_ended(&self, driver: &str, method: &str, code: &'static str, took: Duration);
}

/// Observes the calls of one driver.
#[derive(Debug, Clone)]
pub(super) struct ObservedDriver {
    name: Arc<str>,
    observer: Arc<dyn CallObserver>,
}

impl ObservedDriver {
    /// Observes the calls of the driver of this name.
    pub(super) fn new(name: &str, observer: Arc<dyn CallObserver>) -> Self {
        Self { name: name.into(), observer }
    }

    /// Notes a call that began at this time.
    pub(super) fn ended(&self, method: &str, code: &'static str, began: Instant) {
        self.observer.call_ended(&self.name, method, code, began.elapsed());
    }
}

/// The name of a call's status. A broken connection is `Unavailable`, and a deadline that has passed
/// `DeadlineExceeded`, as for the kubelet's client.
pub(super) fn name_of_status(status: &Status) -> &'static str {
    let causes = || std::iter::successors(status.source(), |cause| (*cause).source());
    // Only tonic's own statuses, of a connection, have causes.
    if causes().any(|cause| cause.is::<TimeoutExpired>()) {
        name_of_code(Code::DeadlineExceeded)
    } else if causes().next().is_some() {
        name_of_code(Code::Unavailable)
    } else {
        name_of_code(status.code())
    }
}

/// The name of a status code in the words of Go's gRPC, which the kubelet's metrics show.
pub(super) const fn name_of_code(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "Canceled",
        Code::Unknown => "Unknown",
        Code::InvalidArgument => "InvalidArgument",
        Code::DeadlineExceeded => "DeadlineExceeded",
        Code::NotFound => "NotFound",
        Code::AlreadyExists => "AlreadyExists",
        Code::PermissionDenied => "PermissionDenied",
        Code::ResourceExhausted => "ResourceExhausted",
        Code::FailedPrecondition => "FailedPrecondition",
        Code::Aborted => "Aborted",
        Code::OutOfRange => "OutOfRange",
        Code::Unimplemented => "Unimplemented",
        Code::Internal => "Internal",
        Code::Unavailable => "Unavailable",
        Code::DataLoss => "DataLoss",
        Code::Unauthenticated => "Unauthenticated",
    }
}
