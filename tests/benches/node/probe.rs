//! One small pod again and again: what a user waits for while something else goes on.

use std::time::{Duration, Instant};

use crate::daemon::Api;

/// Adds pods with an emptyDir in memory one after another and removes them, as long as `goes_on`
/// says so; how long each took to be mounted.
pub(crate) async fn small_pods(api: &mut Api, called: &str, goes_on: impl Fn(usize) -> bool) -> Vec<Duration> {
    let mut took = Vec::new();
    while goes_on(took.len()) {
        let text = pod(&format!("{called}-{}", took.len()), r#""emptyDir":{"medium":"Memory","sizeLimit":"1Mi"}"#);
        let asked = Instant::now();
        let uid = api.add_and_wait(text).await;
        took.push(asked.elapsed());
        api.remove(&uid).await;
    }
    took
}

/// A pod with one volume of this source.
pub(crate) fn pod(name: &str, source: &str) -> String {
    format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"{name}"}},"spec":{{"containers":[{{"name":"main","image":"none","volumeMounts":[{{"name":"data","mountPath":"/a"}}]}}],"volumes":[{{"name":"data",{source}}}]}}}}"#
    )
}
