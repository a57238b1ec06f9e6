//! How full volumes are. A volume whose storage hangs costs the thread that asked it, and is left out until it answers.
//!
//! ```text
//!  scrape ──> volumes not asked lately ──> one lane a plugin ──> usage (kernel) ──> answer
//!     └───── waits for the answers, but not long ─────────────────────────────────────┘
//! ```
//!
//! Nobody is asked when nobody looks.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tracing::debug;
use volhost_core::ClaimedVolume;
use volhost_kernel::{KernelError, Usage};
use volhost_model::names::PluginName;

use super::labels::{Claim, Plugin};
use crate::engine::lane::Lane;
use crate::engine::layout;
use crate::engine::operation::Workshop;

/// How long a scrape waits for answers, in all. Local file systems answer within microseconds, a healthy server within milliseconds;
/// a scraper gives up after some seconds.
const WAIT: Duration = Duration::from_millis(250);
/// An answer younger than this is shown again: two scrapers ask the storage once.
const FRESH: Duration = Duration::from_secs(10);
/// An answer older than this is not shown any more: the volume hangs, or nobody has looked for long.
const STALE: Duration = Duration::from_secs(180);
/// Threads that volumes of one plugin may hold. With so many hung, no other volume of this plugin is asked.
const LANE_WIDTH: usize = 8;

/// Asks volumes how full they are.
#[derive(Debug)]
pub struct VolumeMeter {
    /// The engine's: once it has ended, nobody may hold the root folder open.
    workshop: Weak<Workshop>,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    answered: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// By claim.
    volumes: HashMap<String, Known>,
    lanes: HashMap<PluginName, Lane>,
}

/// What is known of one volume.
#[derive(Debug)]
struct Known {
    plugin: PluginName,
    /// The last answer and when it came.
    answer: Option<(Usage, Instant)>,
    /// When it was asked, if it has not answered.
    asked: Option<Instant>,
}

impl Shared {
    /// Every change of the state is whole at any moment, so a thread that unwound while it held the lock has broken nothing.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl VolumeMeter {
    /// A meter that has asked nobody yet.
    pub fn new(workshop: &Arc<Workshop>) -> Self {
        Self { workshop: Arc::downgrade(workshop), shared: Arc::default() }
    }

    /// Puts how full these volumes are into a registry. Blocks for a quarter of a second at most, whatever the storage does.
    pub(super) fn register(&self, registry: &mut Registry, claims: &[ClaimedVolume]) {
        let now = Instant::now();
        self.ask(claims, now);
        let state = self.wait(now);
        let gauges = Gauges::default();
        for (claim, known) in &state.volumes {
            match known.answer {
                Some((usage, at)) if now.saturating_duration_since(at) < STALE => gauges.set(claim, &usage),
                _ => {}
            }
            let hangs = known.asked.is_some_and(|asked| asked <= now);
            gauges.unanswered.get_or_create(&Plugin { plugin_name: known.plugin.to_string() }).inc_by(i64::from(hangs));
        }
        drop(state);
        gauges.register(registry);
    }

    /// Asks every volume that is due, and forgets those that are gone.
    fn ask(&self, claims: &[ClaimedVolume], now: Instant) {
        let Some(workshop) = self.workshop.upgrade() else { return };
        let mut state = self.shared.lock();
        let State { volumes, lanes } = &mut *state;
        let there: HashSet<&str> = claims.iter().map(|claimed| claimed.claim.as_str()).collect();
        // One that hangs is kept: its thread will come back.
        volumes.retain(|name, known| known.asked.is_some() || there.contains(name.as_str()));
        for claimed in claims {
            let known = volumes.entry(claimed.claim.clone()).or_insert_with(|| Known {
                plugin: claimed.plugin.clone(),
                answer: None,
                asked: None,
            });
            let fresh = known.answer.is_some_and(|(_, at)| now.saturating_duration_since(at) < FRESH);
            if known.asked.is_some() || fresh {
                continue;
            }
            let lane = lanes.entry(claimed.plugin.clone()).or_insert_with(|| Lane::new(LANE_WIDTH));
            let (workshop, shared, volume) = (workshop.clone(), self.shared.clone(), claimed.clone());
            let asked = lane.push(Box::new(move || {
                let usage = usage(&workshop, &volume);
                if let Err(error) = &usage {
                    debug!(claim = volume.claim, plugin = %volume.plugin, %error, "the volume does not say how full it is");
                }
                if let Some(known) = shared.lock().volumes.get_mut(&volume.claim) {
                    known.asked = None;
                    known.answer = usage.ok().map(|usage| (usage, Instant::now()));
                }
                shared.answered.notify_all();
            }));
            // Without a thread for it, it is asked again by the next scrape.
            known.asked = asked.is_ok().then_some(now);
        }
    }

    /// Waits until all that were asked at `asked` have answered, but not long.
    fn wait(&self, asked: Instant) -> MutexGuard<'_, State> {
        let mut state = self.shared.lock();
        let end = asked + WAIT;
        while state.volumes.values().any(|known| known.asked == Some(asked)) {
            let now = Instant::now();
            let relief = state.lanes.values().filter_map(Lane::next_relief).min();
            let until = relief.map_or(end, |relief| relief.min(end));
            if now >= end {
                break;
            }
            for lane in state.lanes.values() {
                lane.relieve(now);
            }
            let left = until.saturating_duration_since(now).max(Duration::from_millis(1));
            state = self.shared.answered.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        state
    }
}

/// Asks the kernel; may hang as long as the storage does.
fn usage(workshop: &Workshop, volume: &ClaimedVolume) -> Result<Usage, KernelError> {
    let folder = workshop.kernel.walk(&workshop.root, &layout::plugin_folder(&volume.pod, &volume.plugin))?;
    workshop.kernel.usage(&folder, OsStr::new(volume.spec_name.as_str()))
}

type OfClaims = Family<Claim, Gauge>;

/// The kubelet's six figures, and how many volumes owe an answer.
#[derive(Default)]
struct Gauges {
    capacity: OfClaims,
    available: OfClaims,
    used: OfClaims,
    inodes: OfClaims,
    inodes_free: OfClaims,
    inodes_used: OfClaims,
    unanswered: Family<Plugin, Gauge>,
}

impl Gauges {
    fn set(&self, claim: &str, usage: &Usage) {
        let (namespace, name) = claim.split_once('/').unwrap_or(("", claim));
        let labels = Claim { namespace: namespace.to_owned(), persistentvolumeclaim: name.to_owned() };
        for (family, value) in [
            (&self.capacity, usage.capacity),
            (&self.available, usage.available),
            (&self.used, usage.used),
            (&self.inodes, usage.inodes),
            (&self.inodes_free, usage.inodes_free),
            (&self.inodes_used, usage.inodes_used),
        ] {
            family.get_or_create(&labels).set(i64::try_from(value).unwrap_or(i64::MAX));
        }
    }

    fn register(self, registry: &mut Registry) {
        for (name, help, family) in [
            ("capacity_bytes", "Size of the volume's file system", self.capacity),
            ("available_bytes", "Bytes that an ordinary user may still write", self.available),
            ("used_bytes", "Bytes in use", self.used),
            ("inodes", "Files the file system may hold", self.inodes),
            ("inodes_free", "Files it may still hold", self.inodes_free),
            ("inodes_used", "Files it holds", self.inodes_used),
        ] {
            registry.register(format!("kubelet_volume_stats_{name}"), help, family);
        }
        registry.register(
            "volhost_volume_stats_unanswered",
            "Volumes that were asked how full they are and have not answered: their storage hangs",
            self.unanswered,
        );
    }
}
