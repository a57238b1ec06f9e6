//! Which replica works: the one whose name is in the Lease.
//!
//! ```text
//!           the Lease is free, or did not change for its duration
//!  waits ---------------------------------------------------------> leads: renews
//!                                                                     |
//!              another holds it, or not renewed for two thirds        v
//!              of its duration                                   the process ends
//! ```
//!
//! # Guarantees
//! - A replica measures time since it last saw the Lease change, with its own clock. Clocks of
//!   different machines are never compared.
//! - A leader that cannot renew the Lease ends before another may take it. What it asked the driver
//!   for may go on there; the next leader asks for the same by the same name.
//! - Every write to the Lease names the version that it replaces, and so fails if another replica
//!   wrote.
//! - No two replicas ever have the same name.
//!
//! A process that was frozen for longer than the Lease's duration may still make the calls that it
//! was about to make before it ends: they are the same ones by the same names that the next leader
//! makes, and its writes to other objects name the versions or the UIDs that they are for.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::PostParams;
use kube::{Api, Client};
use thiserror::Error;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::finalizers::FIELD_MANAGER;
use crate::journal::{ANNOTATION, Entries, JournalError, JournalRequest};

/// The most changes to the journal in one write.
const TOGETHER: usize = 500;

/// The leader must end: another replica may work.
#[derive(Debug, Error)]
pub(crate) enum LeaseLost {
    /// It has another holder.
    #[error("the Lease {name} is held by {holder} now")]
    Taken {
        /// The Lease.
        name: String,
        /// Who holds it.
        holder: String,
    },
    /// The API server did not take a renewal in time.
    #[error("the Lease {name} could not be renewed for {seconds} s; another replica may work")]
    Expired {
        /// The Lease.
        name: String,
        /// How long.
        seconds: u64,
    },
}

/// One replica's part in the election.
#[derive(Debug)]
pub(crate) struct Election {
    api: Api<Lease>,
    namespace: String,
    name: String,
    identity: String,
    duration: Duration,
}

/// The Lease as this replica wrote it last.
#[derive(Debug)]
pub(crate) struct HeldLease {
    lease: Lease,
    entries: Entries,
    renewed: Instant,
}

impl HeldLease {
    /// The claims that an earlier leader may have created volumes for.
    pub(crate) fn entries(&self) -> &Entries {
        &self.entries
    }
}

/// Changes that wait for one write.
#[derive(Default)]
struct Pending {
    waiting: Vec<oneshot::Sender<Result<(), JournalError>>>,
}

impl Election {
    /// An election for the Lease of this name.
    pub(crate) fn new(client: Client, namespace: &str, name: String, identity: String, duration: Duration) -> Self {
        Self { api: Api::namespaced(client, namespace), namespace: namespace.to_owned(), name, identity, duration }
    }

    /// This replica's name.
    pub(crate) fn identity(&self) -> &str {
        &self.identity
    }

    /// The name of the Lease.
    pub(crate) fn lease(&self) -> &str {
        &self.name
    }

    /// How long the leader may go without a renewal.
    fn deadline(&self) -> Duration {
        self.duration.saturating_mul(2) / 3
    }

    /// How long one attempt to renew may take: there is time for another one.
    fn attempt(&self) -> Duration {
        self.deadline() / 2
    }

    /// The pause between two renewals or attempts.
    fn pause(&self) -> Duration {
        self.duration.saturating_mul(2) / 15
    }

    /// Waits until this replica leads.
    pub(crate) async fn acquire(&self) -> HeldLease {
        let mut seen: Option<(Option<String>, Instant)> = None;
        let mut problem = String::new();
        loop {
            match self.try_acquire(&mut seen).await {
                Ok(Some(held)) => {
                    info!(lease = self.name, identity = self.identity, "this replica leads");
                    return held;
                }
                Ok(None) => {}
                Err(error) if error.to_string() != problem => {
                    problem = error.to_string();
                    warn!(lease = self.name, "cannot take the Lease: {problem}");
                }
                Err(_) => {}
            }
            tokio::time::sleep(self.pause()).await;
        }
    }

    async fn try_acquire(
        &self,
        seen: &mut Option<(Option<String>, Instant)>,
    ) -> Result<Option<HeldLease>, kube::Error> {
        let found = self.api.get_opt(&self.name).await?;
        // It counts from before the write: others see it later.
        let begun = Instant::now();
        let Some(found) = found else {
            let lease = Lease {
                metadata: ObjectMeta {
                    name: Some(self.name.clone()),
                    namespace: Some(self.namespace.clone()),
                    ..ObjectMeta::default()
                },
                spec: Some(self.spec(None)),
            };
            let lease = self.api.create(&post(), &lease).await?;
            return Ok(Some(HeldLease { lease, entries: Entries::default(), renewed: begun }));
        };
        let spec = found.spec.clone().unwrap_or_default();
        let is_held = spec.holder_identity.as_ref().is_some_and(|holder| !holder.is_empty());
        let unchanged = match seen.as_ref().filter(|(version, _)| *version == found.metadata.resource_version) {
            Some((_, since)) => since.elapsed(),
            None => {
                *seen = Some((found.metadata.resource_version.clone(), begun));
                Duration::ZERO
            }
        };
        let duration =
            Duration::from_secs(spec.lease_duration_seconds.unwrap_or_default().max(0).unsigned_abs().into());
        if is_held && unchanged < duration.max(self.duration) {
            return Ok(None);
        }
        let entries = Entries::read(found.metadata.annotations.as_ref().and_then(|all| all.get(ANNOTATION)));
        let lease = Lease { spec: Some(self.spec(Some(&spec))), ..found };
        let lease = self.api.replace(&self.name, &post(), &lease).await?;
        Ok(Some(HeldLease { lease, entries, renewed: begun }))
    }

