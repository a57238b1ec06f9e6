//! Which volumes the driver says are attached to which nodes.

use std::collections::{HashMap, HashSet};

use thiserror::Error;
use tonic::Status;
use volhost_proto::csi::ListVolumesRequest;

use crate::driver::{Driver, said};

/// More pages than any driver has: a bound for one that never ends.
const PAGES: usize = 100_000;

/// Why the list is not known.
#[derive(Debug, Error)]
pub(super) enum ListError {
    /// The driver.
    #[error("{}", said("ListVolumes", .0))]
    Call(#[source] Box<Status>),
    /// The driver's pages go round in a circle.
    #[error("ListVolumes: the driver's answers have no end")]
    Endless,
}

/// The nodes of each volume, by their names in the driver.
#[derive(Debug, Default)]
pub(super) struct ListedVolumes(HashMap<String, HashSet<String>>);

impl ListedVolumes {
    /// Asks the driver.
    ///
    /// # Errors
    /// [`ListError`].
    pub(super) async fn ask(driver: &Driver) -> Result<Self, ListError> {
        let (mut nodes, mut starting_token) = (HashMap::<_, HashSet<_>>::new(), String::new());
        for _ in 0..PAGES {
            let request = ListVolumesRequest { max_entries: 0, starting_token: starting_token.clone() };
            let answer = driver.client().list_volumes(driver.request(request)).await;
            let answer = answer.map_err(|source| ListError::Call(Box::new(source)))?.into_inner();
            for entry in answer.entries {
                let ids = entry.status.map(|status| status.published_node_ids).unwrap_or_default();
                if let Some(volume) = entry.volume {
                    nodes.entry(volume.volume_id).or_default().extend(ids);
                }
            }
            if answer.next_token.is_empty() {
                return Ok(Self(nodes));
            }
            if answer.next_token == starting_token {
                return Err(ListError::Endless);
            }
            starting_token = answer.next_token;
        }
        Err(ListError::Endless)
    }

    /// Whether the driver lists the volume, and not as attached to the node. A volume that is not
    /// listed may be one that the driver did not make: its list says nothing of it.
    pub(super) fn lacks(&self, volume: &str, node: &str) -> bool {
        self.0.get(volume).is_some_and(|nodes| !nodes.contains(node))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_volume_that_is_listed_can_be_lost() {
        let nodes = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect();
        let listed = ListedVolumes([("a".to_owned(), nodes(&["one"])), ("b".to_owned(), nodes(&[]))].into());
        assert!(!listed.lacks("a", "one"));
        assert!(listed.lacks("a", "two"));
        assert!(listed.lacks("b", "one"));
        assert!(!listed.lacks("unknown", "one"));
    }
}
