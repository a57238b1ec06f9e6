//! An API server that answers badly, for one client alone.
//!
//! ```text
//! client --HTTP--> faults --HTTP--> kubectl proxy --TLS, the client's token--> API server
//! ```

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// How requests are answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// As the API server does.
    None,
    /// 429: it has too much to do. The client is to come back in a second.
    TooManyRequests,
    /// 500.
    Broken,
    /// Each watch ends at once with 410: what it would go on from is forgotten. Lists are answered.
    WatchExpired,
    /// The connection is lost in the middle of each answer.
    Reset,
    /// Each answer begins after two seconds.
    Slow,
}

/// The way to the API server. Requests whose path has `only` are answered badly.
pub(crate) struct Faults {
    port: u16,
    way: Arc<Way>,
    proxy: Child,
}

struct Way {
    to: u16,
    state: Mutex<State>,
}

struct State {
    fault: Fault,
    only: &'static str,
    /// How many requests were answered badly since the fault began.
    answered: usize,
    /// How many are being delayed by [`Fault::Slow`], and the most that there were.
    now: usize,
    most: usize,
    open: Vec<TcpStream>,
}

impl Faults {
    /// Opens the way with the credentials of this kubeconfig file.
    pub(crate) fn start(kubeconfig: &Path) -> Self {
        let mut proxy = Command::new("kubectl")
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .args(["proxy", "--port=0", "--keepalive=0"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            // It reports each watch that ends.
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // Starting to serve on 127.0.0.1:40001
        let mut said = String::new();
        let mut output = BufReader::new(proxy.stdout.take().unwrap());
        output.read_line(&mut said).unwrap();
        let to = said.trim().rsplit(':').next().unwrap().parse().expect("kubectl proxy says its port");
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = State { fault: Fault::None, only: "", answered: 0, now: 0, most: 0, open: Vec::new() };
        let way = Arc::new(Way { to, state: Mutex::new(state) });
        let accepting = Arc::clone(&way);
        // Ends with the test's process.
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let way = Arc::clone(&accepting);
                thread::spawn(move || drop(way.exchange(client)));
            }
        });
        Self { port, way, proxy }
    }

    /// Where clients reach it.
    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Answers requests whose path and query have this text in this way from now on. Ends every
    /// connection, so that watches that go on notice.
    pub(crate) fn set(&self, fault: Fault, only: &'static str) {
        let mut state = self.way.state.lock().unwrap();
        (state.fault, state.only, state.answered, state.most) = (fault, only, 0, state.now);
        for stream in state.open.drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// How many requests were answered badly since then.
    pub(crate) fn answered(&self) -> usize {
        self.way.state.lock().unwrap().answered
    }

    /// The most requests that were being delayed by [`Fault::Slow`] at once.
    pub(crate) fn most_at_once(&self) -> usize {
        self.way.state.lock().unwrap().most
    }
}

impl Drop for Faults {
    fn drop(&mut self) {
        let _ = self.proxy.kill();
        let _ = self.proxy.wait();
    }
}

impl Way {
    /// One request and its answer; the connection ends with it.
    fn exchange(&self, mut client: TcpStream) -> io::Result<()> {
        let mut reader = BufReader::new(client.try_clone()?);
        let (mut head, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            let (name, value) = line.split_once(':').unwrap_or_default();
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse().unwrap_or(0);
            }
            if line == "\r\n" {
                break;
            }
            if !name.eq_ignore_ascii_case("connection") {
                head += &line;
            }
        }
        head += "Connection: close\r\n\r\n";
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        let request = head.lines().next().unwrap_or_default().to_owned();

        let fault = self.fault(&request, &client)?;
        match fault {
            Fault::TooManyRequests => {
                return refuse(&mut client, 429, "TooManyRequests", "the server has too much to do");
            }
            Fault::Broken => return refuse(&mut client, 500, "InternalError", "the server has a broken disk"),
            Fault::WatchExpired => {
                let status = status(410, "Expired", "too old resource version");
                let event = format!("{{\"type\":\"ERROR\",\"object\":{status}}}\n");
                return answer(&mut client, "200 OK", &event);
            }
            Fault::Slow => {
                thread::sleep(Duration::from_secs(2));
                self.state.lock().unwrap().now -= 1;
            }
            Fault::None | Fault::Reset => {}
        }
        let mut server = TcpStream::connect(("127.0.0.1", self.to))?;
        server.write_all(head.as_bytes())?;
        server.write_all(&body)?;
        self.state.lock().unwrap().open.push(server.try_clone()?);
        if fault == Fault::Reset {
            // The head and a little of the body.
            let mut begun = vec![0; 600];
            let read = server.read(&mut begun)?;
            client.write_all(&begun[..read])?;
        } else {
            io::copy(&mut server, &mut client)?;
        }
        client.shutdown(Shutdown::Both)
    }

    /// How this request is answered.
    fn fault(&self, request: &str, client: &TcpStream) -> io::Result<Fault> {
        let mut state = self.state.lock().unwrap();
        state.open.push(client.try_clone()?);
        let is_watch = request.contains("watch=");
        let is_hit = request.contains(state.only) && (state.fault != Fault::WatchExpired || is_watch);
        if !is_hit || state.fault == Fault::None {
            return Ok(Fault::None);
        }
        state.answered += 1;
        if state.fault == Fault::Slow {
            state.now += 1;
            state.most = state.most.max(state.now);
        }
        Ok(state.fault)
    }
}

fn status(code: u16, reason: &str, message: &str) -> String {
    format!(
        "{{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{{}},\"status\":\"Failure\",\"message\":\"{message}\",\
         \"reason\":\"{reason}\",\"details\":{{\"retryAfterSeconds\":1}},\"code\":{code}}}"
    )
}

fn refuse(client: &mut TcpStream, code: u16, reason: &str, message: &str) -> io::Result<()> {
    answer(client, &format!("{code} {reason}\r\nRetry-After: 1"), &status(code, reason, message))
}

fn answer(client: &mut TcpStream, status: &str, body: &str) -> io::Result<()> {
    let length = body.len();
    write!(
        client,
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )?;
    client.shutdown(Shutdown::Both)
}
