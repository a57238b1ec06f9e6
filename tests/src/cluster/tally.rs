//! Sums over all objects of a kind, kept by a watch: a list of many objects, read again and again,
//! would take more of the API server than what is measured.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::Value;

use super::Api;

/// Asks for all objects as events, and for the changes from there on.
const QUERY: &str =
    "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=3600";
/// How long after the end of a watch the next one begins.
const AGAIN: Duration = Duration::from_millis(100);
/// The annotation of the bookmark after the last object.
const ALL_SENT: &str = "/object/metadata/annotations/k8s.io~1initial-events-end";

/// What one object adds to each sum.
pub type Measure<const SUMS: usize> = fn(&Value) -> [usize; SUMS];

/// Sums over all objects of a kind. Dropping it ends the watch.
#[derive(Debug)]
pub struct Tally<const SUMS: usize> {
    shared: Arc<Shared<SUMS>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared<const SUMS: usize> {
    socket: PathBuf,
    request: String,
    measure: Measure<SUMS>,
    state: Mutex<State<SUMS>>,
}

#[derive(Debug)]
struct State<const SUMS: usize> {
    sums: [usize; SUMS],
    /// The connection that events come by now.
    connection: Option<UnixStream>,
    is_dropped: bool,
}

impl Api {
    /// Keeps sums over all objects at this path: of a list, without a query.
    pub fn tally<const SUMS: usize>(&self, path: &str, measure: Measure<SUMS>) -> Tally<SUMS> {
        let state = State { sums: [0; SUMS], connection: None, is_dropped: false };
        let request = format!("GET {path}?{QUERY} HTTP/1.0\r\nHost: localhost\r\n\r\n");
        let shared = Arc::new(Shared { socket: self.socket().to_owned(), request, measure, state: Mutex::new(state) });
        let of_thread = Arc::clone(&shared);
        let thread = std::thread::spawn(move || {
            while of_thread.follow().is_some() {
                std::thread::park_timeout(AGAIN);
            }
        });
        Tally { shared, thread: Some(thread) }
    }
}

impl<const SUMS: usize> Tally<SUMS> {
    /// The sums now: of all objects as the watch has shown them.
    pub fn sums(&self) -> [usize; SUMS] {
        self.shared.state().sums
    }
}

impl<const SUMS: usize> Drop for Tally<SUMS> {
    fn drop(&mut self) {
        {
            let mut state = self.shared.state();
            state.is_dropped = true;
            if let Some(connection) = state.connection.take() {
                let _ = connection.shutdown(Shutdown::Both);
            }
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl<const SUMS: usize> Shared<SUMS> {
    fn state(&self) -> MutexGuard<'_, State<SUMS>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Follows one watch to its end. Returns none once nobody asks for the sums any more, or the
    /// proxy has ended.
    fn follow(&self) -> Option<()> {
        let mut stream = UnixStream::connect(&self.socket).ok()?;
        {
            let mut state = self.state();
            if state.is_dropped {
                return None;
            }
            state.connection = Some(stream.try_clone().ok()?);
        }
        stream.write_all(self.request.as_bytes()).ok()?;
        let mut objects: HashMap<String, [usize; SUMS]> = HashMap::new();
        let (mut sums, mut has_all) = ([0; SUMS], false);
        // The head ends with an empty line.
        let lines = BufReader::new(stream).lines().map_while(Result::ok).skip_while(|line| !line.is_empty());
        for line in lines.skip(1) {
            // An event that is cut off, or an error: the next watch begins anew.
            let Ok(event) = serde_json::from_str::<Value>(&line) else { break };
            let key = || event["object"]["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
            let (before, after) = match event["type"].as_str() {
                Some("ADDED" | "MODIFIED") => {
                    let measured = (self.measure)(&event["object"]);
                    (objects.insert(key(), measured), measured)
                }
                Some("DELETED") => (objects.remove(&key()), [0; SUMS]),
                Some("BOOKMARK") => {
                    has_all |= event.pointer(ALL_SENT).is_some();
                    (None, [0; SUMS])
                }
                _ => break,
            };
            for (sum, (before, after)) in sums.iter_mut().zip(before.unwrap_or([0; SUMS]).into_iter().zip(after)) {
                *sum = *sum + after - before;
            }
            if has_all {
                self.state().sums = sums;
            }
        }
        Some(())
    }
}
