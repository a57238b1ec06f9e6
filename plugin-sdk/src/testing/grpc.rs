//! Drivers of the double: functions of the test that answer calls.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

use super::files::Content;
use super::host::TestHost;
use super::world::current;
use crate::error::{Error, Result};
use crate::grpc::Failure;

/// A call that the double sent to a driver.
///
/// ```
/// use std::time::Duration;
/// use volhost_plugin_sdk::grpc::Request;
/// use volhost_plugin_sdk::testing::{TestCall, TestHost};
///
/// let host = TestHost::new();
/// host.driver("csi.example.com", |_: &TestCall| Ok(Vec::new()));
/// Request::new(b"x").send("csi.example.com", "/csi.v1.Identity/Probe", Duration::from_secs(3)).expect("it answers");
/// let call = &host.driver_calls()[0];
/// assert_eq!((call.driver.as_str(), call.method.as_str()), ("csi.example.com", "/csi.v1.Identity/Probe"));
/// assert_eq!((call.message.as_slice(), call.deadline > 0), (&b"x"[..], true));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestCall {
    /// Which driver.
    pub driver: String,
    /// `/csi.v1.Node/NodeStageVolume`.
    pub method: String,
    /// The message, with the entries that the host added.
    pub message: Vec<u8>,
    /// The plugin's deadline, in milliseconds.
    pub deadline: u32,
}

type Answer = Rc<dyn Fn(&TestCall) -> Result<Vec<u8>, Failure>>;

/// The registered drivers.
#[derive(Default)]
pub(crate) struct Drivers {
    answers: BTreeMap<String, Answer>,
    calls: Vec<TestCall>,
    limits: BTreeMap<String, u32>,
    asked_again: Vec<String>,
}

impl fmt::Debug for Drivers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.answers.keys()).finish()
    }
}

impl TestHost {
    /// Registers a driver, or replaces it. It reports `node-1` as this node's id.
    pub fn driver(&self, name: &str, answer: impl Fn(&TestCall) -> Result<Vec<u8>, Failure> + 'static) -> &Self {
        let name = name.to_owned();
        self.change(|world| {
            world.drivers.answers.insert(name, Rc::new(answer));
        })
    }

    /// Sets how many volumes may be attached to this node, as a driver reports.
    pub fn volume_limit(&self, driver: &str, limit: u32) -> &Self {
        self.change(|world| {
            world.drivers.limits.insert(driver.to_owned(), limit);
        })
    }

    /// The drivers whose information about this node the host was asked to refresh, in order.
    #[must_use]
    pub fn drivers_to_refresh(&self) -> Vec<String> {
        self.world.borrow().drivers.asked_again.clone()
    }

    /// The calls sent to drivers until now, in order.
    #[must_use]
    pub fn driver_calls(&self) -> Vec<TestCall> {
        self.world.borrow().drivers.calls.clone()
    }
}

pub(crate) enum Part<'a> {
    Text(String),
    Content(&'a Content),
}

pub(crate) struct Request(RefCell<Vec<u8>>);

impl Request {
    pub(crate) fn new(message: &[u8]) -> Self {
        Self(RefCell::new(message.to_vec()))
    }

    pub(crate) fn add_entry(&self, field: u32, key: &str, value: &[Part<'_>]) -> Result<()> {
        let mut text = Vec::new();
        for part in value {
            match part {
                Part::Text(part) => text.extend_from_slice(part.as_bytes()),
                Part::Content(content) => text.extend_from_slice(&content.0),
            }
        }
        if std::str::from_utf8(&text).is_err() {
            return Err(Error::invalid_argument(format!("the entry {key} of a request: its value is not UTF-8 text")));
        }
        let mut entry = Vec::new();
        put(&mut entry, 1, key.as_bytes());
        put(&mut entry, 2, &text);
        put(&mut self.0.borrow_mut(), field, &entry);
        Ok(())
    }

    pub(crate) fn send(&self, driver: &str, method: &str, deadline: u32) -> Result<Vec<u8>, Failure> {
        let world = current();
        if let Err(error) = world.borrow_mut().called("grpc.send") {
            return Err(Failure::Unanswered(error.to_string()));
        }
        let Some(answer) = world.borrow().drivers.answers.get(driver).cloned() else {
            return Err(Failure::NotSent(format!("driver {driver} is not registered")));
        };
        let (driver, method) = (driver.to_owned(), method.to_owned());
        let call = TestCall { driver, method, message: self.0.borrow().clone(), deadline };
        world.borrow_mut().drivers.calls.push(call.clone());
        answer(&call)
    }
}

pub(crate) fn node_id(driver: &str) -> Option<String> {
    current().borrow().drivers.answers.contains_key(driver).then(|| "node-1".to_owned())
}

pub(crate) fn volume_limit(driver: &str) -> Option<u32> {
    current().borrow().drivers.limits.get(driver).copied()
}

pub(crate) fn node_may_have_changed(driver: &str) {
    current().borrow_mut().drivers.asked_again.push(driver.to_owned());
}

/// A field with a length, as protocol buffers write it.
fn put(into: &mut Vec<u8>, field: u32, bytes: &[u8]) {
    for number in [u64::from(field) << 3 | 2, bytes.len() as u64] {
        let mut number = number;
        while number > 0x7f {
            into.push(number.to_le_bytes()[0] | 0x80);
            number >>= 7;
        }
        into.push(number.to_le_bytes()[0]);
    }
    into.extend_from_slice(bytes);
}
