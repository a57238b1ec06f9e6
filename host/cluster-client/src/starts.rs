//! How many watches of single objects begin at once.

use std::future::Future;
use std::sync::Arc;

use http::{Request, Response};
use kube::client::Body;
use tokio::sync::Semaphore;
use tower::{Service, ServiceExt as _, service_fn};

/// How many of a program's watches of single objects may begin at once. One begins with a list, and
/// the watch itself follows. A program with many watches that begins all of them together has the API
/// server refuse those that have waited for too long there, and asks for them again: with many such
/// programs, more is refused than done.
///
/// A request has its turn until the API server has answered it. For a watch that is when it has begun:
/// one that has nothing to tell then keeps no turn from others.
#[derive(Debug, Clone)]
pub struct Starts {
    lists: Arc<Semaphore>,
    /// Turns of their own: the watch follows its list at once, before the version that was listed is
    /// too old.
    watches: Arc<Semaphore>,
}

impl Starts {
    /// So many lists at once, and as many watches.
    #[must_use]
    pub fn new(at_once: usize) -> Self {
        Self { lists: Arc::new(Semaphore::new(at_once)), watches: Arc::new(Semaphore::new(at_once)) }
    }

    fn turns_of<B>(&self, request: &Request<B>) -> Arc<Semaphore> {
        let is_watch = request.uri().query().is_some_and(|query| query.split('&').any(|part| part == "watch=true"));
        Arc::clone(if is_watch { &self.watches } else { &self.lists })
    }
}

/// The same service, whose requests wait for their turns.
pub(crate) fn in_turns<S, B, F>(
    service: S,
    starts: &Starts,
) -> impl Service<Request<Body>, Response = Response<B>, Error = S::Error, Future: Send> + Clone + Send + use<S, B, F>
where
    S: Service<Request<Body>, Response = Response<B>, Future = F> + Clone + Send + 'static,
    F: Future<Output = Result<Response<B>, S::Error>> + Send,
    S::Error: Send,
{
    let starts = starts.clone();
    service_fn(move |request: Request<Body>| {
        let (turns, service) = (starts.turns_of(&request), service.clone());
        async move {
            // They are never closed.
            let _turn = turns.acquire_owned().await.ok();
            service.oneshot(request).await
        }
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::io;
    use std::sync::{Mutex, PoisonError};
    use std::time::Duration;

    use bytes::Bytes;
    use futures_util::{StreamExt as _, stream};
    use http_body_util::combinators::UnsyncBoxBody;
    use http_body_util::{BodyExt as _, Full, StreamBody};
    use hyper::body::Frame;
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::{Api, Client};
    use tokio::sync::mpsc;

    use super::*;
    use crate::watch_one;

    const LIST: &str = r#"{"metadata":{"resourceVersion":"7"},"items":[]}"#;
    const REFUSAL: &str = r#"{"kind":"Status","status":"Failure","code":429,"reason":"TooManyRequests"}"#;

    /// How many requests of a kind an API server works on, and the most that there were.
    #[derive(Debug, Default)]
    struct Load {
        now: usize,
        most: usize,
    }

    /// An API server that refuses the first watch of every object, ends the second, and says nothing in
    /// the third, of which `quiet` gets the object's name.
    struct Server {
        /// By whether they are watches.
        loads: Mutex<BTreeMap<bool, Load>>,
        watches: Mutex<BTreeMap<String, usize>>,
        quiet: mpsc::UnboundedSender<String>,
    }

    impl Server {
        fn load<T>(&self, is_watch: bool, change: impl FnOnce(&mut Load) -> T) -> T {
            let mut loads = self.loads.lock().unwrap_or_else(PoisonError::into_inner);
            change(loads.entry(is_watch).or_default())
        }

        async fn answer(&self, request: Request<Body>) -> Response<UnsyncBoxBody<Bytes, io::Error>> {
            let query = request.uri().query().unwrap();
            let is_watch = query.contains("watch=true");
            self.load(is_watch, |load| {
                load.now += 1;
                load.most = load.most.max(load.now);
            });
            // The others come meanwhile.
            for _ in 0..20 {
                tokio::task::yield_now().await;
            }
            self.load(is_watch, |load| load.now -= 1);
            let text = |status, text: &'static str| {
                let body = Full::new(Bytes::from(text)).map_err(|never| match never {});
                Response::builder().status(status).body(body.boxed_unsync()).unwrap()
            };
            if !is_watch {
                return text(200, LIST);
            }
            let name = query.split("metadata.name%3D").nth(1).unwrap().split('&').next().unwrap().to_owned();
            let mut watches = self.watches.lock().unwrap_or_else(PoisonError::into_inner);
            let count = watches.entry(name.clone()).or_default();
            *count += 1;
            match count {
                1 => text(429, REFUSAL),
                2 => text(200, ""),
                _ => {
                    self.quiet.send(name).unwrap();
                    let nothing = stream::pending::<io::Result<Frame<Bytes>>>();
                    Response::new(StreamBody::new(nothing).boxed_unsync())
                }
            }
        }
    }

    #[tokio::test]
    async fn so_many_begin_at_once_and_a_quiet_watch_keeps_no_other_from_its_turn() {
        let (sender, mut quiet) = mpsc::unbounded_channel();
        let server = Arc::new(Server { loads: Mutex::default(), watches: Mutex::default(), quiet: sender });
        let answering = Arc::clone(&server);
        let service = service_fn(move |request| {
            let server = Arc::clone(&answering);
            async move { Ok::<_, tower::BoxError>(server.answer(request).await) }
        });
        let starts = Starts::new(2);
        let client = Client::new(in_turns(service, &starts), "default");
        let mut watching = tokio::task::JoinSet::new();
        for number in 0..7 {
            let mut objects = Box::pin(watch_one(
                Api::<ConfigMap>::default_namespaced(client.clone()),
                &format!("settings-{number}"),
            ));
            watching.spawn(async move { while objects.next().await.is_some() {} });
        }
        let all = async {
            let mut names = std::collections::BTreeSet::new();
            while names.len() < 7 {
                names.extend(quiet.recv().await);
            }
        };
        tokio::time::timeout(Duration::from_secs(120), all).await.expect("all watches have begun again");
        for is_watch in [false, true] {
            assert_eq!(server.load(is_watch, |load| load.most), 2, "is_watch: {is_watch}");
        }
    }
}
