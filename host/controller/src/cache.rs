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
use kube::runtime::watcher::{Config, Event};
use kube::{Api, Client, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::warn;
use volhost_cluster_client::watch_all;

/// What is called with each object that was added, changed or deleted (then with `true`).
pub(crate) type OnChange<K> = Box<dyn Fn(&K, bool) + Send>;

/// The objects of one kind.
#[derive(Debug, Clone)]
pub(crate) struct Cache<K>
where
    K: Resource<DynamicType: Clone + Debug + Eq + Hash> + Clone + 'static,
{
    watched: Store<K>,
    written: Arc<Mutex<Written<K>>>,
    /// Ends the watch with the last clone.
    _watch: Arc<DropGuard>,
}

/// What this program has written, until the watch shows it.
#[derive(Debug)]
struct Written<K>
where
    K: Resource<DynamicType: Clone + Debug + Eq + Hash> + Clone + 'static,
{
    changed: HashMap<ObjectRef<K>, Arc<K>>,
    /// Objects that the watch has never shown, and the lists that it had begun when they were made.
    created: HashMap<ObjectRef<K>, (Arc<K>, u64)>,
    lists: u64,
}

impl<K> Default for Written<K>
where
    K: Resource<DynamicType: Clone + Debug + Eq + Hash> + Clone + 'static,
{
    fn default() -> Self {
        Self { changed: HashMap::new(), created: HashMap::new(), lists: 0 }
    }
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
        Self::start_with(client, Config::default(), on_change)
    }

    /// Starts the watch of the object of this name alone.
    pub(crate) fn start_for(client: &Client, name: &str, on_change: OnChange<K>) -> Self {
        Self::start_with(client, Config::default().fields(&format!("metadata.name={name}")), on_change)
    }

    fn start_with(client: &Client, config: Config, on_change: OnChange<K>) -> Self {
        Self::start_over(Api::<K>::all(client.clone()), config, on_change)
    }

    /// Starts the watch of those objects of `api` that `config` selects.
    pub(crate) fn start_over(api: Api<K>, config: Config, on_change: OnChange<K>) -> Self {
        let (watched, writer) = store();
        let kind = K::plural(&K::DynamicType::default()).into_owned();
        let stop = CancellationToken::new();
        let cache = Self { watched, written: Arc::default(), _watch: Arc::new(stop.clone().drop_guard()) };
        let (known, written) = (cache.watched.clone(), Arc::clone(&cache.written));
        let watch = async move {
            // Who has written which field is never asked, and is the largest part of many objects.
            let stream = watch_all(api, config).modify(|object| object.managed_fields_mut().clear()).reflect(writer);
            let mut stream = std::pin::pin!(stream);
            let mut problem = String::new();
            while let Some(event) = stream.next().await {
                if let Ok(event) = &event {
                    note(&mut written.lock().unwrap_or_else(PoisonError::into_inner), event);
                }
                match event {
                    Ok(Event::Apply(object)) => on_change(&object, false),
                    Ok(Event::Delete(object)) => on_change(&object, true),
                    Ok(Event::InitDone) => {
                        problem.clear();
                        // Only now all that was listed can be read from the cache.
                        known.state().iter().for_each(|object| on_change(object, false));
                    }
                    Ok(Event::Init | Event::InitApply(_)) => {}
                    // The same one may come every half minute for days.
                    Err(error) if error.to_string() != problem => {
                        problem = error.to_string();
                        warn!(kind, "the API server's objects cannot be watched now: {problem}");
                    }
                    Err(_) => {}
                }
            }
        };
        tokio::spawn(async move { stop.run_until_cancelled(watch).await });
        cache
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
        match (watched, written.changed.get(key)) {
            (Some(shown), Some(own)) if is_newer(&**own, &*shown) => Some(Arc::clone(own)),
            (None, _) if let Some((own, _)) = written.created.get(key) => Some(Arc::clone(own)),
            // Shown or replaced by now, or gone.
            (watched, _) => {
                written.changed.remove(key);
                watched
            }
        }
    }

    /// An object for which this holds, as [`Cache::get`] returns it.
    pub(crate) fn find(&self, predicate: impl Fn(&K) -> bool) -> Option<Arc<K>> {
        let has_written = {
            let written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
            !written.changed.is_empty() || !written.created.is_empty()
        };
        if !has_written {
            return self.watched.find(predicate);
        }
        self.all().into_iter().find(|object| predicate(object))
    }

    /// All objects, as [`Cache::get`] returns them.
    pub(crate) fn all(&self) -> Vec<Arc<K>> {
        let mut all = self.watched.state();
        let written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        let key = |object: &K| ObjectRef::from_obj_with(object, K::DynamicType::default());
        if !written.changed.is_empty() {
            for object in &mut all {
                if let Some(own) = written.changed.get(&key(object)).filter(|own| is_newer(&***own, &**object)) {
                    *object = Arc::clone(own);
                }
            }
        }
        let created = written.created.iter().filter(|(key, _)| self.watched.get(key).is_none());
        all.extend(created.map(|(_, (own, _))| Arc::clone(own)));
        all
    }

    /// The object is now this: the API server's answer to a write of this program.
    pub(crate) fn wrote(&self, object: K) {
        self.put(object, false);
    }

    /// The object was made by this program, and is this: the API server's answer.
    pub(crate) fn created(&self, object: K) {
        self.put(object, true);
    }

    fn put(&self, mut object: K, is_new: bool) {
        object.managed_fields_mut().clear();
        let key = ObjectRef::from_obj_with(&object, K::DynamicType::default());
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        let lists = written.lists;
        let is_shown = self.watched.get(&key).is_some();
        if !is_shown && (is_new || written.created.contains_key(&key)) {
            let before = written.created.get(&key);
            if before.is_none_or(|(before, _)| is_newer(&object, &**before)) {
                let lists = before.map_or(lists, |(_, lists)| *lists);
                written.created.insert(key, (Arc::new(object), lists));
            }
        } else if written.changed.get(&key).is_none_or(|before| is_newer(&object, &**before)) {
            written.changed.insert(key, Arc::new(object));
        }
    }
}

