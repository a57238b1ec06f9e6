//! Tokens of service accounts: which were issued, how long they are good, and when a pod needs new
//! ones.
//!
//! A token is used for 80 % of its life, a day at the most, then replaced: the kubelet's rule.
//! Nothing is kept over a restart; volumes that show tokens are remounted then, with new ones.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::json;
use sha2::{Digest as _, Sha256};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use volhost_model::objects::{Bytes, ObjectError, TokenRequest};
use volhost_model::{Pod, PodUid};

use super::signer::Signer;
use super::token_clients::{IssuedToken, TokenClients, TokenQuestion};

/// The shortest and longest that a token may be asked to live, in seconds: Kubernetes' limits.
const SHORTEST: u64 = 600;
const LONGEST: u64 = 1 << 32;
/// A token is replaced when it is this old, however long it lives.
const OLDEST: Duration = Duration::from_secs(24 * 3600);
/// Renewals are spread over this many seconds, so that a thousand pods started together do not
/// renew together.
const SPREAD: u64 = 10;
/// They are spread over this part of a token's life at the most.
const SPREAD_PART: u32 = 10;

/// Who issues tokens.
#[derive(Debug)]
pub struct Issuer {
    /// `iss`, and the audience of a token that names none.
    pub name: String,
    /// Its key.
    pub signer: Signer,
    /// The longest lifetime of a token, regardless of the request.
    pub max_lifetime: Option<Duration>,
}

/// The tokens of a pod come to their end at this moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Renewal {
    /// Which pod.
    pub pod: PodUid,
    /// In how long.
    pub after: Duration,
}

/// Which token of a pod: its service account's name, and what was asked for.
type TokenSlot = (String, TokenRequest);

struct KeptToken {
    token: Bytes,
    renew: SystemTime,
    expires: SystemTime,
}

/// The tokens that were issued.
pub(super) struct Tokens {
    /// Issues tokens with a key of the operator's. Without it, a client is asked.
    issuer: Option<Issuer>,
    clients: Arc<TokenClients>,
    issued: Mutex<BTreeMap<PodUid, BTreeMap<TokenSlot, KeptToken>>>,
    renewals: mpsc::UnboundedSender<Renewal>,
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let issuer = self.issuer.as_ref().map(|issuer| &issuer.name);
        f.debug_struct("Tokens").field("issuer", &issuer).finish_non_exhaustive()
    }
}

impl Tokens {
    pub(super) fn new(issuer: Option<Issuer>, renewals: mpsc::UnboundedSender<Renewal>) -> Self {
        Self { issuer, clients: Arc::default(), issued: Mutex::default(), renewals }
    }

    /// The client that is asked for tokens.
    pub(super) const fn clients(&self) -> &Arc<TokenClients> {
        &self.clients
    }

    fn issued(&self) -> MutexGuard<'_, BTreeMap<PodUid, BTreeMap<TokenSlot, KeptToken>>> {
        self.issued.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn forget(&self, pod: &PodUid) {
        self.issued().remove(pod);
    }

    /// The token that is good for now, issued anew if it is old. When that fails, the old one is
    /// good until its end.
    pub(super) fn token(
        &self,
        pod: &Pod,
        account: &str,
        account_uid: &str,
        request: &TokenRequest,
        now: SystemTime,
    ) -> Result<Bytes, ObjectError> {
        if !(SHORTEST..=LONGEST).contains(&request.expiration_seconds) {
            return Err(ObjectError::Invalid(format!(
                "a token cannot live {} seconds; {SHORTEST} to {LONGEST} is allowed",
                request.expiration_seconds
            )));
        }
        let slot = (account.to_owned(), request.clone());
        let kept = |is_good: &dyn Fn(&KeptToken) -> bool| {
            let issued = self.issued();
            let one = issued.get(&pod.uid).and_then(|of_pod| of_pod.get(&slot));
            one.filter(|one| is_good(one)).map(|one| Arc::clone(&one.token))
        };
        if let Some(good) = kept(&|one| now < one.renew) {
            return Ok(good);
        }
        // Not under the lock: a cluster may take its time, and other pods' tokens do not wait.
        match self.issue(pod, account, account_uid, request, now) {
            Ok(new) => {
                let token = Arc::clone(&new.token);
                let after = new.renew.duration_since(now).unwrap_or_default();
                self.issued().entry(pod.uid.clone()).or_default().insert(slot, new);
                // The receiver is gone only when the process ends.
                let _ = self.renewals.send(Renewal { pod: pod.uid.clone(), after });
                Ok(token)
            }
            Err(error) => kept(&|one| now < one.expires).ok_or(error),
        }
    }

