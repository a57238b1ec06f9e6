//! Watches that last, and that begin again after a failure, later each time.
//!
//! kube ends each watch after 290 s, and lets it begin again: with 43,000 watches of agents, these were
//! 164 requests a second, more than all others.
//!
//! Waits that grow kube has for any stream, but ends them with each item that is no error. A watch of
//! all objects has such an item at the begin of each try ([`Event::Init`]), so that it would ask an
//! API server that is down about once a second, from every node of a cluster.

use std::fmt::Debug;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::time::Duration;

use futures_util::{Stream, StreamExt as _, stream};
use kube::runtime::watcher::{self, Config, Event, watcher};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;

/// The wait after the first failure, and the longest one: those of Kubernetes' own clients.
const FIRST: Duration = Duration::from_millis(800);
const LONGEST: Duration = Duration::from_secs(30);
/// The longest wait for a kind that the cluster does not have. It may never have it: 10,000 agents
/// ask 33 to 67 times a second then, and the kind is seen after five minutes at the latest.
const LONGEST_UNDEFINED: Duration = Duration::from_secs(300);
/// After so many failures each wait is the longest: `FIRST` doubled so often exceeds both.
const DOUBLINGS: u32 = 9;

/// How long a watch lasts before it begins again, at least: as long as an API server lets those last
/// that name no time. At most it is twice as long, so that watches that began together do not end
/// together. It needs no end to notice an API server that has vanished: see [`crate::connect`].
const LASTS: u32 = 1800;

/// Watches the objects of `api` that `config` selects. After a failure it goes on by itself; the
/// stream has no end.
pub fn watch_all<K>(api: Api<K>, config: Config) -> impl Stream<Item = watcher::Result<Event<K>>> + Send + use<K>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    with_waits(watcher(api, lasting(config)), is_answer)
}

/// Whether the API server has answered: a try begins with an event of its own.
fn is_answer<K>(event: &Event<K>) -> bool {
    !matches!(event, Event::Init)
}

/// Watches the object of this name: none if it does not exist. After a failure it goes on by
/// itself; the stream has no end.
pub fn watch_one<K>(api: Api<K>, name: &str) -> impl Stream<Item = watcher::Result<Option<K>>> + Send + use<K>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    with_waits(object(api, name), |_| true)
}

/// kube's `watch_object`, which has no setting for how long a watch lasts.
fn object<K>(api: Api<K>, name: &str) -> impl Stream<Item = watcher::Result<Option<K>>> + Send + use<K>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let config = Config::default().fields(&format!("metadata.name={name}"));
    let mut is_listed = false;
    watcher(api, lasting(config)).filter_map(move |event| {
        if let Ok(Event::Init | Event::InitApply(_)) = &event {
            is_listed = matches!(&event, Ok(Event::InitApply(_)));
        }
        std::future::ready(match event {
            Ok(Event::InitApply(object) | Event::Apply(object)) => Some(Ok(Some(object))),
            Ok(Event::Delete(_)) => Some(Ok(None)),
            Ok(Event::InitDone) => (!is_listed).then_some(Ok(None)),
            Ok(Event::Init) => None,
            Err(error) => Some(Err(error)),
        })
    })
}

fn lasting(config: Config) -> Config {
    config.timeout(LASTS + u32::try_from(random_below(u64::from(LASTS))).unwrap_or_default())
}

/// A random number below this one.
fn random_below(end: u64) -> u64 {
    // Each such hasher has another key.
    RandomState::new().build_hasher().finish().checked_rem(end).unwrap_or_default()
}

/// Whether the watch failed because the API server does not have the kind.
#[must_use]
pub fn is_undefined(error: &watcher::Error) -> bool {
    matches!(error, watcher::Error::InitialListFailed(kube::Error::Api(status)) if status.code == 404)
}

/// Waits after each error. `is_answer`: an item that shows that the API server has answered.
fn with_waits<T, S>(items: S, is_answer: fn(&T) -> bool) -> impl Stream<Item = watcher::Result<T>> + Send + use<T, S>
where
    T: Send + 'static,
    S: Stream<Item = watcher::Result<T>> + Send,
{
    // The state outlives a reader that stops to wait for the next item: no wait is cut short by it.
    let begin = (Box::pin(items), Waits::default(), None);
    stream::unfold(begin, move |(mut items, mut waits, wait)| async move {
        if let Some(wait) = wait {
            tokio::time::sleep(wait).await;
        }
        let item = items.next().await?;
        let wait = waits.after(&item, is_answer);
        Some((item, (items, waits, wait)))
    })
}

/// The waits after failures that follow one another.
#[derive(Debug, Default)]
struct Waits {
    failures: u32,
}

impl Waits {
    /// Returns the wait after this item; none if it is no error.
    fn after<T>(&mut self, item: &watcher::Result<T>, is_answer: fn(&T) -> bool) -> Option<Duration> {
        match item {
            Ok(item) if is_answer(item) => self.failures = 0,
            Ok(_) => {}
            Err(error) => return Some(self.next(is_undefined(error))),
        }
        None
    }

