//! The objects that volumes show, where the threads that carry out operations can read them.
//!
//! ```text
//!  sources --apply--> ObjectStore (the event loop's own) --keep--> SharedObjects <--read-- plugins' host calls
//!                                                                      |
//!                                                                      '-- tokens: the signer or the cluster, and what it has issued
//! ```
//!
//! The event loop writes here before it reports to the state machine that a source has changed, so
//! an operation that this starts reads what is new.

mod known;
mod selector;
mod signer;
mod token_clients;
mod tokens;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::SystemTime;

use tokio::sync::{mpsc, watch};
use volhost_model::objects::{Bytes, KeyedObject, ObjectError, Objects, TokenRequest};
use volhost_model::{Pod, PodUid};

pub use signer::{KeyError, Signer};
pub use token_clients::{IssuedToken, TokenAnswer, TokenClients, TokenQuestion};
pub use tokens::{Issuer, Renewal, renewals};

use crate::{Kind, Object, ObjectKey};
use known::PayloadObjects;
use tokens::Tokens;

/// The objects that volumes show.
pub struct SharedObjects {
    known: RwLock<PayloadObjects>,
    tokens: Tokens,
    /// Counts the changes of CSIDriver objects.
    csi_drivers: watch::Sender<u64>,
}

impl fmt::Debug for SharedObjects {
    /// Without the content (rule R10).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedObjects").field("tokens", &self.tokens).finish_non_exhaustive()
    }
}

impl SharedObjects {
    /// Creates an empty set. Tokens are issued by the issuer, or without one by a
    /// [client](SharedObjects::token_clients); `renewals` is notified when a pod's expire.
    pub fn new(issuer: Option<Issuer>, renewals: mpsc::UnboundedSender<Renewal>) -> Self {
        let tokens = Tokens::new(issuer, renewals);
        Self { known: RwLock::default(), tokens, csi_drivers: watch::Sender::new(0) }
    }

    /// Takes note of what an object says now, none when it is gone. Of kinds that no volume shows,
    /// it only notes that the object is not lost any more.
    pub fn keep(&self, key: &ObjectKey, object: Option<&Object>) {
        let is_shown = matches!(
            key.kind,
            Kind::ConfigMap | Kind::Secret | Kind::ServiceAccount | Kind::ClusterTrustBundle | Kind::CsiDriver
        );
        if is_shown || self.is_lost(key) {
            self.known.write().unwrap_or_else(PoisonError::into_inner).keep(key, object);
        }
        if key.kind == Kind::CsiDriver {
            self.csi_drivers.send_modify(|changes| *changes = changes.wrapping_add(1));
        }
    }

    /// Takes note of objects that were added by request to an earlier run and are not known now, by
    /// the stems of their files.
    pub fn set_lost(&self, lost: BTreeSet<String>) {
        self.known.write().unwrap_or_else(PoisonError::into_inner).lost = lost;
    }

    /// Whether an object of this name was added by request to an earlier run and is not known now.
    pub fn is_lost(&self, key: &ObjectKey) -> bool {
        self.read(|known| known.is_lost(key))
    }

    /// A number that changes when a CSIDriver object may have changed.
    pub fn csi_driver_changes(&self) -> watch::Receiver<u64> {
        self.csi_drivers.subscribe()
    }

    /// Whether an object that is not known is known not to exist: every source has been read
    /// completely (rule R2). Returns whether that is new.
    pub fn set_complete(&self, complete: bool) -> bool {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let newly_complete = complete && !known.complete;
        known.revision += u64::from(known.complete != complete);
        known.complete = complete;
        newly_complete
    }

    /// The pod is gone, and with it its tokens.
    pub fn forget_pod(&self, pod: &PodUid) {
        self.tokens.forget(pod);
    }

    /// The client that is asked for tokens where there is no issuer.
    pub fn token_clients(&self) -> Arc<TokenClients> {
        Arc::clone(self.tokens.clients())
    }

    fn read<T>(&self, read: impl FnOnce(&PayloadObjects) -> T) -> T {
        read(&self.known.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Objects for SharedObjects {
    fn config_map(&self, namespace: &str, name: &str) -> Result<KeyedObject, ObjectError> {
        self.read(|known| known.keyed(&ObjectKey::new(Kind::ConfigMap, namespace, name)))
    }

    fn secret(&self, namespace: &str, name: &str) -> Result<KeyedObject, ObjectError> {
        self.read(|known| known.keyed(&ObjectKey::new(Kind::Secret, namespace, name)))
    }

    fn typed_secret(&self, namespace: &str, name: &str) -> Result<(String, KeyedObject), ObjectError> {
        self.read(|known| known.typed_secret(&ObjectKey::new(Kind::Secret, namespace, name)))
    }

    fn token(&self, pod: &Pod, request: &TokenRequest) -> Result<Bytes, ObjectError> {
        let account = if pod.service_account.is_empty() { "default" } else { &pod.service_account };
        let uid = self.read(|known| known.account_uid(&pod.namespace, account));
        self.tokens.token(pod, account, &uid, request, SystemTime::now())
    }

    fn trust_bundle(&self, name: &str) -> Result<Bytes, ObjectError> {
        self.read(|known| known.trust_bundle(name))
    }

    fn trust_bundles(&self, signer: &str, label_selector: Option<&str>) -> Result<Bytes, ObjectError> {
        self.read(|known| known.trust_bundles(signer, label_selector))
    }

    fn csi_driver(&self, name: &str) -> Result<Option<String>, ObjectError> {
        self.read(|known| known.csi_driver(name))
    }

    fn revision(&self) -> u64 {
        self.read(|known| known.revision)
    }
}
