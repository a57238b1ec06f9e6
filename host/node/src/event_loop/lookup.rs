//! Finds the pod that a caller selects.
#![deny(clippy::disallowed_methods)]

use volhost_model::names::PodUid;

use super::requests::{PodSelector, RequestError};
use super::sources::Sources;
use super::world::World;

/// Returns the uid of a pod that a source or the state machine knows.
///
/// # Errors
/// [`RequestError::UnknownPod`]; [`RequestError::Invalid`] for an uid that cannot be one.
pub(super) fn known_pod(world: &World, sources: &Sources, pod: &PodSelector) -> Result<PodUid, RequestError> {
    match pod {
        PodSelector::Uid(text) => {
            let uid = PodUid::new(text.clone()).map_err(|error| RequestError::Invalid(error.to_string()))?;
            let known = world.core().has_pod(&uid) || sources.knows(&uid);
            if known { Ok(uid) } else { Err(unknown(pod)) }
        }
        PodSelector::Name { namespace, name } => sources
            .uid_of(namespace, name)
            // Gone from its source, but not yet from the node.
            .or_else(|| world.core().pod_named(namespace, name).cloned())
            .ok_or_else(|| unknown(pod)),
    }
}

/// Returns the uid of a pod that a source names. A pod that only recovery knows does not count: a
/// source may name it any moment.
///
/// # Errors
/// As [`known_pod`].
pub(super) fn named_pod(world: &World, sources: &Sources, pod: &PodSelector) -> Result<PodUid, RequestError> {
    let uid = known_pod(world, sources, pod)?;
    if sources.knows(&uid) { Ok(uid) } else { Err(unknown(pod)) }
}

fn unknown(pod: &PodSelector) -> RequestError {
    RequestError::UnknownPod(match pod {
        PodSelector::Uid(text) => text.clone(),
        PodSelector::Name { namespace, name } => format!("{namespace}/{name}"),
    })
}
