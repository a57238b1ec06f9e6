//! The client that issues the tokens of service accounts: questions out, answers in.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, UNIX_EPOCH};

use tokio::sync::mpsc;
use tokio_stream::Stream;
use tokio_util::sync::{CancellationToken, DropGuard};
use tonic::{Status, Streaming};
use volhost_api::pb;
use volhost_node::event_loop::NodeHandle;
use volhost_objects::payload::{IssuedToken, TokenAnswer, TokenClients, TokenQuestion};

/// The questions to one client. When it is dropped, as with the client's connection, the client is
/// asked no more.
#[derive(Debug)]
pub(super) struct TokenQuestions {
    clients: Arc<TokenClients>,
    client: u64,
    questions: mpsc::UnboundedReceiver<TokenQuestion>,
    _answers: DropGuard,
}

/// Connects a client.
pub(super) fn questions(
    node: &NodeHandle,
    mut answers: Streaming<pb::TokenAnswer>,
    shutdown: CancellationToken,
) -> TokenQuestions {
    let clients = node.token_clients();
    let (client, questions) = clients.connect();
    let ended = CancellationToken::new();
    let (to, until) = (Arc::clone(&clients), ended.clone());
    tokio::spawn(async move {
        loop {
            let answer = tokio::select! {
                answer = answers.message() => answer,
                () = until.cancelled() => break,
                () = shutdown.cancelled() => break,
            };
            let Ok(Some(answer)) = answer else { break };
            to.answer(answer.id, read(answer));
        }
        // Without it no question ends, so neither does the call.
        to.disconnect(client);
    });
    TokenQuestions { clients, client, questions, _answers: ended.drop_guard() }
}

fn read(answer: pb::TokenAnswer) -> TokenAnswer {
    if answer.token.is_empty() {
        return Err(if answer.error.is_empty() { "no reason is given".to_owned() } else { answer.error });
    }
    Ok(IssuedToken { token: answer.token, expires: UNIX_EPOCH + Duration::from_micros(answer.expires_us) })
}

impl Stream for TokenQuestions {
    type Item = Result<pb::TokenQuestion, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.questions.poll_recv(context).map(|question| question.map(|question| Ok(write(question))))
    }
}

impl Drop for TokenQuestions {
    fn drop(&mut self) {
        self.clients.disconnect(self.client);
    }
}

fn write(question: TokenQuestion) -> pb::TokenQuestion {
    let TokenQuestion { id, namespace, service_account, pod, pod_uid, audience, expiration_seconds } = question;
    pb::TokenQuestion { id, namespace, service_account, pod, pod_uid, audience, expiration_seconds }
}
