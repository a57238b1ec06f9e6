//! `grpc`: unary calls to drivers that the operator granted. A request is never shown.

use std::time::Duration;

use prost::encoding::{MAX_TAG, MIN_TAG, bytes, string};
use volhost_kernel::KernelError;
use wasmtime::component::Resource;

use super::State;
use crate::abort::Abort;
use crate::bindings::HostError;
use crate::bindings::volhost::plugin::grpc::{Failure, Host, HostRequest, Part, Status};
use crate::bindings::volhost::plugin::types;
use crate::handles::GrpcRequest;
use crate::text::tame;
use volhost_model::drivers::DriverFailure;

/// The most of a request that the plugin writes, in bytes.
const REQUEST_BYTES: usize = 1 << 20;
/// The most contents of a request that the host keeps: a volume names some secrets, with some keys
/// each. Their number is bounded and not their length, which the plugin could measure by what it
/// adds itself.
const MOST_CONTENTS: usize = 64;
/// The largest request with its contents, in bytes; objects have a MiB at the most. Beyond it the
/// call ends.
const LARGEST: usize = 64 << 20;
/// The longest that a call may wait.
const LONGEST: Duration = Duration::from_secs(600);
/// How much of a driver's name or method a message shows, in bytes.
const SHOWN_BYTES: usize = 256;
/// The number of the key in an entry of a map.
const KEY: u32 = 1;
/// The number of the value.
const VALUE: u32 = 2;
/// How much of a driver's message is shown, in bytes.
const MESSAGE_BYTES: usize = 4096;

impl Host for State {
    fn node_id(&mut self, driver: String) -> wasmtime::Result<Option<String>> {
        self.count()?;
        Ok(self.call.environment().drivers().node_id(&driver).filter(|_| self.reach.calls(&driver)))
    }

    fn volume_limit(&mut self, driver: String) -> wasmtime::Result<Option<u32>> {
        self.count()?;
        Ok(self.call.environment().drivers().volume_limit(&driver).filter(|_| self.reach.calls(&driver)))
    }

    fn node_may_have_changed(&mut self, driver: String) -> wasmtime::Result<()> {
        self.count()?;
        self.refuse_if_asked("grpc.node-may-have-changed")?;
        if self.reach.calls(&driver) {
            self.call.environment().drivers().ask_again(&driver);
        }
        Ok(())
    }
}

impl HostRequest for State {
    fn new(&mut self, message: Vec<u8>) -> wasmtime::Result<Resource<GrpcRequest>> {
        self.count()?;
        if message.len() > REQUEST_BYTES {
            return Err(Abort::limit("a request to a driver of more than 1 MiB").into());
        }
        let written = message.len();
        Ok(self.push(GrpcRequest { message, written, contents: 0 })?)
    }

    fn add_entry(
        &mut self,
        request: Resource<GrpcRequest>,
        field: u32,
        key: String,
        value: Vec<Part>,
    ) -> Result<(), HostError> {
        self.count()?;
        let refuse = |why: &str| {
            let text = format!("the entry {} of a request: {why}", tame(&key, SHOWN_BYTES));
            HostError::Plugin(types::Error::InvalidArgument(text))
        };
        if !(MIN_TAG..=MAX_TAG).contains(&field) {
            return Err(refuse("no field has this number"));
        }
        let mut text = Vec::new();
        let (mut written, mut contents) = (key.len(), 0_usize);
        for part in &value {
            match part {
                Part::Text(part) => {
                    written = written.saturating_add(part.len());
                    text.extend_from_slice(part.as_bytes());
                }
                Part::Content(content) => {
                    contents = contents.saturating_add(1);
                    text.extend_from_slice(&self.table.get(content)?.bytes);
                }
            }
        }
        let mut entry =
            Vec::with_capacity(string::encoded_len(KEY, &key).saturating_add(bytes::encoded_len(VALUE, &text)));
        string::encode(KEY, &key, &mut entry);
        bytes::encode(VALUE, &text, &mut entry);
        let request = self.table.get_mut(&request)?;
        (written, contents) = (written.saturating_add(request.written), contents.saturating_add(request.contents));
        if written > REQUEST_BYTES {
            return Err(refuse("with it the plugin has written more than 1 MiB into the request"));
        }
        if contents > MOST_CONTENTS {
            return Err(refuse(&format!("with it the request has more than {MOST_CONTENTS} contents")));
        }
        if std::str::from_utf8(&text).is_err() {
            return Err(refuse("its value is no UTF-8 text"));
        }
        if request.message.len().saturating_add(entry.len()) > LARGEST {
            return Err(Abort::limit("a request to a driver of more than 64 MiB").into());
        }
        (request.written, request.contents) = (written, contents);
        // Messages are merged field by field, and the entries of a map are fields that repeat: at
        // the end is as good as anywhere.
        bytes::encode(field, &entry, &mut request.message);
        Ok(())
    }

    fn send(
        &mut self,
        request: Resource<GrpcRequest>,
        driver: String,
        method: String,
        deadline: u32,
    ) -> wasmtime::Result<Result<Vec<u8>, Failure>> {
        let shown = tame(&driver, SHOWN_BYTES);
        self.refuse_if_asked(&format!("grpc {shown} {}", tame(&method, SHOWN_BYTES)))?;
        if !self.reach.calls(&driver) {
            self.count()?;
            let text = format!(
                "driver {shown} is not granted to this plugin; see `csi-drivers` under [grants] in the configuration"
            );
            return Ok(Err(Failure::NotSent(text)));
        }
        if !is_method(&method) {
            return Err(Abort::contract(format!("{} is no gRPC method", tame(&method, SHOWN_BYTES))).into());
        }
        let deadline = Duration::from_millis(u64::from(deadline.max(1))).min(LONGEST);
        let sent = self.change(format!("grpc {shown} {method}"), |state| {
            let message = state.table.get(&request)?.message.clone();
            let answer = state.call.environment().drivers().call(&driver, &method, message, deadline);
            Ok(answer.map_err(|failure| state.failure(failure)))
        });
        sent.or_else(|error: wasmtime::Error| match error.downcast_ref::<KernelError>() {
            // Refused by the watcher of the call, before it was begun.
            Some(refused) => Ok(Err(Failure::NotSent(refused.to_string()))),
            None => Err(error),
        })
    }

    fn drop(&mut self, request: Resource<GrpcRequest>) -> wasmtime::Result<()> {
        super::mounts::dropped(self, request)
    }
}

impl State {
    /// A driver's failure for the plugin: a driver may repeat in it what it was handed.
    fn failure(&mut self, failure: DriverFailure) -> Failure {
        let mut shown = |text: String| self.secrets.for_plugin(tame(&text, MESSAGE_BYTES));
        match failure {
            DriverFailure::NotSent(why) => Failure::NotSent(shown(why)),
            DriverFailure::Unanswered(why) => Failure::Unanswered(shown(why)),
            DriverFailure::Status { code, message } => Failure::Status(Status { code, message: shown(message) }),
        }
    }
}

/// `/package.Service/Method`.
fn is_method(method: &str) -> bool {
    let mut parts = method.split('/');
    let name = |part: Option<&str>| {
        part.is_some_and(|part| {
            !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_'))
        })
    };
    parts.next() == Some("") && name(parts.next()) && name(parts.next()) && parts.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_full_path_is_a_method() {
        assert!(is_method("/csi.v1.Node/NodeStageVolume"));
        for other in ["", "/", "csi.v1.Node/X", "/csi.v1.Node", "/a/b/c", "/a/", "//b", "/a b/c", "/a/b?c"] {
            assert!(!is_method(other), "{other}");
        }
    }
}