    /// Keeps the Lease and its journal until `released`, and gives the Lease back then. An error:
    /// the process must end at once.
    ///
    /// # Errors
    /// [`LeaseLost`].
    pub(crate) async fn keep(
        &self,
        mut held: HeldLease,
        requests: &mut mpsc::Receiver<JournalRequest>,
        released: CancellationToken,
    ) -> Result<(), LeaseLost> {
        let mut ticks = tokio::time::interval(self.pause());
        let mut pending = Pending::default();
        let mut received = Vec::new();
        loop {
            let mut write = true;
            tokio::select! {
                () = released.cancelled() => {
                    self.give_back(held, requests).await;
                    return Ok(());
                }
                _ = ticks.tick() => {}
                _ = requests.recv_many(&mut received, TOGETHER) => write = note(&mut held.entries, &mut received, &mut pending),
            }
            if !write {
                continue;
            }
            match self.renew(&mut held).await {
                Ok(()) => pending.waiting.drain(..).for_each(|waiting| drop(waiting.send(Ok(())))),
                Err(Some(lost)) => return Err(lost),
                // Tried again with the next tick.
                Err(None) => {}
            }
            if held.renewed.elapsed() > self.deadline() {
                return Err(LeaseLost::Expired { name: self.name.clone(), seconds: self.deadline().as_secs() });
            }
        }
    }

    /// Takes this replica's name out, so that another need not wait for the Lease's duration.
    async fn give_back(&self, mut held: HeldLease, requests: &mut mpsc::Receiver<JournalRequest>) {
        let mut received = Vec::new();
        while let Ok(request) = requests.try_recv() {
            received.push(request);
        }
        // Nobody waits: the workers have ended.
        note(&mut held.entries, &mut received, &mut Pending::default());
        let mut lease = held.lease;
        if let Some(spec) = lease.spec.as_mut() {
            spec.holder_identity = Some(String::new());
        }
        lease.metadata.annotations.get_or_insert_default().insert(ANNOTATION.to_owned(), held.entries.text());
        match timeout(self.deadline(), self.api.replace(&self.name, &post(), &lease)).await {
            Ok(Ok(_)) => info!(lease = self.name, "the Lease is given back"),
            Ok(Err(error)) => warn!(lease = self.name, "the Lease is not given back, and expires: {error}"),
            Err(_) => {
                warn!(lease = self.name, "the Lease is not given back, and expires: the API server does not answer")
            }
        }
    }

    /// Renews the Lease. An error without a reason is one that may pass.
    async fn renew(&self, held: &mut HeldLease) -> Result<(), Option<LeaseLost>> {
        let begun = Instant::now();
        let mut lease = held.lease.clone();
        if let Some(spec) = lease.spec.as_mut() {
            spec.renew_time = Some(MicroTime(jiff::Timestamp::now()));
        }
        lease.metadata.annotations.get_or_insert_default().insert(ANNOTATION.to_owned(), held.entries.text());
        let left = self.deadline().saturating_sub(held.renewed.elapsed());
        match timeout(left.min(self.attempt()), self.api.replace(&self.name, &post(), &lease)).await {
            Ok(Ok(lease)) => {
                held.lease = lease;
                held.renewed = begun;
                Ok(())
            }
            Ok(Err(error)) => {
                warn!(lease = self.name, "the Lease is not renewed: {error}");
                // Another replica wrote, or an earlier renewal was taken whose answer was lost.
                let left = self.deadline().saturating_sub(held.renewed.elapsed());
                let found = timeout(left, self.api.get(&self.name)).await.map_err(|_| None)?.map_err(|_| None)?;
                let holder = found.spec.as_ref().and_then(|spec| spec.holder_identity.clone()).unwrap_or_default();
                if holder != self.identity {
                    return Err(Some(LeaseLost::Taken { name: self.name.clone(), holder }));
                }
                held.lease.metadata.resource_version = found.metadata.resource_version;
                Err(None)
            }
            Err(_) => Err(None),
        }
    }

    fn spec(&self, before: Option<&LeaseSpec>) -> LeaseSpec {
        let now = MicroTime(jiff::Timestamp::now());
        LeaseSpec {
            acquire_time: Some(now.clone()),
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: Some(i32::try_from(self.duration.as_secs()).unwrap_or(i32::MAX)),
            lease_transitions: Some(
                before.map_or(0, |before| before.lease_transitions.unwrap_or_default().saturating_add(1)),
            ),
            renew_time: Some(now),
            ..LeaseSpec::default()
        }
    }
}

/// Changes the entries. Returns whether a change must be written at once.
fn note(entries: &mut Entries, received: &mut Vec<JournalRequest>, pending: &mut Pending) -> bool {
    for request in received.drain(..) {
        match request {
            JournalRequest::Begin(claim, answer) => match entries.add(*claim) {
                Ok(()) => pending.waiting.push(answer),
                Err(error) => drop(answer.send(Err(error))),
            },
            JournalRequest::End(uid) => drop(entries.remove(&uid)),
        }
    }
    !pending.waiting.is_empty()
}

fn post() -> PostParams {
    PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() }
}
