//! Unary calls to external drivers that have registered with the host by name.
//!
//! A plugin that calls one of these needs the grant `grpc`, which names the drivers; one that calls
//! none does not request it. Messages are bytes here: encode and decode them with a protocol
//! buffers crate such as prost.
//!
//! ```
//! use volhost_plugin_sdk::prelude::*;
//! use std::time::Duration;
//! use volhost_plugin_sdk::grpc::{Failure, Part, Request};
//!
//! let host = volhost_plugin_sdk::testing::TestHost::new();
//! host.driver("csi.example.com", |call| {
//!     if call.method.ends_with("/NodeGetInfo") { Ok(b"answer".to_vec()) } else { Err(Failure::NotSent("no such call".to_owned())) }
//! });
//! // An empty message, with an entry in its field 4, a `map<string, string>`.
//! let request = Request::new(b"");
//! request.add_entry(4, "user", &[Part::Text("me".to_owned())])?;
//! match request.send("csi.example.com", "/csi.v1.Node/NodeGetInfo", Duration::from_secs(10)) {
//!     Ok(answer) => assert_eq!(answer, b"answer"),
//!     Err(Failure::Status { code, message }) => return Err(Error::retryable(format!("{message} ({code})"))),
//!     Err(Failure::Unanswered(why)) => return Err(Error::uncertain(why)),
//!     Err(Failure::NotSent(why)) => return Err(Error::retryable(why)),
//! }
//! host.volume_limit("csi.example.com", 8);
//! assert_eq!(grpc::volume_limit("csi.example.com"), Some(8));
//! // The driver has just refused a volume because of its limit: its information about this
//! // node may be out of date.
//! grpc::node_may_have_changed("csi.example.com");
//! assert_eq!(host.drivers_to_refresh(), ["csi.example.com"]);
//! log::debug(format_args!("the driver's id for this node is {:?}", grpc::node_id("csi.example.com")));
//! # Ok::<(), Error>(())
//! ```

use std::fmt;
use std::time::Duration;

use crate::backend;
use crate::error::Result;
use crate::files::Content;

/// The reasons for which there is no usable answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// Nothing reached the driver.
    NotSent(String),
    /// It was sent, and its result is not known.
    Unanswered(String),
    /// The driver's own answer: a gRPC status that is not ok.
    Status {
        /// Its code.
        code: u32,
        /// Its text.
        message: String,
    },
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotSent(why) | Self::Unanswered(why) => f.write_str(why),
            Self::Status { code, message } => write!(f, "{message} (gRPC code {code})"),
        }
    }
}

/// A piece of a text in a request.
#[derive(Debug)]
pub enum Part<'a> {
    /// Written by the plugin.
    Text(String),
    /// Kept by the host; the plugin never sees it.
    Content(&'a Content),
}

/// A request message. The host writes it to no log and no trace.
pub struct Request(backend::grpc::Request);

impl Request {
    /// A request with this message, as protocol buffers encode it; at most 1 MiB.
    #[must_use]
    pub fn new(message: &[u8]) -> Self {
        Self(backend::grpc::Request::new(message))
    }

    /// Adds an entry to the message's field of this number, which is a `map<string, string>`. Its
    /// value is the parts, one after the other.
    ///
    /// # Errors
    /// [`InvalidArgument`](crate::Error::InvalidArgument) when they are not UTF-8 text together, or
    /// make the request too large.
    pub fn add_entry(&self, field: u32, key: &str, value: &[Part<'_>]) -> Result<()> {
        let parts: Vec<backend::Part<'_>> = value
            .iter()
            .map(|part| match part {
                Part::Text(text) => backend::Part::Text(text.clone()),
                Part::Content(content) => backend::Part::Content(content.handle()),
            })
            .collect();
        self.0.add_entry(field, key, &parts).map_err(backend::error_in)
    }

    /// Calls `method` (`/csi.v1.Node/NodeStageVolume`) of the driver, and waits for its answer. It
    /// can be sent again.
    ///
    /// # Errors
    /// [`Failure`]
    pub fn send(&self, driver: &str, method: &str, deadline: Duration) -> Result<Vec<u8>, Failure> {
        let milliseconds = u32::try_from(deadline.as_millis()).unwrap_or(u32::MAX);
        self.0.send(driver, method, milliseconds).map_err(backend::failure_in)
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Request")
    }
}

/// This node's id as the driver reports it; none while the driver is not registered.
#[must_use]
pub fn node_id(driver: &str) -> Option<String> {
    backend::grpc::node_id(driver)
}

/// How many volumes may be attached to this node, as this driver reports; none when it reports no
/// limit or is not registered.
#[must_use]
pub fn volume_limit(driver: &str) -> Option<u32> {
    backend::grpc::volume_limit(driver)
}

/// Makes the host ask the driver again for its information about this node, above all its limit.
pub fn node_may_have_changed(driver: &str) {
    backend::grpc::node_may_have_changed(driver);
}