    /// Returns the wait after one more failure: between half of the time that doubles and all of
    /// it, so that programs that failed together do not come back together.
    fn next(&mut self, is_undefined: bool) -> Duration {
        let longest = if is_undefined { LONGEST_UNDEFINED } else { LONGEST };
        let wait = FIRST.saturating_mul(1 << self.failures).min(longest);
        self.failures = self.failures.saturating_add(1).min(DOUBLINGS);
        let half = wait / 2;
        let nanoseconds = u64::try_from(half.as_nanos()).unwrap_or(u64::MAX);
        half.saturating_add(Duration::from_nanos(random_below(nanoseconds)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::client::Body;
    use tokio::sync::mpsc;

    fn is_about(wait: Duration, longest: Duration) -> bool {
        (longest / 2..=longest).contains(&wait)
    }

    #[test]
    fn waits_double_up_to_half_a_minute_and_for_a_missing_kind_to_five_minutes() {
        let mut waits = Waits::default();
        for seconds in [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0, 30.0, 30.0, 30.0, 30.0] {
            let wait = waits.next(false);
            assert!(is_about(wait, Duration::from_secs_f64(seconds)), "{wait:?}, not {seconds} s");
        }
        assert!(is_about(waits.next(true), Duration::from_secs(300)));
        waits.failures = 0;
        let all: Duration = (0..8).map(|_| waits.next(true)).sum();
        assert!(all < Duration::from_secs(250), "a kind that is defined soon is seen soon: {all:?}");
        for _ in 0..100 {
            waits.next(true);
        }
        assert!(is_about(waits.next(true), Duration::from_secs(300)));
    }

    #[test]
    fn two_programs_do_not_wait_equally_long() {
        let wait = || {
            let mut waits = Waits { failures: DOUBLINGS };
            waits.next(true)
        };
        assert!((0..10).map(|_| wait()).collect::<std::collections::BTreeSet<_>>().len() > 5);
    }

    fn refused(code: u16) -> watcher::Error {
        let status = kube::core::Status { code, ..Default::default() };
        watcher::Error::InitialListFailed(kube::Error::Api(Box::new(status)))
    }

    #[test]
    fn only_a_list_that_is_not_found_shows_that_there_is_no_such_kind() {
        assert!(is_undefined(&refused(404)) && !is_undefined(&refused(403)));
        assert!(!is_undefined(&watcher::Error::NoResourceVersion));
    }

    /// How long the longest of each wait is, in FIRST.
    fn waits_of(items: &[watcher::Result<Event<ConfigMap>>]) -> Vec<u32> {
        let mut waits = Waits::default();
        let after = |item| Some((waits.after(item, is_answer)?, waits.failures));
        let waited: Vec<_> = items.iter().filter_map(after).collect();
        assert!(waited.iter().all(|(wait, failures)| is_about(*wait, FIRST.saturating_mul(1 << (failures - 1)))));
        waited.into_iter().map(|(_, failures)| 1 << (failures - 1)).collect()
    }

    /// An API server that has one list, and whose watches say nothing. Returns its clients' requests.
    fn api_server(items: &'static str) -> (kube::Client, mpsc::UnboundedReceiver<String>) {
        let (sender, requests) = mpsc::unbounded_channel();
        let answer = move |request: http::Request<Body>| {
            let request = request.uri().to_string();
            let is_watch = request.contains("watch=true");
            sender.send(request).unwrap();
            async move {
                if is_watch {
                    std::future::pending::<()>().await;
                }
                let list = format!(r#"{{"metadata":{{"resourceVersion":"7"}},"items":[{items}]}}"#);
                Ok::<_, tower::BoxError>(http::Response::new(Body::from(list.into_bytes())))
            }
        };
        (kube::Client::new(tower::service_fn(answer), "default"), requests)
    }

    #[tokio::test]
    async fn a_watch_of_one_object_says_what_is_listed_and_lasts() {
        for (items, uid) in [("", None), (r#"{"metadata":{"name":"settings","uid":"5f0c"}}"#, Some("5f0c"))] {
            let (client, mut requests) = api_server(items);
            let mut objects = Box::pin(watch_one(Api::<ConfigMap>::default_namespaced(client), "settings"));
            let listed = objects.next().await.unwrap().unwrap();
            assert_eq!(listed.and_then(|object| object.metadata.uid).as_deref(), uid);
            let quiet = tokio::spawn(async move { drop(objects.next().await) });
            for is_watch in [false, true] {
                let request = requests.recv().await.unwrap();
                assert!(request.contains("fieldSelector=metadata.name%3Dsettings"), "{request}");
                let lasts = request.split("timeoutSeconds=").nth(1).map(|rest| rest.split('&').next().unwrap());
                let lasts: Option<u32> = lasts.map(|seconds| seconds.parse().unwrap());
                let is_long = |seconds: u32| (LASTS..2 * LASTS).contains(&seconds);
                assert!(!is_watch || lasts.is_some_and(is_long), "{request}");
            }
            quiet.abort();
        }
    }

    #[test]
    fn only_an_answer_of_the_api_server_ends_the_growth() {
        let failed = || Err(refused(500));
        let begun = || Ok(Event::Init);
        assert_eq!(waits_of(&[begun(), failed(), begun(), failed(), begun(), failed()]), [1, 2, 4]);
        assert_eq!(waits_of(&[failed(), failed(), failed(), Ok(Event::InitDone), failed()]), [1, 2, 4, 1]);
    }
}