/// The watch has shown this: objects that it shows, or shows to be gone, are not new any more.
fn note<K>(written: &mut Written<K>, event: &Event<K>)
where
    K: Resource<DynamicType: Clone + Debug + Default + Eq + Hash> + Clone + 'static,
{
    let key = |object: &K| ObjectRef::from_obj_with(object, K::DynamicType::default());
    match event {
        Event::Apply(object) => {
            let key = key(object);
            if let Some((own, _)) = written.created.remove(&key) {
                written.changed.insert(key, own);
            }
        }
        Event::Delete(object) => {
            let key = key(object);
            written.created.remove(&key);
            written.changed.remove(&key);
        }
        Event::Init => written.lists = written.lists.saturating_add(1),
        Event::InitApply(_) => {}
        // What was made before the list was asked for is in it, or is gone.
        Event::InitDone => {
            let lists = written.lists;
            written.created.retain(|_, (_, begun)| *begun >= lists);
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

    fn cache(watched: Store<PersistentVolume>) -> Cache<PersistentVolume> {
        Cache { watched, written: Arc::default(), _watch: Arc::new(CancellationToken::new().drop_guard()) }
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
        let cache = cache(watched);
        show(&mut writer, "9", "before");
        cache.wrote(volume("10", "written"));
        assert_eq!(phase(&cache).as_deref(), Some("written"));
        // Two answers of which the older one comes later.
        cache.wrote(volume("8", "late"));
        assert_eq!(phase(&cache).as_deref(), Some("written"));
        show(&mut writer, "11", "by another program");
        assert_eq!(phase(&cache).as_deref(), Some("by another program"));
        assert!(cache.written.lock().unwrap().changed.is_empty());
    }

    #[test]
    fn an_object_that_is_gone_is_not_read_from_what_was_written() {
        let (watched, mut writer) = store();
        let cache = cache(watched);
        show(&mut writer, "1", "before");
        cache.wrote(volume("2", "written"));
        writer.apply_watcher_event(&Event::Delete(volume("3", "written")));
        assert_eq!(phase(&cache), None);
        assert!(cache.written.lock().unwrap().changed.is_empty());
    }

    #[test]
    fn an_object_that_was_made_is_read_until_the_watch_shows_it_or_shows_that_it_is_gone() {
        let (watched, mut writer) = store();
        let cache = cache(watched);
        let mut event = |event: Event<PersistentVolume>| {
            writer.apply_watcher_event(&event);
            note(&mut cache.written.lock().unwrap(), &event);
        };
        event(Event::Init);
        event(Event::InitDone);
        assert_eq!(phase(&cache), None);
        cache.created(volume("2", "made"));
        cache.wrote(volume("3", "written"));
        assert_eq!(phase(&cache).as_deref(), Some("written"));
        event(Event::Apply(volume("2", "made")));
        assert_eq!(phase(&cache).as_deref(), Some("written"));
        event(Event::Delete(volume("4", "written")));
        assert_eq!(phase(&cache), None);
        // Made, and gone while the watch was broken.
        cache.created(volume("5", "made"));
        event(Event::Init);
        assert_eq!(phase(&cache).as_deref(), Some("made"));
        event(Event::InitDone);
        assert_eq!(phase(&cache), None);
        // Made after the list was asked for: it need not be in it.
        event(Event::Init);
        cache.created(volume("6", "made"));
        event(Event::InitDone);
        assert_eq!(phase(&cache).as_deref(), Some("made"));
    }
}
