//! The drivers' folder kept in step with: drivers that are installed, replaced or removed while volhost runs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use notify::event::{AccessKind, AccessMode};
use notify::{EventKind, RecursiveMode, Watcher};
use serde_json::Value;
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};
use volhost_model::BackOff;
use volhost_model::driver_programs::DriverAnswer;
use volhost_model::view::{DriverKind, DriverState};

use super::folder::{self, Found, Stamp};
use super::{FlexDrivers, Known, Standing, answer, run};
use crate::{DriverChange, DriverNews, DriverRow, DriverTable};

/// How long a driver may take to answer to its `init`; some load kernel modules.
const INIT_TIME: Duration = Duration::from_secs(60);
/// A day: for when nothing is due.
const NEVER: Duration = Duration::from_secs(86_400);
/// What the kubelet takes a driver to be able to do that does not say.
const CAPABILITIES: [(&str, bool); 5] = [
    ("attach", true),
    ("selinuxRelabel", true),
    ("supportsMetrics", false),
    ("fsGroup", true),
    ("requiresFSResize", true),
];

/// What is remembered of a driver between looks.
#[derive(Debug)]
struct Seen {
    found: Found,
    /// When `init` is to be run next, if it is.
    retry: Option<Retry>,
    /// An `init` of this driver is running.
    asking: bool,
}

/// The next `init` of a driver.
#[derive(Debug, Clone, Copy)]
struct Retry {
    at: Instant,
    /// How often in a row it has failed.
    failures: u32,
}

impl Retry {
    /// At once, as if it had never failed.
    fn now() -> Self {
        Self { at: Instant::now(), failures: 0 }
    }
}

/// How an `init` ended.
type InitEnd = (String, Stamp, Result<DriverAnswer, String>);

/// Looks at the drivers' folder whenever it changes, and asks each driver that is new or changed once what it can do, until `shutdown`. One
/// that does not answer well is asked again, ever more seldom. `reload` asks for another look, and every failed driver at once.
pub async fn watch(
    drivers: Arc<FlexDrivers>,
    table: Arc<DriverTable>,
    news: mpsc::Sender<DriverNews>,
    reload: Arc<Notify>,
    shutdown: CancellationToken,
) {
    let (poke, mut poked) = mpsc::channel::<()>(1);
    let (ended, mut ends) = mpsc::channel::<InitEnd>(16);
    let mut watching = Watching::new(drivers.folder.clone(), poke);
    let mut looks = Looks { drivers, table, news, ended, seen: BTreeMap::new() };
    loop {
        watching.arm();
        looks.look().await;
        let due = looks.ask_who_is_due();
        tokio::select! {
            () = shutdown.cancelled() => return,
            Some(()) = poked.recv() => {}
            Some(end) = ends.recv() => looks.take(end).await,
            () = reload.notified() => looks.retry_all(),
            () = sleep_until(due) => {}
        }
    }
}

/// The inotify side.
struct Watching {
    folder: PathBuf,
    watcher: Option<notify::RecommendedWatcher>,
}

impl Watching {
    fn new(folder: PathBuf, poke: mpsc::Sender<()>) -> Self {
        let within = folder.clone();
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            if event.map_or(true, |event| concerns(&within, &event)) {
                // A full channel means that a look is due already.
                let _ = poke.try_send(());
            }
        });
        let watcher = watcher.inspect_err(|error| {
            warn!(%error, "the folder of FlexVolume drivers cannot be watched; send SIGHUP after changing it");
        });
        Self { folder, watcher: watcher.ok() }
    }

    /// Watches the folder, each driver's folder in it, and the nearest folder above that is there, from which one that was removed is seen
    /// to come back. Before each look, so that no change is missed between the two; what is watched already stays so.
    fn arm(&mut self) {
        let Some(watcher) = &mut self.watcher else { return };
        let above = self.folder.ancestors().skip(1).find(|above| above.is_dir());
        let inside = std::fs::read_dir(&self.folder).into_iter().flatten().flatten().map(|entry| entry.path());
        let folders: Vec<PathBuf> = inside.filter(|path| path.is_dir()).collect();
        for folder in above.into_iter().chain([self.folder.as_path()]).chain(folders.iter().map(PathBuf::as_path)) {
            match watcher.watch(folder, RecursiveMode::NonRecursive) {
                // One that has gone since is seen to have gone from above.
                Err(error) if folder.exists() => {
                    warn!(folder = %folder.display(), %error, "a folder of FlexVolume drivers cannot be watched");
                }
                _ => {}
            }
        }
    }
}

/// Whether the event may have changed what the folder holds. Running a driver is an event too, and must not lead to another look.
fn concerns(folder: &Path, event: &notify::Event) -> bool {
    let reading = matches!(event.kind, EventKind::Access(kind) if kind != AccessKind::Close(AccessMode::Write));
    !reading
        && (event.paths.is_empty()
            || event.paths.iter().any(|path| path.starts_with(folder) || folder.starts_with(path)))
}

/// What has been seen, and whom that concerns.
struct Looks {
    drivers: Arc<FlexDrivers>,
    table: Arc<DriverTable>,
    news: mpsc::Sender<DriverNews>,
    ended: mpsc::Sender<InitEnd>,
    seen: BTreeMap<String, Seen>,
}

