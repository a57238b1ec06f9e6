//! Progress on standard output, and waiting as long as there is progress.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::driver::ScaleDriver;

/// How often it is printed.
const EVERY: Duration = Duration::from_secs(10);
/// How long nothing may change.
const LONGEST_REST: Duration = Duration::from_secs(300);
/// The shortest and the longest pause between two looks. A look at many objects takes processor
/// time from what is measured: four times as long passes until the next.
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Prints what goes on. Dropping it ends that.
pub(crate) struct Progress {
    shared: Arc<Shared>,
    stop: Option<Sender<()>>,
    printing: Option<JoinHandle<()>>,
}

struct Shared {
    driver: ScaleDriver,
    begun: Instant,
    /// What goes on, and how much of it is done.
    now: Mutex<(String, Option<usize>)>,
}

impl Shared {
    fn now(&self) -> MutexGuard<'_, (String, Option<usize>)> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn print(&self) {
        let (what, done) = self.now().clone();
        let done = done.map(|done| format!(" {done}")).unwrap_or_default();
        let (volumes, attached, staged) = {
            let account = self.driver.account();
            (account.volumes(), account.attached(), account.staged())
        };
        let seconds = self.begun.elapsed().as_secs();
        println!("{seconds:>5} s: {what}:{done} ({volumes} volumes, {attached} attached, {staged} staged)");
    }
}

impl Progress {
    pub(crate) fn start(driver: &ScaleDriver) -> Self {
        let shared =
            Shared { driver: driver.clone(), begun: Instant::now(), now: Mutex::new(("start".to_owned(), None)) };
        let shared = Arc::new(shared);
        let (stop, stopped) = mpsc::channel();
        let printed = Arc::clone(&shared);
        let printing = std::thread::spawn(move || {
            while stopped.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
                printed.print();
            }
        });
        Self { shared, stop: Some(stop), printing: Some(printing) }
    }

    /// Times some work. Returns the seconds.
    pub(crate) fn time(&self, what: &str, work: impl FnOnce()) -> f64 {
        *self.shared.now() = (what.to_owned(), None);
        self.shared.print();
        let begun = Instant::now();
        work();
        let seconds = begun.elapsed().as_secs_f64();
        println!("       {what}: took {seconds:.1} s");
        (seconds * 10.0).round() / 10.0
    }

    /// Waits until so many are done, for as long as their number changes. `known`: what a failure
    /// shows.
    pub(crate) fn wait(
        &self,
        what: &str,
        wanted: usize,
        known: impl FnOnce() -> String,
        mut done: impl FnMut() -> usize,
    ) {
        let mut last = (0, Instant::now());
        loop {
            let asked = Instant::now();
            let now = done();
            if now == wanted {
                return;
            }
            *self.shared.now() = (format!("{what}, of {wanted}"), Some(now));
            if now != last.0 {
                last = (now, Instant::now());
            }
            if last.1.elapsed() > LONGEST_REST {
                panic!("{what}: {now} of {wanted}, and nothing changes any more\n{}", known());
            }
            std::thread::park_timeout((asked.elapsed() * 4).clamp(SHORTEST_PAUSE, LONGEST_PAUSE));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(printing) = self.printing.take() {
            let _ = printing.join();
        }
    }
}