    fn issue(
        &self,
        pod: &Pod,
        account: &str,
        account_uid: &str,
        request: &TokenRequest,
        now: SystemTime,
    ) -> Result<KeptToken, ObjectError> {
        let IssuedToken { token, expires } = match &self.issuer {
            Some(issuer) => issuer.issue(pod, account, account_uid, request, now)?,
            None => self.clients.ask(TokenQuestion {
                id: 0,
                namespace: pod.namespace.clone(),
                service_account: account.to_owned(),
                pod: pod.name.clone(),
                pod_uid: pod.uid.to_string(),
                audience: request.audience.clone(),
                expiration_seconds: request.expiration_seconds,
            })?,
        };
        let life = expires.duration_since(now).unwrap_or_default();
        // In whole thousandths: 80 % of the life, or a day.
        let used = (life / 5 * 4).min(OLDEST).saturating_sub(spread(pod).min(life / SPREAD_PART));
        Ok(KeptToken { token: Arc::from(token.into_bytes()), renew: now + used, expires })
    }
}

impl Issuer {
    fn issue(
        &self,
        pod: &Pod,
        account: &str,
        account_uid: &str,
        request: &TokenRequest,
        now: SystemTime,
    ) -> Result<IssuedToken, ObjectError> {
        let asked = Duration::from_secs(request.expiration_seconds);
        let life = self.max_lifetime.map_or(asked, |longest| asked.min(longest));
        let seconds = |at: SystemTime| at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let expires = now + life;
        let claims = json!({
            "aud": [request.audience.as_deref().unwrap_or(&self.name)],
            "exp": seconds(expires),
            "iat": seconds(now),
            "nbf": seconds(now),
            "iss": self.name,
            "sub": format!("system:serviceaccount:{}:{account}", pod.namespace),
            "kubernetes.io": {
                "namespace": pod.namespace,
                "pod": {"name": pod.name, "uid": pod.uid.as_str()},
                "serviceaccount": {"name": account, "uid": account_uid},
            },
        });
        let token = self.signer.sign(&claims).map_err(|error| {
            ObjectError::Unknown(format!("a token for service account {account} could not be signed: {error}"))
        })?;
        Ok(IssuedToken { token, expires })
    }
}

/// How much earlier this pod's tokens are renewed than the rule says; the same for all of them, so
/// that they go together.
fn spread(pod: &Pod) -> Duration {
    Duration::from_secs(Sha256::digest(pod.uid.as_str()).first().map_or(0, |byte| u64::from(*byte) % SPREAD))
}

