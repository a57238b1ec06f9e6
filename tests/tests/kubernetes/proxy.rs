//! The way to an API server, which a test can cut: then it is as if the API server were gone, for
//! one client alone.

use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

/// A proxy on a port of its own.
pub(crate) struct Proxy {
    port: u16,
    way: Arc<Way>,
}

struct Way {
    to: u16,
    is_open: AtomicBool,
    open: Mutex<Vec<TcpStream>>,
}

impl Proxy {
    /// Opens the way to this port.
    pub(crate) fn start(to: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let way = Arc::new(Way { to, is_open: AtomicBool::new(true), open: Mutex::default() });
        let accepting = Arc::clone(&way);
        // Ends with the test's process.
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                accepting.connect(client);
            }
        });
        Self { port, way }
    }

    /// Its port.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Cuts every connection, and takes no more.
    pub(crate) fn cut(&self) {
        self.way.is_open.store(false, Ordering::SeqCst);
        for stream in self.way.open.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Opens it again.
    pub(crate) fn open(&self) {
        self.way.is_open.store(true, Ordering::SeqCst);
    }
}

impl Way {
    fn connect(&self, client: TcpStream) {
        let mut open = self.open.lock().unwrap();
        if !self.is_open.load(Ordering::SeqCst) {
            return;
        }
        let Ok(server) = TcpStream::connect(("127.0.0.1", self.to)) else { return };
        for (from, to) in [(&client, &server), (&server, &client)] {
            let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
            open.push(from.try_clone().unwrap());
            thread::spawn(move || {
                let _ = std::io::copy(&mut from, &mut to);
                let _ = to.shutdown(Shutdown::Both);
            });
        }
    }
}
