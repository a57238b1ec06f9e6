//! A watch that reports changes and keeps no objects.

use std::fmt::Debug;

use futures_util::StreamExt as _;
use kube::runtime::watcher::{Config, Event};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tracing::warn;
use volhost_cluster_client::watch_all;

use super::state::Change;

/// Whether the objects of a kind have been listed.
pub(super) type Listed = watch::Receiver<bool>;

/// Starts the watch of all objects of a kind, until the last receiver is dropped. `on_change` is
/// called with each change, in order. Needs a tokio runtime.
pub(super) fn follow<K>(client: &Client, on_change: impl Fn(Change<K>) + Send + 'static) -> Listed
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let api = Api::<K>::all(client.clone());
    let (sender, listed) = watch::channel(false);
    tokio::spawn(async move {
        let mut stream = std::pin::pin!(watch_all(api, Config::default()));
        let (mut objects, mut problem) = (Vec::new(), String::new());
        loop {
            let event = tokio::select! {
                () = sender.closed() => return,
                event = stream.next() => event,
            };
            match event {
                Some(Ok(Event::Init)) => {
                    objects.clear();
                    on_change(Change::Begun);
                }
                Some(Ok(Event::InitApply(object))) => objects.push(object),
                Some(Ok(Event::InitDone)) => {
                    problem.clear();
                    on_change(Change::Listed(std::mem::take(&mut objects)));
                    sender.send_replace(true);
                }
                Some(Ok(Event::Apply(object))) => on_change(Change::Applied(object)),
                Some(Ok(Event::Delete(object))) => on_change(Change::Deleted(object)),
                // The same one may come every half minute for days.
                Some(Err(error)) if error.to_string() != problem => {
                    problem = error.to_string();
                    let kind = K::plural(&());
                    warn!(%kind, "the API server's objects cannot be watched now: {problem}");
                }
                Some(Err(_)) => {}
                None => return,
            }
        }
    });
    listed
}

/// Waits until the objects have been listed. Returns false if the watch has ended, which it does
/// not.
pub(super) async fn wait_listed(listed: &mut Listed) -> bool {
    listed.wait_for(|is_listed| *is_listed).await.is_ok()
}