/// Calls `renew` for a pod whenever its tokens come to their end, until it is stopped.
pub async fn renewals(
    mut due: mpsc::UnboundedReceiver<Renewal>,
    stop: CancellationToken,
    renew: impl Fn(PodUid) + Send,
) {
    let mut queue: BTreeSet<(Instant, PodUid)> = BTreeSet::new();
    loop {
        let next = queue.first().map(|(at, _)| *at);
        tokio::select! {
            () = stop.cancelled() => return,
            renewal = due.recv() => match renewal {
                Some(Renewal { pod, after }) => {
                    queue.insert((Instant::now() + after, pod));
                }
                None => return,
            },
            () = sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => {
                let now = Instant::now();
                let mut pods = BTreeSet::new();
                while queue.first().is_some_and(|(at, _)| *at <= now) {
                    pods.extend(queue.pop_first().map(|(_, pod)| pod));
                }
                pods.into_iter().for_each(&renew);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;

    use super::super::signer::tests::ed25519;
    use super::*;

    fn tokens() -> (Tokens, mpsc::UnboundedReceiver<Renewal>) {
        let (renewals, due) = mpsc::unbounded_channel();
        let signer = Signer::from_pem(&ed25519()).unwrap();
        let issuer = Issuer { name: "https://node.example".into(), signer, max_lifetime: None };
        (Tokens::new(Some(issuer), renewals), due)
    }

    fn pod() -> Pod {
        crate::tests::objects(&crate::tests::pod("web"))
            .first()
            .and_then(|object| object.pod().map(|pod| pod.pod.as_ref().clone()))
            .unwrap()
    }

    fn request(seconds: u64) -> TokenRequest {
        TokenRequest { audience: Some("vault".into()), expiration_seconds: seconds }
    }

    fn claims(token: &[u8]) -> serde_json::Value {
        let text = std::str::from_utf8(token).unwrap();
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(text.split('.').nth(1).unwrap()).unwrap()).unwrap()
    }

    #[test]
    fn a_token_says_who_may_use_it_and_for_whom() {
        let (tokens, _due) = tokens();
        let now = UNIX_EPOCH + Duration::from_secs(1_000_000);
        let claims = claims(&tokens.token(&pod(), "robot", "sa-uid", &request(3600), now).unwrap());
        assert_eq!(claims["sub"], "system:serviceaccount:default:robot");
        assert_eq!(claims["aud"], json!(["vault"]));
        assert_eq!((&claims["iat"], &claims["exp"]), (&json!(1_000_000), &json!(1_003_600)));
        assert_eq!(claims["kubernetes.io"]["pod"]["name"], "web");
        assert_eq!(claims["kubernetes.io"]["serviceaccount"]["uid"], "sa-uid");
    }

    #[test]
    fn a_token_is_the_same_until_four_fifths_of_its_life_and_a_renewal_is_asked_for_in_time() {
        let (tokens, mut due) = tokens();
        let now = UNIX_EPOCH + Duration::from_secs(1_000_000);
        let at = |seconds: u64| tokens.token(&pod(), "robot", "", &request(3600), now + Duration::from_secs(seconds));
        let first = at(0).unwrap();
        let renewal = due.try_recv().unwrap();
        assert_eq!(renewal.pod, pod().uid);
        assert!(renewal.after <= Duration::from_secs(2880) && renewal.after > Duration::from_secs(2880 - SPREAD));
        assert_eq!(at(2880 - SPREAD).unwrap(), first);
        assert!(due.try_recv().is_err());
        assert_ne!(at(2881).unwrap(), first);
        assert!(due.try_recv().is_ok());
    }

    #[test]
    fn no_token_lives_longer_than_the_operator_lets_it() {
        let (mut tokens, mut due) = tokens();
        tokens.issuer.as_mut().unwrap().max_lifetime = Some(Duration::from_secs(20));
        let now = UNIX_EPOCH + Duration::from_secs(1_000_000);
        let token = tokens.token(&pod(), "robot", "", &request(3600), now).unwrap();
        assert_eq!(claims(&token)["exp"], json!(1_000_020));
        let after = due.try_recv().unwrap().after;
        assert!(after <= Duration::from_secs(16) && after >= Duration::from_secs(14), "{after:?}");
    }

    #[test]
    fn a_long_lived_token_is_renewed_after_a_day() {
        let (tokens, mut due) = tokens();
        tokens.token(&pod(), "robot", "", &request(30 * 24 * 3600), UNIX_EPOCH).unwrap();
        assert!(due.try_recv().unwrap().after <= OLDEST);
    }

    #[test]
    fn a_pod_that_is_gone_is_forgotten() {
        let (tokens, mut due) = tokens();
        tokens.token(&pod(), "robot", "", &request(600), UNIX_EPOCH).unwrap();
        tokens.forget(&pod().uid);
        assert!(due.try_recv().is_ok());
        tokens.token(&pod(), "robot", "", &request(600), UNIX_EPOCH).unwrap();
        assert!(due.try_recv().is_ok(), "it was issued anew");
    }

    #[test]
    fn a_life_out_of_range_is_refused() {
        let (tokens, _due) = tokens();
        for seconds in [0, 599, LONGEST + 1] {
            let error = tokens.token(&pod(), "robot", "", &request(seconds), UNIX_EPOCH).unwrap_err();
            assert!(matches!(error, ObjectError::Invalid(_)), "{error}");
        }
    }

    #[test]
    fn without_a_key_a_client_issues_tokens_and_one_that_is_slow_delays_no_other() {
        let (renewals, mut due) = mpsc::unbounded_channel();
        let tokens = Arc::new(Tokens::new(None, renewals));
        let (_, mut questions) = tokens.clients().connect();
        let now = UNIX_EPOCH + Duration::from_secs(1_000_000);
        let ask = |account: &'static str| {
            let tokens = Arc::clone(&tokens);
            std::thread::spawn(move || tokens.token(&pod(), account, "", &request(3600), now))
        };
        let slow = ask("slow");
        let first = questions.blocking_recv().unwrap();
        assert_eq!((first.service_account.as_str(), first.pod.as_str()), ("slow", "web"));
        let quick = ask("quick");
        let second = questions.blocking_recv().unwrap();
        let expires = now + Duration::from_secs(1_000);
        tokens.clients().answer(second.id, Ok(IssuedToken { token: "of-quick".into(), expires }));
        assert_eq!(quick.join().unwrap().unwrap().as_ref(), b"of-quick");
        // The cluster's word on its life counts.
        assert!(due.try_recv().unwrap().after <= Duration::from_secs(800));
        // It is kept.
        assert_eq!(ask("quick").join().unwrap().unwrap().as_ref(), b"of-quick");
        tokens.clients().answer(first.id, Err("the service account is gone".into()));
        assert!(slow.join().unwrap().unwrap_err().to_string().contains("the service account is gone"));
    }

    #[tokio::test]
    async fn renewals_come_when_they_are_due_and_once_a_pod() {
        let (send, due) = mpsc::unbounded_channel();
        let (seen, mut renewed) = mpsc::unbounded_channel();
        let stop = CancellationToken::new();
        let uid = |name: &str| PodUid::new(name).unwrap();
        for (pod, seconds) in [("late", 3600), ("early", 0), ("early", 0)] {
            send.send(Renewal { pod: uid(pod), after: Duration::from_secs(seconds) }).unwrap();
        }
        let task = tokio::spawn(renewals(due, stop.clone(), move |pod| seen.send(pod).unwrap()));
        assert_eq!(renewed.recv().await, Some(uid("early")));
        drop(send);
        task.await.unwrap();
        assert_ne!(renewed.recv().await, Some(uid("late")), "an hour is not over");
    }
}
