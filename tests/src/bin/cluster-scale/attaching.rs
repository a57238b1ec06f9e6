//! The controller that asks for attachments: `volhost attach-detach-controller`, or Kubernetes' own.

use std::collections::BTreeMap;

use serde_json::Value;
use volhost_tests::attach_detach::AttachDetach;
use volhost_tests::cluster::{Attaching, Cluster};

/// Kubernetes' controller, in the API server's log.
const STOCK: &str = "system:serviceaccount:kube-system:attachdetach-controller";

/// The replicas of volhost's controller: none if Kubernetes' own attaches.
pub(crate) struct AttachDetachReplicas<'a> {
    cluster: &'a Cluster,
    /// The one that leads, and the one that waits.
    pair: Option<(AttachDetach, AttachDetach)>,
    started: usize,
}

impl<'a> AttachDetachReplicas<'a> {
    /// Starts two of them.
    pub(crate) fn start(cluster: &'a Cluster, attaching: Attaching) -> Self {
        let mut started = Self { cluster, pair: None, started: 0 };
        if attaching == Attaching::ByAnother {
            AttachDetach::deploy(cluster);
            let leader = started.next();
            leader.wait_leads();
            started.pair = Some((leader, started.next()));
        }
        started
    }

    /// Kills the one that leads. The other one follows, and another one is started.
    pub(crate) fn kill_leader(&mut self) {
        let Some((mut leader, follower)) = self.pair.take() else { return };
        leader.kill();
        follower.wait_leads();
        self.pair = Some((follower, self.next()));
    }

    /// The most memory of the one that leads.
    pub(crate) fn peak_mib(&self) -> Option<f64> {
        self.pair.as_ref().map(|(leader, _)| leader.peak_mib())
    }

    fn next(&mut self) -> AttachDetach {
        self.started += 1;
        AttachDetach::start(self.cluster, &format!("attach-detach-{}", self.started), &[])
    }
}

/// What the controller has asked the API server for, watches apart. volhost's was forbidden nothing,
/// and read no object by a GET but the Lease.
pub(crate) fn requests_to_attach(cluster: &Cluster, attaching: Attaching) -> BTreeMap<String, usize> {
    let mut counted = BTreeMap::new();
    let mut count = |verb: &str, what: &str| *counted.entry(format!("{verb} {what}")).or_default() += 1;
    match attaching {
        Attaching::ByAnother => {
            for (verb, resource) in AttachDetach::requests(cluster) {
                assert!(verb != "get" || resource == "leases", "{verb} {resource}");
                count(&verb, &resource);
            }
        }
        Attaching::ByKubernetes => {
            for request in cluster.requests() {
                let text = |pointer: &str| request.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
                if text("/user/username") != STOCK || text("/verb") == "watch" {
                    continue;
                }
                let part = text("/objectRef/subresource");
                let part = if part.is_empty() { String::new() } else { format!("/{part}") };
                count(text("/verb"), &format!("{}{part}", text("/objectRef/resource")));
            }
        }
    }
    counted
}
