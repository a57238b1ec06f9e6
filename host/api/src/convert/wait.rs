//! Pods as callers name them, and how a wait ended.

use volhost_core::{VolumeStatus, WaitFailure};

use crate::pb;
use volhost_node::engine::requests::{PodSelector, RequestError};

impl TryFrom<pb::PodSelector> for PodSelector {
    type Error = RequestError;
    fn try_from(pod: pb::PodSelector) -> Result<Self, RequestError> {
        if !pod.uid.is_empty() {
            return Ok(Self::Uid(pod.uid));
        }
        if pod.name.is_empty() {
            return Err(RequestError::Invalid(
                "the request names no pod: give its uid, or its namespace and name".into(),
            ));
        }
        let namespace = if pod.namespace.is_empty() { "default".into() } else { pod.namespace };
        Ok(Self::Name { namespace, name: pod.name })
    }
}

impl From<PodSelector> for pb::PodSelector {
    fn from(pod: PodSelector) -> Self {
        match pod {
            PodSelector::Uid(uid) => Self { uid, ..Self::default() },
            PodSelector::Name { namespace, name } => Self { uid: String::new(), namespace, name },
        }
    }
}

impl pb::WaitFailure {
    /// The message for a wait that failed at `now_us`, the engine's clock.
    pub(crate) fn at(failure: WaitFailure, now_us: u64) -> Self {
        Self {
            pod: failure.pod,
            timed_out: failure.timed_out,
            unknown_pod: failure.unknown_pod,
            volumes: failure.volumes.into_iter().map(|volume| pb::VolumeStanding::at(volume, now_us)).collect(),
        }
    }
}

impl pb::VolumeStanding {
    fn at(standing: VolumeStatus, now_us: u64) -> Self {
        Self {
            name: standing.name,
            state: pb::VolumeState::from(standing.state).into(),
            step: standing.step,
            failure: standing.failure.map(Into::into),
            reason: standing.reason,
            retry_in_ms: standing.retry_at.map(|at| at.saturating_sub(now_us) / 1000),
        }
    }
}
