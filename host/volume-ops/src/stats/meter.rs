//! Measures volumes on demand. A volume whose storage hangs occupies one thread; its last figures
//! are shown until it answers.
//!
//! ```text
//!  request ──> volumes not measured lately ──> one pool a plugin ──> measure ──> answer
//!     └───── waits for the answers, for a bounded time ──────────────────────┘
//! ```

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tracing::debug;
use volhost_model::names::PluginName;
use volhost_model::view::{EventKind, UsageView};

use super::MeteredVolume;
use super::measure::{VolumeFigures, measure};
use crate::events::{EventSink, NewEvent};
use crate::volume_ops::VolumeOps;
use crate::worker_pool::WorkerPool;

/// How long a request waits for all answers. Local file systems answer within microseconds, a
/// healthy server within milliseconds; a scraper gives up after some seconds.
const WAIT: Duration = Duration::from_millis(250);
/// An answer younger than this is shown again: two requests ask the storage once.
const FRESH: Duration = Duration::from_secs(10);
/// An answer that took long is shown again for this many times as long: adding up files costs at
/// most a twentieth of a processor.
const FRESH_FOR_COST: u32 = 20;
/// An answer this much older than fresh is dropped: no request came for long.
const KEPT: Duration = Duration::from_secs(180);
/// Threads that volumes of one plugin may occupy. With so many hung, no other volume of this plugin
/// is measured.
const MAX_WORKERS: usize = 64;

/// Measures volumes on demand.
#[derive(Debug)]
pub struct VolumeMeter {
    /// Weak: once the node has ended, no task may keep the root folder open.
    volume_ops: Weak<VolumeOps>,
    /// How long a plugin's own code may run for one answer.
    plugin_time: Duration,
    shared: Arc<MeterShared>,
    /// Receives the events about volumes that are abnormal, or normal again.
    events: EventSink,
}

#[derive(Debug, Default)]
struct MeterShared {
    state: Mutex<MeterState>,
    answered: Condvar,
}

#[derive(Debug, Default)]
struct MeterState {
    volumes: HashMap<MeteredVolume, MeterEntry>,
    pools: HashMap<PluginName, WorkerPool>,
}

/// The last answer of one volume, and the running request.
#[derive(Debug, Default)]
struct MeterEntry {
    answer: Option<CachedFigures>,
    /// When it was asked, if it has not answered yet.
    asked: Option<Instant>,
}

#[derive(Debug)]
struct CachedFigures {
    found: VolumeFigures,
    at: Instant,
    fresh_for: Duration,
}

impl CachedFigures {
    fn is_fresh(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.at) < self.fresh_for
    }

    fn is_kept(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.at) < self.fresh_for.saturating_add(KEPT)
    }
}

impl MeterShared {
    /// Every change of the state is complete at any moment, so a thread that panicked with the lock
    /// has broken nothing.
    fn lock(&self) -> MutexGuard<'_, MeterState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl VolumeMeter {
    /// Creates a meter. `plugin_time`: how long a plugin's own code may run for one answer.
    /// `events` receives events about volumes that are abnormal, or normal again.
    pub fn new(volume_ops: &Arc<VolumeOps>, plugin_time: Duration, events: EventSink) -> Self {
        Self { volume_ops: Arc::downgrade(volume_ops), plugin_time, shared: Arc::default(), events }
    }

    /// Returns how full these volumes are, in their order. Blocks for at most a quarter of a
    /// second, whatever the storage does.
    pub fn measure(&self, volumes: Vec<MeteredVolume>) -> Vec<(MeteredVolume, UsageView)> {
        let now = Instant::now();
        self.ask(&volumes, now);
        let state = self.wait(now);
        let moments = Moments { now: Instant::now(), now_us: now_us() };
        let view = |volume: &MeteredVolume| state.volumes.get(volume).map(|known| known.view(&moments));
        let mut seen = Vec::with_capacity(volumes.len());
        for volume in volumes {
            let usage = view(&volume).unwrap_or_default();
            seen.push((volume, usage));
        }
        seen
    }

    /// Returns how many volumes of each plugin have not answered since an earlier request.
    pub fn unanswered(&self) -> HashMap<PluginName, u64> {
        let mut counted = HashMap::new();
        for (volume, known) in &self.shared.lock().volumes {
            *counted.entry(volume.plugin.clone()).or_default() += u64::from(known.asked.is_some());
        }
        counted
    }

