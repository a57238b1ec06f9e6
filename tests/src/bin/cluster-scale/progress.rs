//! Progress on standard output, and waiting as long as there is progress.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::counts::Counts;
use crate::driver::ScaleDriver;
use crate::interruption;

/// How often it is printed.
const EVERY: Duration = Duration::from_secs(10);
/// The shortest and the longest pause between two looks. A look at many objects takes processor
/// time from what is measured: four times as long passes until the next.
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Prints what goes on. Dropping it ends that.
pub(crate) struct Progress {
    shared: Arc<Shared>,
    /// How long nothing may change.
    longest_rest: Duration,
    stop: Option<Sender<()>>,
    printing: Option<JoinHandle<()>>,
}

struct Shared {
    driver: ScaleDriver,
    counts: Arc<Counts>,
    begun: Instant,
    now: Mutex<Now>,
}

/// What goes on.
#[derive(Debug, Clone, Default)]
struct Now {
    step: String,
    /// A part of the step, and how much of it is done.
    part: Option<(String, usize, usize)>,
}

impl Shared {
    fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn print(&self) {
        let Now { step, part } = self.now().clone();
        let what = part.map_or(step, |(part, done, wanted)| format!("{part}: {done} of {wanted}"));
        let counts = &self.counts;
        let (volumes, attached, staged) = {
            let account = self.driver.account();
            (account.volumes(), account.attached(), account.staged())
        };
        println!(
            "{:>5} s: {what} ({volumes} volumes, {} bound, {attached} attached, {} so reported, {} listed, {staged} staged)",
            self.begun.elapsed().as_secs(),
            counts.bound(),
            counts.attached(),
            counts.listed(),
        );
    }
}

impl Progress {
    pub(crate) fn start(driver: &ScaleDriver, counts: &Arc<Counts>, longest_rest: Duration) -> Self {
        let (driver, counts) = (driver.clone(), Arc::clone(counts));
        let shared = Arc::new(Shared { driver, counts, begun: Instant::now(), now: Mutex::default() });
        let (stop, stopped) = mpsc::channel();
        let printed = Arc::clone(&shared);
        let printing = std::thread::spawn(move || {
            while stopped.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
                printed.print();
            }
        });
        Self { shared, longest_rest, stop: Some(stop), printing: Some(printing) }
    }

    /// Times some work. Returns the seconds.
    pub(crate) fn time(&self, what: &str, work: impl FnOnce()) -> f64 {
        *self.shared.now() = Now { step: what.to_owned(), part: None };
        self.shared.print();
        let begun = Instant::now();
        work();
        let seconds = begun.elapsed().as_secs_f64();
        println!("       {what}: took {seconds:.1} s");
        (seconds * 10.0).round() / 10.0
    }

    /// Notes how much of a part of the step is done.
    pub(crate) fn note(&self, part: &str, done: usize, wanted: usize) {
        self.shared.now().part = Some((part.to_owned(), done, wanted));
    }

    /// What goes on now, for the report of a run that ends early.
    pub(crate) fn now(&self) -> String {
        let Now { step, part } = self.shared.now().clone();
        match part {
            Some((part, done, wanted)) => format!("{step}: {part}: {done} of {wanted}"),
            None => step,
        }
    }

    /// Waits until so many are done, for as long as their number changes. `known`: what a failure
    /// shows. Unwinds at a signal.
    pub(crate) fn wait(
        &self,
        what: &str,
        wanted: usize,
        known: impl FnOnce() -> String,
        mut done: impl FnMut() -> usize,
    ) {
        let mut last = (0, Instant::now());
        loop {
            interruption::check();
            let asked = Instant::now();
            let now = done();
            self.note(what, now, wanted);
            if now == wanted {
                return;
            }
            if now != last.0 {
                last = (now, Instant::now());
            }
            if last.1.elapsed() > self.longest_rest {
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
