//! HTTP, as little as the tests need.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use crate::wait::TIMEOUT;

/// An answer.
#[derive(Debug)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// The header lines, in small letters.
    pub headers: String,
    /// The body.
    pub body: String,
}

/// Asks for a path; HTTP/1.0, so that the answer ends with the connection.
pub fn request(address: SocketAddr, method: &str, path: &str) -> Answer {
    request_of(address, "test", method, path)
}

/// The same of a host of this name.
pub fn request_of(address: SocketAddr, host: &str, method: &str, path: &str) -> Answer {
    request_with(address, &format!("Host: {host}"), method, path)
}

/// The same with these header lines.
pub fn request_with(address: SocketAddr, headers: &str, method: &str, path: &str) -> Answer {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    write!(stream, "{method} {path} HTTP/1.0\r\n{headers}\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (headers, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no HTTP answer: {text:?}"));
    let status = headers.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap();
    Answer { status, headers: headers.to_lowercase(), body: body.to_owned() }
}

/// Waits for one request with a body, accepts it, and returns the body.
pub fn receive(listener: &TcpListener) -> String {
    let (stream, _) = listener.accept().unwrap();
    let mut reader = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        let line = line.trim().to_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line.is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    write!(reader.get_mut(), "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").unwrap();
    String::from_utf8(body).unwrap()
}
