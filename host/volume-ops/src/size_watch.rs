//! The volumes whose size is watched, and when each is measured.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use volhost_model::Pod;
use volhost_model::names::{PluginName, PodUid, SpecName};
use volhost_model::view::EventKind;

use super::events::NewEvent;

/// How often a volume is measured: as often as the kubelet looks for pods to evict.
const PERIOD: Duration = Duration::from_secs(10);
/// A volume is measured again after this many times what measuring took: at most a twentieth of a
/// processor goes into it.
const RESTS: u32 = 20;
/// The event's reasons.
const EXCEEDS: &str = "ExceedsSizeLimit";
const WITHIN: &str = "WithinSizeLimit";

/// One volume of a pod.
pub(super) type PodVolumeKey = (PodUid, PluginName, SpecName);

/// The watched volumes.
#[derive(Debug, Default)]
pub(super) struct SizeWatch {
    volumes: Mutex<HashMap<PodVolumeKey, WatchedSize>>,
    /// A volume was added or measured.
    changed: Arc<Notify>,
}

#[derive(Debug)]
struct WatchedSize {
    /// The pod, `namespace/name`.
    pod: String,
    /// In bytes.
    limit: u64,
    /// When it is to be measured next; none while it is being measured.
    due: Option<Instant>,
    /// An event said that it is too large.
    notified: bool,
}

impl SizeWatch {
    /// Every change of the map is complete at any moment, so a thread that panicked with the lock
    /// has broken nothing.
    fn lock(&self) -> MutexGuard<'_, HashMap<PodVolumeKey, WatchedSize>> {
        self.volumes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Watches a volume from now on, or no longer when there is no limit.
    pub(super) fn watch(&self, pod: &Pod, plugin: &PluginName, spec_name: &SpecName, limit: Option<u64>) {
        let Some(limit) = limit else {
            return self.forget(&pod.uid, plugin, spec_name);
        };
        let key = (pod.uid.clone(), plugin.clone(), spec_name.clone());
        let mut volumes = self.lock();
        let known = volumes.entry(key).or_insert_with(|| WatchedSize {
            pod: pod.full_name(),
            limit,
            due: Some(Instant::now() + PERIOD),
            notified: false,
        });
        known.limit = limit;
        drop(volumes);
        self.changed.notify_one();
    }

    /// Stops watching the volume.
    pub(super) fn forget(&self, pod: &PodUid, plugin: &PluginName, spec_name: &SpecName) {
        self.lock().remove(&(pod.clone(), plugin.clone(), spec_name.clone()));
    }

    /// Is notified when a volume was added or measured.
    pub(super) fn changed(&self) -> Arc<Notify> {
        Arc::clone(&self.changed)
    }

    /// When the next volume is due.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.lock().values().filter_map(|watched| watched.due).min()
    }

    /// The volumes that are due; they are being measured from now on.
    pub(super) fn take_due(&self, now: Instant) -> Vec<PodVolumeKey> {
        let mut volumes = self.lock();
        let due = volumes.iter_mut().filter(|(_, watched)| watched.due.is_some_and(|due| due <= now));
        due.map(|(key, watched)| {
            watched.due = None;
            key.clone()
        })
        .collect()
    }

    /// MountRecords how large a volume was found. Returns the event for its pod, if it crossed its
    /// limit.
    pub(super) fn measured(&self, key: &PodVolumeKey, found: Option<u64>, took: Duration) -> Option<NewEvent> {
        let mut volumes = self.lock();
        let watched = volumes.get_mut(key)?;
        watched.due = Some(Instant::now() + PERIOD.max(took.saturating_mul(RESTS)));
        let event = notify(watched, &key.2, found?);
        drop(volumes);
        self.changed.notify_one();
        event
    }
}

/// Returns the event when a volume becomes too large, and when it no longer is.
fn notify(watched: &mut WatchedSize, name: &SpecName, bytes: u64) -> Option<NewEvent> {
    let exceeds = bytes > watched.limit;
    if exceeds == watched.notified {
        return None;
    }
    watched.notified = exceeds;
    let limit = watched.limit;
    let (kind, reason, message) = if exceeds {
        let why = "nothing stops it from growing on this file system; delete files in it, or raise the limit";
        (
            EventKind::Warning,
            EXCEEDS,
            format!("volume \"{name}\" contains {bytes} bytes, which exceeds its limit of {limit}: {why}"),
        )
    } else {
        (
            EventKind::Normal,
            WITHIN,
            format!("volume \"{name}\" contains {bytes} bytes, which its limit of {limit} allows again"),
        )
    };
    Some(NewEvent { kind, reason: reason.to_owned(), object: format!("pod {}", watched.pod), message })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watched(limit: u64) -> WatchedSize {
        WatchedSize { pod: "default/a".to_owned(), limit, due: None, notified: false }
    }

    fn reason(event: Option<NewEvent>) -> Option<String> {
        event.map(|event| event.reason)
    }

    #[test]
    fn a_crossing_is_one_event_and_its_end_another() {
        let name = SpecName::new("cache").unwrap();
        let mut volume = watched(100);
        for (bytes, said) in
            [(100, None), (101, Some(EXCEEDS)), (5000, None), (100, Some(WITHIN)), (0, None), (200, Some(EXCEEDS))]
        {
            assert_eq!(reason(notify(&mut volume, &name, bytes)).as_deref(), said, "{bytes}");
        }
    }

    #[test]
    fn what_takes_long_is_measured_less_often_and_what_is_gone_never() {
        let watch = SizeWatch::default();
        let key = (PodUid::new("uid").unwrap(), PluginName::new("a/b").unwrap(), SpecName::new("cache").unwrap());
        let now = Instant::now();
        watch.lock().insert(key.clone(), WatchedSize { due: Some(now), ..watched(100) });
        assert_eq!(watch.take_due(now), std::slice::from_ref(&key));
        assert_eq!((watch.take_due(now), watch.next_due()), (Vec::new(), None), "it is being measured");
        let minute = Duration::from_secs(60);
        assert_eq!(reason(watch.measured(&key, Some(101), minute)).as_deref(), Some(EXCEEDS));
        assert!(watch.next_due().unwrap() >= now + 20 * minute);
        assert!(watch.measured(&key, None, Duration::ZERO).is_none(), "what could not be measured says nothing");
        assert!(watch.next_due().unwrap() <= Instant::now() + PERIOD);
        watch.forget(&key.0, &key.1, &key.2);
        assert!(watch.measured(&key, Some(0), Duration::ZERO).is_none() && watch.next_due().is_none());
    }
}