impl Looks {
    /// One look. A folder that cannot be read keeps what it had.
    async fn look(&mut self) {
        let folder = self.drivers.folder.clone();
        let found = match tokio::task::spawn_blocking(move || folder::drivers(&folder)).await {
            Ok(Ok(found)) => found,
            Ok(Err(error)) => {
                warn!(folder = %self.drivers.folder.display(), %error, "the folder of FlexVolume drivers cannot be read; those known before stay");
                return;
            }
            Err(error) => {
                warn!(%error, "a look at the folder of FlexVolume drivers ended early");
                return;
            }
        };
        let gone: Vec<String> = self.seen.keys().filter(|name| !found.contains_key(*name)).cloned().collect();
        for name in gone {
            self.seen.remove(&name);
            self.drivers.forget(&name);
            self.table.remove(DriverKind::Flex, &name);
            info!(driver = %name, "FlexVolume driver removed");
            self.tell(name, DriverChange::Removed).await;
        }
        for (name, found) in found {
            if self.seen.get(&name).is_some_and(|seen| seen.found == found) {
                continue;
            }
            let problem = found.program_is.clone().err();
            let standing = problem.clone().map_or(Standing::Starting, Standing::Failed);
            let location = found.program.display().to_string();
            self.drivers.keep(&name, &found.program, standing);
            let mut row = DriverRow::found(DriverKind::Flex, &name, location);
            if let Some(problem) = &problem {
                (row.state, row.error) = (DriverState::Failed, problem.clone());
            }
            self.table.put(row);
            let now = problem.is_none().then(Retry::now);
            let asking = self.seen.get(&name).is_some_and(|seen| seen.asking);
            self.seen.insert(name.clone(), Seen { found, retry: now, asking });
            if let Some(reason) = problem {
                self.tell(name, DriverChange::Failed(reason)).await;
            }
        }
        self.drivers.has_looked();
    }

    /// Starts every `init` that is due; when the next one is. Each has a thread of its own: one that hangs holds up no other.
    fn ask_who_is_due(&mut self) -> Instant {
        let now = Instant::now();
        let mut next = now + NEVER;
        for (name, seen) in self.seen.iter_mut().filter(|(_, seen)| !seen.asking) {
            let (Some(Retry { at, .. }), Ok(stamp)) = (seen.retry, &seen.found.program_is) else { continue };
            if at > now {
                next = next.min(at);
                continue;
            }
            seen.asking = true;
            let (drivers, ended, name, stamp) = (self.drivers.clone(), self.ended.clone(), name.clone(), *stamp);
            tokio::task::spawn_blocking(move || {
                let answer = init(&drivers, &name);
                // Nobody listens any more only when the process ends.
                let _ = ended.blocking_send((name, stamp, answer));
            });
        }
        next
    }

    async fn take(&mut self, (name, asked, answer): InitEnd) {
        let Some(seen) = self.seen.get_mut(&name) else { return };
        seen.asking = false;
        if seen.found.program_is != Ok(asked) {
            // It was replaced meanwhile: the new one is asked.
            return;
        }
        let program = seen.found.program.clone();
        let mut row = DriverRow::found(DriverKind::Flex, &name, program.display().to_string());
        match answer {
            Ok(answer) => {
                seen.retry = None;
                (row.state, row.capabilities) = (DriverState::Ready, capabilities(&answer));
                self.drivers.keep(&name, &program, Standing::Ready(answer));
                self.table.put(row);
                info!(driver = %name, "FlexVolume driver ready");
                self.tell(name, DriverChange::Ready).await;
            }
            Err(reason) => {
                let failures = seen.retry.map_or(0, |retry| retry.failures).saturating_add(1);
                seen.retry = Some(Retry { at: Instant::now() + BackOff::KUBELET.wait(failures), failures });
                (row.state, row.error) = (DriverState::Failed, reason.clone());
                self.drivers.keep(&name, &program, Standing::Failed(reason.clone()));
                if self.table.put(row) {
                    warn!(driver = %name, %reason, "FlexVolume driver failed");
                    self.tell(name, DriverChange::Failed(reason)).await;
                }
            }
        }
    }

    fn retry_all(&mut self) {
        for seen in self.seen.values_mut() {
            seen.retry = seen.retry.map(|_| Retry::now());
        }
    }

    async fn tell(&self, driver: String, what: DriverChange) {
        // Nobody listens any more only when the process ends.
        let _ = self.news.send(DriverNews { kind: DriverKind::Flex, driver, what }).await;
    }
}

/// Asks a driver what it can do.
pub(super) fn init(drivers: &FlexDrivers, name: &str) -> Result<DriverAnswer, String> {
    let known: Known = drivers.find(name).map_err(|error| error.to_string())?;
    let policy = drivers.policies.of(name);
    let outcome =
        run::run(name, &known, &policy, &["init".to_owned()], INIT_TIME).map_err(|error| error.to_string())?;
    let words = if outcome.words.is_empty() { String::new() } else { format!(" ({})", outcome.words) };
    let code =
        outcome.exit_code.map_or_else(|| "was ended by a signal".to_owned(), |code| format!("exited with {code}"));
    match outcome.answer {
        None => Err(format!("init: it {code} and answered nothing{words}")),
        Some(answer) if !answer::is_success(&answer) => Err(format!("init: {}{words}", answer::said(&answer))),
        Some(_) if outcome.exit_code != Some(0) => {
            Err(format!("init: it answered \"Success\" and {code}, which cannot both be right{words}"))
        }
        Some(answer) => Ok(answer),
    }
}

/// What a driver can do, with the kubelet's words and defaults.
fn capabilities(answer: &DriverAnswer) -> Vec<String> {
    let said = answer.get("capabilities").and_then(Value::as_object);
    let can = |(name, default): &(&str, bool)| {
        said.and_then(|said| said.get(*name)).and_then(Value::as_bool).unwrap_or(*default)
    };
    CAPABILITIES.iter().filter(|capability| can(capability)).map(|(name, _)| (*name).to_owned()).collect()
}
