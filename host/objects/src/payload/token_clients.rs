//! Tokens that a cluster issues: the program that speaks to its API server asks for them there.
//!
//! ```text
//!  operation --ask--> TokenClients --question--> client --TokenRequest--> API server
//!      ^                                            |
//!      '-------------------- answer ----------------'
//! ```

use std::collections::BTreeMap;
use std::fmt;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::sync::mpsc;
use volhost_model::objects::ObjectError;

/// How long an answer may take: less than a plugin's call may.
const ANSWER_TIME: Duration = Duration::from_secs(20);

/// A token that is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenQuestion {
    /// The number of the question, which the answer repeats.
    pub id: u64,
    /// The namespace of pod and service account.
    pub namespace: String,
    /// The service account.
    pub service_account: String,
    /// The name of the pod that the token is bound to.
    pub pod: String,
    /// Its uid.
    pub pod_uid: String,
    /// Who the token is for; none for the API server.
    pub audience: Option<String>,
    /// How long it is to be valid, in seconds.
    pub expiration_seconds: u64,
}

/// A token that was issued. Its debug text does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct IssuedToken {
    /// The token.
    pub token: String,
    /// When it expires.
    pub expires: SystemTime,
}

impl fmt::Debug for IssuedToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IssuedToken").field("expires", &self.expires).finish_non_exhaustive()
    }
}

/// The answer to a question: the token, or why there is none.
pub type TokenAnswer = Result<IssuedToken, String>;

/// The client that issues tokens. The one that has connected last is asked.
#[derive(Debug, Default)]
pub struct TokenClients(Mutex<Clients>);

#[derive(Debug, Default)]
struct Clients {
    current: Option<Client>,
    /// The numbers of clients and questions begin after this one.
    last: u64,
}

#[derive(Debug)]
struct Client {
    id: u64,
    questions: mpsc::UnboundedSender<TokenQuestion>,
    /// The callers that wait, by the number of their question. They get an error when it is
    /// dropped.
    waiting: BTreeMap<u64, SyncSender<TokenAnswer>>,
}

impl TokenClients {
    fn lock(&self) -> MutexGuard<'_, Clients> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Connects a client, in place of the one before. Returns its number, and its questions.
    pub fn connect(&self) -> (u64, mpsc::UnboundedReceiver<TokenQuestion>) {
        let (questions, asked) = mpsc::unbounded_channel();
        let mut clients = self.lock();
        clients.last += 1;
        let id = clients.last;
        clients.current = Some(Client { id, questions, waiting: BTreeMap::new() });
        (id, asked)
    }

    /// Notes that the client of this number has gone. What it was asked fails at once.
    pub fn disconnect(&self, id: u64) {
        let mut clients = self.lock();
        if clients.current.as_ref().is_some_and(|client| client.id == id) {
            clients.current = None;
        }
    }

    /// Passes an answer on. One that nobody waits for any more is dropped.
    pub fn answer(&self, question: u64, answer: TokenAnswer) {
        let mut clients = self.lock();
        let waiting = clients.current.as_mut().and_then(|client| client.waiting.remove(&question));
        if let Some(caller) = waiting {
            // It may have given up.
            let _ = caller.try_send(answer);
        }
    }

    /// Asks for a token, and waits for the answer. `question.id` is set here. Blocks.
    ///
    /// # Errors
    /// [`ObjectError::Unknown`]: it is worth another try.
    pub(super) fn ask(&self, question: TokenQuestion) -> Result<IssuedToken, ObjectError> {
        let account = format!("{}/{}", question.namespace, question.service_account);
        let (id, answer) = self.send(question).ok_or_else(|| {
            ObjectError::Unknown(format!(
                "no token for service account {account}: nothing issues tokens on this node now. In a cluster `volhost node-agent` does; is it running? Elsewhere, give volhost a key to sign them with: --token-signing-key and --token-issuer"
            ))
        })?;
        match answer.recv_timeout(ANSWER_TIME) {
            Ok(answer) => answer.map_err(|why| {
                ObjectError::Unknown(format!(
                    "no token for service account {account}: the cluster does not issue it: {why}"
                ))
            }),
            Err(RecvTimeoutError::Timeout) => {
                if let Some(client) = &mut self.lock().current {
                    client.waiting.remove(&id);
                }
                Err(ObjectError::Unknown(format!(
                    "no token for service account {account}: `volhost node-agent` did not answer within {} s",
                    ANSWER_TIME.as_secs()
                )))
            }
            Err(RecvTimeoutError::Disconnected) => Err(ObjectError::Unknown(format!(
                "no token for service account {account}: `volhost node-agent` ended before it answered"
            ))),
        }
    }

    /// Sends the question; none if there is no client.
    fn send(&self, question: TokenQuestion) -> Option<(u64, Receiver<TokenAnswer>)> {
        let mut clients = self.lock();
        clients.last += 1;
        let id = clients.last;
        let client = clients.current.as_mut()?;
        client.questions.send(TokenQuestion { id, ..question }).ok()?;
        let (caller, answer) = sync_channel(1);
        client.waiting.insert(id, caller);
        Some((id, answer))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::UNIX_EPOCH;

    use super::*;

    fn question() -> TokenQuestion {
        TokenQuestion {
            id: 0,
            namespace: "default".into(),
            service_account: "robot".into(),
            pod: "web".into(),
            pod_uid: "uid".into(),
            audience: None,
            expiration_seconds: 3600,
        }
    }

    fn asked(clients: &Arc<TokenClients>) -> std::thread::JoinHandle<Result<IssuedToken, ObjectError>> {
        let clients = Arc::clone(clients);
        std::thread::spawn(move || clients.ask(question()))
    }

    #[test]
    fn the_client_that_connected_last_is_asked() {
        let clients = Arc::new(TokenClients::default());
        let (first, mut earlier) = clients.connect();
        let (_, mut questions) = clients.connect();
        // What is left of the first changes nothing.
        clients.disconnect(first);
        let answer = asked(&clients);
        let question = questions.blocking_recv().unwrap();
        assert!(earlier.try_recv().is_err());
        clients.answer(question.id + 1, Err("of another question".into()));
        let token = IssuedToken { token: "secret".into(), expires: UNIX_EPOCH };
        clients.answer(question.id, Ok(token.clone()));
        assert_eq!(answer.join().unwrap(), Ok(token.clone()));
        assert!(!format!("{token:?}").contains("secret"));
    }

    #[test]
    fn without_a_client_and_when_it_goes_the_reason_is_told_at_once() {
        let clients = Arc::new(TokenClients::default());
        let ObjectError::Unknown(why) = clients.ask(question()).unwrap_err() else { panic!("another try helps") };
        assert!(why.contains("default/robot") && why.contains("volhost node-agent"), "{why}");
        let (client, mut questions) = clients.connect();
        let answer = asked(&clients);
        questions.blocking_recv().unwrap();
        clients.disconnect(client);
        let ObjectError::Unknown(why) = answer.join().unwrap().unwrap_err() else { panic!("another try helps") };
        assert!(why.contains("ended before it answered"), "{why}");
    }

    #[test]
    fn a_refusal_is_passed_on() {
        let clients = Arc::new(TokenClients::default());
        let (_, mut questions) = clients.connect();
        let answer = asked(&clients);
        clients.answer(questions.blocking_recv().unwrap().id, Err("forbidden".into()));
        assert!(answer.join().unwrap().unwrap_err().to_string().contains("forbidden"));
    }
}
