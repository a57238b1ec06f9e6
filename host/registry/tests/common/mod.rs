//! A registry that says whatever a test wants it to say.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use volhost_registry::{Access, Digest, Reference};

/// What it was asked: `METHOD PATH` and the header `authorization`, if there is one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) line: String,
    pub(crate) authorization: Option<String>,
}

/// A server on this machine. It serves as long as the test's process lives.
pub(crate) struct Stranger {
    pub(crate) address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Stranger {
    /// `answer` gets `METHOD PATH` and whether there was an `authorization`, and writes what it
    /// likes.
    pub(crate) fn start(answer: impl Fn(&Asked, &mut TcpStream) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (log, answer) = (Arc::clone(&asked), Arc::new(answer));
        std::thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                let (log, answer) = (Arc::clone(&log), Arc::clone(&answer));
                std::thread::spawn(move || {
                    let Some(request) = read(&mut stream) else { return };
                    log.lock().unwrap().push(request.clone());
                    answer(&request, &mut stream);
                });
            }
        });
        Self { address, asked }
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    pub(crate) fn reference(&self, rest: &str) -> Reference {
        format!("{}/{rest}", self.address).parse().unwrap()
    }
}

fn read(stream: &mut TcpStream) -> Option<Asked> {
    let mut reader = BufReader::new(stream);
    let mut first = String::new();
    reader.read_line(&mut first).ok().filter(|bytes| *bytes > 0)?;
    let (mut authorization, mut length) = (None, 0);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        match name.to_ascii_lowercase().as_str() {
            "authorization" => authorization = Some(value.to_owned()),
            "content-length" => length = value.parse().unwrap(),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let line = first.rsplit_once(' ').unwrap().0.to_owned();
    Some(Asked { line, authorization })
}

/// A whole answer. A client that does not want it hangs up, which is no fault of the server's.
pub(crate) fn say(stream: &mut TcpStream, status: &str, headers: &[(&str, &str)], body: &[u8]) {
    let mut head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n", body.len());
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
}

/// An answer that never ends.
pub(crate) fn babble(stream: &mut TcpStream, headers: &str) {
    if stream.write_all(format!("HTTP/1.1 200 OK\r\n{headers}\r\n").as_bytes()).is_ok() {
        while stream.write_all(&[b'x'; 4096]).is_ok() {}
    }
}

/// The smallest content that begins as a component does.
pub(crate) const COMPONENT: &[u8] = b"\0asm\x0d\0\x01\0 and what a plugin has";
pub(crate) const WASM_CONFIG: &str = "application/vnd.wasm.config.v0+json";
pub(crate) const WASM_LAYER: &str = "application/wasm";

/// A manifest with these layers.
pub(crate) fn manifest(config: &str, layers: &[(&str, &str, u64)]) -> String {
    let layers: Vec<_> = layers
        .iter()
        .map(|(kind, digest, size)| format!(r#"{{"mediaType":"{kind}","digest":"{digest}","size":{size},"annotations":{{"org.opencontainers.image.title":"../../../etc/passwd"}}}}"#))
        .collect();
    let digest = Digest::of(b"{}");
    format!(
        r#"{{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{{"mediaType":"{config}","digest":"{digest}","size":2}},"layers":[{}]}}"#,
        layers.join(",")
    )
}

/// The manifest of [`COMPONENT`].
pub(crate) fn good_manifest() -> String {
    manifest(WASM_CONFIG, &[(WASM_LAYER, Digest::of(COMPONENT).as_str(), COMPONENT.len() as u64)])
}

/// Access to an untrusted registry with this idle timeout.
pub(crate) fn access(idle_timeout: Duration) -> Access {
    Access { credentials: None, plain_http: true, idle_timeout }
}

/// Runs to its end.
pub(crate) fn now<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}