    /// Measures every volume that is due, and forgets those that no request names any more.
    fn ask(&self, wanted: &[MeteredVolume], now: Instant) {
        let Some(volume_ops) = self.volume_ops.upgrade() else { return };
        let mut state = self.shared.lock();
        let MeterState { volumes, pools } = &mut *state;
        // One that hangs is kept: its thread will come back.
        volumes.retain(|_, known| known.asked.is_some() || known.answer.as_ref().is_some_and(|it| it.is_kept(now)));
        for volume in wanted {
            let known = volumes.entry(volume.clone()).or_default();
            if known.asked.is_some() || known.answer.as_ref().is_some_and(|answer| answer.is_fresh(now)) {
                continue;
            }
            let pool = pools.entry(volume.plugin.clone()).or_insert_with(|| WorkerPool::new(MAX_WORKERS));
            let (volume_ops, shared, plugin_time) = (volume_ops.clone(), self.shared.clone(), self.plugin_time);
            let (volume, events) = (volume.clone(), self.events.clone());
            let asked = pool.push(Box::new(move || {
                let begun = Instant::now();
                let found = measure(&volume_ops, &volume, plugin_time);
                // Before the answer is published: the end of the node must not wait for this handle
                // of its folder.
                drop(volume_ops);
                if let Some(problem) = &found.problem {
                    debug!(volume = %volume.volume, plugin = %volume.plugin, problem, "the volume does not say how full it is");
                }
                let at = Instant::now();
                let fresh_for = at.saturating_duration_since(begun).saturating_mul(FRESH_FOR_COST).max(FRESH);
                let now = found.measured.abnormal.clone();
                let answer = Some(CachedFigures { found, at, fresh_for });
                let before = match shared.lock().volumes.get_mut(&volume) {
                    Some(known) => std::mem::replace(known, MeterEntry { asked: None, answer }).answer,
                    None => None,
                };
                let before = before.and_then(|answer| answer.found.measured.abnormal);
                if let Some(event) = condition_event(&volume, before, now) {
                    events.emit(event);
                }
                shared.answered.notify_all();
            }));
            // Without a thread for it, it is asked again at the next look.
            known.asked = asked.is_ok().then_some(now);
        }
    }

    /// Waits until all volumes that were asked at `asked` have answered, for at most [`WAIT`].
    fn wait(&self, asked: Instant) -> MutexGuard<'_, MeterState> {
        let mut state = self.shared.lock();
        let end = asked + WAIT;
        while state.volumes.values().any(|known| known.asked == Some(asked)) {
            let now = Instant::now();
            let scale_up = state.pools.values().filter_map(WorkerPool::next_scale_up).min();
            let until = scale_up.map_or(end, |scale_up| scale_up.min(end));
            if now >= end {
                break;
            }
            for pool in state.pools.values() {
                pool.scale_up(now);
            }
            let left = until.saturating_duration_since(now).max(Duration::from_millis(1));
            state = self.shared.answered.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        state
    }
}

/// Returns the event for a volume whose condition changed.
fn condition_event(volume: &MeteredVolume, before: Option<String>, now: Option<String>) -> Option<NewEvent> {
    let (kind, reason, message) = match (before, now) {
        (before, Some(now)) if before.as_ref() != Some(&now) => {
            (EventKind::Warning, "VolumeConditionAbnormal", format!("it is not well: {now}"))
        }
        (Some(_), None) => (EventKind::Normal, "VolumeConditionNormal", "it is well again".to_owned()),
        _ => return None,
    };
    let object = format!("volume {}", volume.volume);
    Some(NewEvent { kind, reason: reason.to_owned(), object, message })
}

/// One moment on both clocks.
struct Moments {
    now: Instant,
    now_us: u64,
}

impl Moments {
    fn wall(&self, at: Instant) -> u64 {
        let ago = self.now.saturating_duration_since(at).as_micros();
        self.now_us.saturating_sub(u64::try_from(ago).unwrap_or(u64::MAX))
    }
}

impl MeterEntry {
    fn view(&self, moments: &Moments) -> UsageView {
        let asked_at = self.asked.map(|at| moments.wall(at));
        let Some(answer) = &self.answer else {
            return UsageView { asked_at, ..UsageView::default() };
        };
        let VolumeFigures { measured, problem } = &answer.found;
        UsageView {
            capacity: measured.capacity,
            available: measured.available,
            used: measured.used,
            inodes: measured.inodes,
            inodes_free: measured.inodes_free,
            inodes_used: measured.inodes_used,
            measured_at: Some(moments.wall(answer.at)),
            asked_at,
            abnormal: measured.abnormal.clone().unwrap_or_default(),
            problem: problem.clone().unwrap_or_default(),
        }
    }
}

/// Microseconds since the Unix epoch.
fn now_us() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
}
