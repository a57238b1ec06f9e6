//! The API server for measurements: `kubectl proxy`, so that no request waits for kubectl to start.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use serde_json::Value;

use super::Cluster;
use crate::wait::eventually;

/// The API server as an administrator of the cluster. Dropping it ends the proxy.
#[derive(Debug)]
pub struct Api {
    proxy: Child,
    socket: PathBuf,
}

impl Cluster {
    /// Starts a proxy to the API server.
    ///
    /// # Panics
    /// When it does not serve.
    pub fn api(&self) -> Api {
        let socket = self.folder().join("api.sock");
        let mut command = self.kubectl_command(&["proxy", "--unix-socket"]);
        let proxy = command.arg(&socket).stdin(Stdio::null()).stdout(Stdio::null()).spawn().expect("kubectl runs");
        assert!(eventually(|| UnixStream::connect(&socket).is_ok()), "kubectl proxy does not serve");
        Api { proxy, socket }
    }
}

impl Api {
    /// Creates an object at this path; returns it as the server has it.
    ///
    /// # Panics
    /// When it is refused.
    pub fn create(&self, path: &str, object: &Value) -> Value {
        let (status, answer) = self.request("POST", path, &object.to_string());
        assert_eq!(status, 201, "POST {path}: {answer}");
        serde_json::from_str(&answer).expect("an object is JSON")
    }

    /// Reads the object at this path.
    ///
    /// # Panics
    /// When there is none.
    pub fn get(&self, path: &str) -> Value {
        serde_json::from_str(&self.text(path)).expect("an object is JSON")
    }

    /// Reads text at this path, such as metrics.
    ///
    /// # Panics
    /// When there is none.
    pub fn text(&self, path: &str) -> String {
        let (status, answer) = self.request("GET", path, "");
        assert_eq!(status, 200, "GET {path}: {answer}");
        answer
    }

    /// Deletes the object at this path at once, without its grace period.
    ///
    /// # Panics
    /// When it is refused; an object that is gone is no error.
    pub fn delete(&self, path: &str) {
        let (status, answer) = self.request("DELETE", path, r#"{"gracePeriodSeconds":0}"#);
        assert!(matches!(status, 200 | 202 | 404), "DELETE {path}: {status} {answer}");
    }

    /// Where the proxy serves.
    pub(super) fn socket(&self) -> &Path {
        &self.socket
    }

    /// One request, and its status and body. HTTP/1.0: the body ends with the connection.
    fn request(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        let mut stream = UnixStream::connect(&self.socket).expect("kubectl proxy serves");
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).expect("kubectl proxy reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("kubectl proxy answers");
        let (head, body) = answer.split_once("\r\n\r\n").expect("an answer has a head");
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        (status.unwrap_or_else(|| panic!("{method} {path}: {head}")), body.to_owned())
    }
}

impl Drop for Api {
    fn drop(&mut self) {
        let _ = self.proxy.kill();
        let _ = self.proxy.wait();
    }
}
