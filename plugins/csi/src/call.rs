//! Calls of a driver, and the meaning of its answers for the volume.

use std::time::Duration;

use prost::Message;
use volhost_plugin_sdk::grpc::{Failure, Request};
use volhost_plugin_sdk::prelude::*;

use crate::messages::{Capabilities, Empty};

/// The deadline of one call, as with the kubelet.
const DEADLINE: Duration = Duration::from_secs(120);

// gRPC's numbers of the statuses that mean something here.
const CANCELED: u32 = 1;
const INVALID_ARGUMENT: u32 = 3;
const DEADLINE_EXCEEDED: u32 = 4;
pub(crate) const NOT_FOUND: u32 = 5;
const ALREADY_EXISTS: u32 = 6;
const PERMISSION_DENIED: u32 = 7;
pub(crate) const RESOURCE_EXHAUSTED: u32 = 8;
pub(crate) const FAILED_PRECONDITION: u32 = 9;
const ABORTED: u32 = 10;
pub(crate) const OUT_OF_RANGE: u32 = 11;
pub(crate) const UNIMPLEMENTED: u32 = 12;
const UNAVAILABLE: u32 = 14;
const UNAUTHENTICATED: u32 = 16;

/// The capabilities of a driver's node service, by CSI's numbers.
pub(crate) mod node {
    pub(crate) const STAGE_UNSTAGE_VOLUME: i32 = 1;
    pub(crate) const GET_VOLUME_STATS: i32 = 2;
    pub(crate) const EXPAND_VOLUME: i32 = 3;
    pub(crate) const VOLUME_CONDITION: i32 = 4;
    pub(crate) const SINGLE_NODE_MULTI_WRITER: i32 = 5;
    pub(crate) const VOLUME_MOUNT_GROUP: i32 = 6;
}

/// The capabilities of a driver's controller service, by CSI's numbers.
pub(crate) mod controller {
    pub(crate) const CREATE_DELETE_VOLUME: i32 = 1;
    pub(crate) const PUBLISH_UNPUBLISH_VOLUME: i32 = 2;
    pub(crate) const GET_CAPACITY: i32 = 4;
    pub(crate) const CREATE_DELETE_SNAPSHOT: i32 = 5;
    pub(crate) const CLONE_VOLUME: i32 = 7;
    pub(crate) const PUBLISH_READONLY: i32 = 8;
    pub(crate) const EXPAND_VOLUME: i32 = 9;
    pub(crate) const SINGLE_NODE_MULTI_WRITER: i32 = 13;
}

/// The capabilities of one of a driver's services.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Abilities(Vec<i32>);

impl Abilities {
    /// Asks the driver's node service.
    ///
    /// # Errors
    /// `not-begun`: the call that needs them has not been sent.
    pub(crate) fn of_node(driver: &str) -> Result<Self> {
        let answer = ask(driver, "Node/NodeGetCapabilities", &Empty {});
        answer.map(Self::of).map_err(|failure| not_begun(driver, "NodeGetCapabilities", &failure))
    }

    /// Asks its controller service; none when it has no such service.
    ///
    /// # Errors
    /// As [`Abilities::of_node`].
    pub(crate) fn of_controller(driver: &str) -> Result<Self> {
        match ask(driver, "Controller/ControllerGetCapabilities", &Empty {}) {
            Ok(answer) => Ok(Self::of(answer)),
            Err(Failure::Status { code: UNIMPLEMENTED, .. }) => Ok(Self(Vec::new())),
            Err(failure) => Err(not_begun(driver, "ControllerGetCapabilities", &failure)),
        }
    }

    fn of(answer: Capabilities) -> Self {
        Self(answer.capabilities.into_iter().filter_map(|one| one.rpc).map(|rpc| rpc.kind).collect())
    }

    pub(crate) fn has(&self, ability: i32) -> bool {
        self.0.contains(&ability)
    }
}

/// A call without secrets.
pub(crate) fn ask<M: Message, A: Message + Default>(driver: &str, method: &str, message: &M) -> Result<A, Failure> {
    send(driver, method, &Request::new(&message.encode_to_vec()))
}

/// Sends a request that is ready, and decodes its answer. `method` is without the package.
pub(crate) fn send<A: Message + Default>(driver: &str, method: &str, request: &Request) -> Result<A, Failure> {
    let answer = request.send(driver, &format!("/csi.v1.{method}"), DEADLINE)?;
    // The driver has done something, and its result is not known.
    A::decode(answer.as_slice())
        .map_err(|error| Failure::Unanswered(format!("the driver's answer cannot be read: {error}")))
}

fn not_begun(driver: &str, call: &str, failure: &Failure) -> Error {
    Error::not_begun(format!("{driver}: {call}: {failure}"))
}

/// Maps a failed call to an error by the kubelet's rules, with one difference: a call that was
/// never sent has changed nothing.
pub(crate) fn meaning(driver: &str, call: &str, failure: &Failure) -> Error {
    let text = format!("{driver}: {call}: {failure}");
    match failure {
        Failure::NotSent(_) => Error::not_begun(text),
        Failure::Unanswered(_) => Error::uncertain(text),
        Failure::Status { code, .. } => match *code {
            CANCELED | DEADLINE_EXCEEDED | UNAVAILABLE | RESOURCE_EXHAUSTED | ABORTED => Error::uncertain(text),
            INVALID_ARGUMENT | OUT_OF_RANGE => Error::invalid_argument(text),
            NOT_FOUND => Error::not_found(text),
            ALREADY_EXISTS => Error::conflict(text),
            PERMISSION_DENIED | UNAUTHENTICATED => Error::permission_denied(text),
            FAILED_PRECONDITION => Error::precondition(text),
            UNIMPLEMENTED => Error::unsupported(text),
            code => Error::other(format!("grpc-{code}"), text),
        },
    }
}

/// As [`meaning`], for expanding: a size that is not possible is final, everything else is retried.
pub(crate) fn meaning_of_growth(driver: &str, call: &str, failure: &Failure) -> Error {
    match failure {
        Failure::Status { code: NOT_FOUND, .. } => Error::invalid_argument(format!("{driver}: {call}: {failure}")),
        other => meaning(driver, call, other),
    }
}
