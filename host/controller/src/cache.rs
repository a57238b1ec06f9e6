//! The objects of one kind, kept by a watch, and what this program has written and the watch does
//! not show yet.
//!
//! A watch follows some time after a write. Whoever read the object as it was before would do its
//! work again.

use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::StreamExt as _;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::reflector::store::WriterDropped;
use kube::runtime::reflector::{ObjectRef, Store, store};
use kube::runtime::watcher::{Config, Event, watcher};
use kube::{Api, Client, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use tracing::warn;

/// What is called with each object that was added, changed or deleted (then with `true`).
pub(crate) type OnChange<K> = Box<dyn Fn(&K, bool) + Send>;

/// The objects of one kind.
#[derive(Debug, Clone)]
pub(crate) struct Cache<K>
where
    K: Resource<DynamicType: Clone + Debug + Eq + Hash> + Clone + 'static,
{
    watched: Store<K>,
    written: Arc<Mutex<HashMap<ObjectRef<K>, Arc<K>>>>,
}

impl<K> Cache<K>
where
    K: Resource<DynamicType: Clone + Debug + Default + Eq + Hash + Send + Sync + Unpin>
        + Clone
        + Debug
        + DeserializeOwned
        + Send
        + Sync
        + 'static,
{
    /// Starts the watch. Needs a tokio runtime.
    pub(crate) fn start(client: &Client, on_change: OnChange<K>) -> Self {
        let (watched, writer) = store();
        let kind = K::plural(&K::DynamicType::default()).into_owned();
        let (api, known) = (Api::<K>::all(client.clone()), watched.clone());
        tokio::spawn(async move {
            // Who has written which field is never asked, and is the largest part of many objects.
            let stream = watcher(api, Config::default())
                .default_backoff()
                .modify(|object| object.managed_fields_mut().clear())
                .reflect(writer);
            let mut stream = std::pin::pin!(stream);
            while let Some(event) = stream.next().await {
                match event {
                    Ok(Event::Apply(object)) => on_change(&object, false),
                    Ok(Event::Delete(object)) => on_change(&object, true),
                    // Only now all that was listed can be read from the cache.
                    Ok(Event::InitDone) => known.state().iter().for_each(|object| on_change(object, false)),
                    Ok(Event::Init | Event::InitApply(_)) => {}
                    Err(error) => warn!(kind, "the API server's objects cannot be watched now: {error}"),
                }
            }
        });
        Self { watched, written: Arc::default() }
    }

    /// Waits until all objects are known.
    ///
    /// # Errors
    /// The watch has ended, which it does not.
    pub(crate) async fn wait_ready(&self) -> Result<(), WriterDropped> {
        self.watched.wait_until_ready().await
    }

    /// The object, as the watch shows it or as this program has written it, whichever is newer.
    pub(crate) fn get(&self, key: &ObjectRef<K>) -> Option<Arc<K>> {
        let watched = self.watched.get(key);
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        match (&watched, written.get(key)) {
            (Some(shown), Some(own)) if is_newer(&**own, &**shown) => Some(Arc::clone(own)),
            // Shown or replaced by now, or gone.
            _ => {
                written.remove(key);
                watched
            }
        }
    }

    /// An object for which this holds.
    pub(crate) fn find(&self, predicate: impl Fn(&K) -> bool) -> Option<Arc<K>> {
        self.watched.find(predicate)
    }

    /// All objects.
    pub(crate) fn all(&self) -> Vec<Arc<K>> {
        self.watched.state()
    }

    /// The object is now this: the API server's answer to a write of this program.
    pub(crate) fn wrote(&self, mut object: K) {
        object.managed_fields_mut().clear();
        let key = ObjectRef::from_obj_with(&object, K::DynamicType::default());
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        if written.get(&key).is_none_or(|before| is_newer(&object, &**before)) {
            written.insert(key, Arc::new(object));
        }
    }
}

/// Whether an object has a later version than another. Versions of one kind are numbers that grow
/// (Kubernetes 1.35, KEP 5504), of any length and without leading zeros.
fn is_newer<K: Resource>(one: &K, other: &K) -> bool {
    let version = |object: &K| object.meta().resource_version.as_deref().map(|text| (text.len(), text.to_owned()));
    version(one) > version(other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::PersistentVolume;
    use kube::runtime::reflector::store::Writer;

    fn volume(version: &str, phase: &str) -> PersistentVolume {
        serde_json::from_value(serde_json::json!({
            "metadata": { "name": "a", "resourceVersion": version }, "status": { "phase": phase },
        }))
        .unwrap()
    }

    fn show(writer: &mut Writer<PersistentVolume>, version: &str, phase: &str) {
        writer.apply_watcher_event(&Event::Apply(volume(version, phase)));
    }

    fn phase(cache: &Cache<PersistentVolume>) -> Option<String> {
        cache.get(&ObjectRef::new("a"))?.status.clone()?.phase
    }

    #[test]
    fn what_was_written_is_read_until_the_watch_shows_something_newer() {
        let (watched, mut writer) = store();
        let cache = Cache { watched, written: Arc::default() };
        show(&mut writer, "9", "before");
        cache.wrote(volume("10", "written"));
        assert_eq!(phase(&cache).as_deref(), Some("written"));
        // Two answers of which the older one comes later.
        cache.wrote(volume("8", "late"));
        assert_eq!(phase(&cache).as_deref(), Some("written"));
        show(&mut writer, "11", "by another program");
        assert_eq!(phase(&cache).as_deref(), Some("by another program"));
        assert!(cache.written.lock().unwrap().is_empty());
    }

    #[test]
    fn an_object_that_is_gone_is_not_read_from_what_was_written() {
        let (watched, mut writer) = store();
        let cache = Cache { watched, written: Arc::default() };
        show(&mut writer, "1", "before");
        cache.wrote(volume("2", "written"));
        writer.apply_watcher_event(&Event::Delete(volume("3", "written")));
        assert_eq!(phase(&cache), None);
        assert!(cache.written.lock().unwrap().is_empty());
    }
}
