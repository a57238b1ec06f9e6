//! The claims whose volumes may have been created without a PersistentVolume to show for it.
//!
//! A claim is written into the Lease before `CreateVolume` is called the first time, and removed
//! once there is a PersistentVolume, or once the driver has said that there is no volume. If the
//! controller dies in between and the claim is deleted, the next leader still knows what was asked
//! for. It repeats the call, which returns the same volume, and writes the PersistentVolume, which
//! Kubernetes then reclaims.
//!
//! Entries travel with renewals of the Lease, all that wait in one write: under load a volume costs
//! a small part of a write.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, PersistentVolumeClaimSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use thiserror::Error;
use tokio::sync::{mpsc, oneshot};
use tracing::warn;

/// The Lease's annotation.
pub(crate) const ANNOTATION: &str = "volhost.io/creating";
/// How large the annotation may become, in bytes. All annotations of an object may have 256 KiB.
const ANNOTATION_BYTES: usize = 200 << 10;
/// How many requests may wait.
const WAITING: usize = 1000;

/// Why a claim is not in the journal.
#[derive(Debug, Error)]
pub(crate) enum JournalError {
    /// Too many outcomes are unknown at once.
    #[error("the outcome of too many other creations is unknown yet")]
    Full,
    /// The Lease is not ours.
    #[error("this replica does not lead any more")]
    Ended,
}

/// A change to the journal.
#[derive(Debug)]
pub(crate) enum JournalRequest {
    /// Write this claim down, and answer once the API server has it.
    Begin(Box<PersistentVolumeClaim>, oneshot::Sender<Result<(), JournalError>>),
    /// Remove the claim with this UID, at the next renewal.
    End(String),
}

/// Where workers change the journal. Cloning is cheap.
#[derive(Debug, Clone)]
pub(crate) struct Journal {
    sender: mpsc::Sender<JournalRequest>,
}

impl Journal {
    /// A journal, and where the Lease's keeper receives changes.
    pub(crate) fn new() -> (Self, mpsc::Receiver<JournalRequest>) {
        let (sender, receiver) = mpsc::channel(WAITING);
        (Self { sender }, receiver)
    }

    /// Writes the claim down. It is in the API server when this returns.
    ///
    /// # Errors
    /// [`JournalError`]; the volume must not be created then.
    pub(crate) async fn begin(&self, claim: PersistentVolumeClaim) -> Result<(), JournalError> {
        let (answer, written) = oneshot::channel();
        let request = JournalRequest::Begin(Box::new(claim), answer);
        self.sender.send(request).await.map_err(|_| JournalError::Ended)?;
        written.await.map_err(|_| JournalError::Ended)?
    }

    /// Removes the claim.
    pub(crate) async fn end(&self, uid: &str) {
        // Without a keeper the process ends.
        let _ = self.sender.send(JournalRequest::End(uid.to_owned())).await;
    }
}

/// The entries, by the UID of the claim.
#[derive(Debug, Default, Clone)]
pub(crate) struct Entries(BTreeMap<String, PersistentVolumeClaim>);

impl Entries {
    /// Reads the annotation.
    pub(crate) fn read(annotation: Option<&String>) -> Self {
        let Some(text) = annotation else { return Self::default() };
        match serde_json::from_str::<Vec<PersistentVolumeClaim>>(text) {
            Ok(claims) => {
                Self(claims.into_iter().filter_map(|claim| Some((claim.metadata.uid.clone()?, claim))).collect())
            }
            Err(error) => {
                warn!("the Lease's annotation {ANNOTATION} is ignored: {error}");
                Self::default()
            }
        }
    }

    /// The annotation's text.
    pub(crate) fn text(&self) -> String {
        let claims: Vec<_> = self.0.values().collect();
        serde_json::to_string(&claims).unwrap_or_default()
    }

    /// Adds a claim unless the annotation became too large.
    pub(crate) fn add(&mut self, claim: PersistentVolumeClaim) -> Result<(), JournalError> {
        let Some(uid) = claim.metadata.uid.clone() else { return Ok(()) };
        self.0.insert(uid.clone(), claim);
        if self.text().len() > ANNOTATION_BYTES {
            self.0.remove(&uid);
            return Err(JournalError::Full);
        }
        Ok(())
    }

    /// Removes a claim. Returns whether it was there.
    pub(crate) fn remove(&mut self, uid: &str) -> bool {
        self.0.remove(uid).is_some()
    }

    /// The claims.
    pub(crate) fn claims(&self) -> impl Iterator<Item = &PersistentVolumeClaim> {
        self.0.values()
    }
}

/// The part of a claim that `CreateVolume` is called with: its specification, and those annotations
/// that `is_used` names.
pub(crate) fn essence(claim: &PersistentVolumeClaim, is_used: impl Fn(&str) -> bool) -> PersistentVolumeClaim {
    let annotations = claim.metadata.annotations.as_ref().map(|all| {
        all.iter().filter(|(key, _)| is_used(key)).map(|(key, value)| (key.clone(), value.clone())).collect()
    });
    PersistentVolumeClaim {
        metadata: ObjectMeta {
            name: claim.metadata.name.clone(),
            namespace: claim.metadata.namespace.clone(),
            uid: claim.metadata.uid.clone(),
            annotations,
            ..ObjectMeta::default()
        },
        spec: claim.spec.as_ref().map(|spec| PersistentVolumeClaimSpec { selector: None, ..spec.clone() }),
        status: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(uid: &str, padding: usize) -> PersistentVolumeClaim {
        let mut claim = PersistentVolumeClaim::default();
        claim.metadata.uid = Some(uid.to_owned());
        claim.metadata.annotations =
            Some([("used".to_owned(), "x".repeat(padding)), ("other".to_owned(), "y".to_owned())].into());
        claim
    }

    #[test]
    fn entries_are_read_as_they_were_written() {
        let mut entries = Entries::default();
        entries.add(essence(&claim("a", 3), |key| key == "used")).unwrap();
        entries.add(essence(&claim("b", 3), |_| false)).unwrap();
        let text = entries.text();
        assert!(!text.contains("other"), "{text}");
        let mut read = Entries::read(Some(&text));
        assert_eq!(read.text(), text);
        assert!(read.remove("a"));
        assert!(!read.remove("a"));
        assert_eq!(read.claims().count(), 1);
        assert_eq!(Entries::read(Some(&"{".to_owned())).claims().count(), 0);
    }

    #[test]
    fn a_full_journal_takes_no_more() {
        let mut entries = Entries::default();
        entries.add(claim("a", 150 << 10)).unwrap();
        assert!(matches!(entries.add(claim("b", 150 << 10)), Err(JournalError::Full)));
        entries.add(claim("c", 10)).unwrap();
        assert_eq!(entries.claims().count(), 2);
    }
}
