//! Tokens of service accounts, issued by the cluster and bound to their pods.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tonic::Status;
use volhost_api::pb;

use crate::daemon::{Daemon, daemon_ends};

/// How many answers may wait to be sent.
const ANSWERS: usize = 64;
/// How long an answer may take, the wait for its turn included. The daemon waits a little longer.
const ANSWER_TIME: Duration = Duration::from_secs(15);
/// How many tokens are asked for at once. When many nodes start, an API server that was asked for all
/// of their pods' tokens together would refuse most, and what other requests wait for with them.
const AT_ONCE: usize = 4;

/// Answers the daemon's questions, until it is lost. A question that has no answer in time is answered
/// with an error, after which the daemon asks again.
pub(crate) async fn issue(client: &Client, daemon: &Daemon) -> Result<(), Status> {
    let (sender, answers) = mpsc::channel(ANSWERS);
    let mut questions = daemon.issue_tokens(answers).await?;
    let turns = Arc::new(Semaphore::new(AT_ONCE));
    let mut running = JoinSet::new();
    while let Some(question) = questions.message().await? {
        while running.try_join_next().is_some() {}
        let (client, sender, turns) = (client.clone(), sender.clone(), Arc::clone(&turns));
        running.spawn(async move {
            let id = question.id;
            let asking = async {
                // They are never closed.
                let _turn = turns.acquire().await.ok();
                ask(client, question).await
            };
            let answer = match tokio::time::timeout(ANSWER_TIME, asking).await {
                Ok(Ok((token, expires_us))) => pb::TokenAnswer { id, token, expires_us, error: String::new() },
                Ok(Err(error)) => refused(id, error),
                Err(_) => refused(id, out_of_time()),
            };
            // Without a receiver the daemon is lost.
            let _ = sender.send(answer).await;
        });
    }
    Err(daemon_ends())
}

fn out_of_time() -> String {
    let seconds = ANSWER_TIME.as_secs();
    format!("the API server has not answered within {seconds} s; {AT_ONCE} tokens are asked for at a time")
}

fn refused(id: u64, error: String) -> pb::TokenAnswer {
    pb::TokenAnswer { id, token: String::new(), expires_us: 0, error }
}

/// The token, and when it expires in microseconds since the Unix epoch.
async fn ask(client: Client, question: pb::TokenQuestion) -> Result<(String, u64), String> {
    let request = TokenRequest {
        spec: Some(TokenRequestSpec {
            audiences: question.audience.map(|audience| vec![audience]),
            bound_object_ref: Some(BoundObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("Pod".to_owned()),
                name: Some(question.pod),
                uid: Some(question.pod_uid),
            }),
            expiration_seconds: i64::try_from(question.expiration_seconds).ok(),
        }),
        ..TokenRequest::default()
    };
    let accounts = Api::<ServiceAccount>::namespaced(client, &question.namespace);
    let begun = SystemTime::now();
    let issued = accounts.create_token_request(&question.service_account, &PostParams::default(), &request).await;
    let issued = issued.map_err(|error| match error {
        kube::Error::Api(status) => status.message,
        error => error.to_string(),
    })?;
    let token = issued.status.and_then(|status| status.token).ok_or("the API server's answer has no token")?;
    // By our clock, which need not be the API server's: what counts is how long the token lives.
    let life =
        u64::try_from(issued.spec.and_then(|spec| spec.expiration_seconds).unwrap_or_default()).unwrap_or_default();
    let expires = begun + Duration::from_secs(life);
    let expires = expires.duration_since(UNIX_EPOCH).unwrap_or_default().as_micros();
    Ok((token, u64::try_from(expires).unwrap_or(u64::MAX)))
}
