//! What a driver says of this node (`NodeGetInfo`): its name for it, how many volumes may be attached to it, and where it is.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::timeout;
use tonic::Status;

use super::connection::Connection;
use volhost_proto::csi::NodeGetInfoRequest;
use volhost_proto::csi::node_client::NodeClient;

/// How long a driver may take to say it.
const TIME: Duration = Duration::from_secs(120);
/// The longest id of a node, in bytes, as CSI has it.
const NODE_ID_BYTES: usize = 256;
/// The most segments of a topology. Drivers have one to three.
const SEGMENTS: usize = 64;
/// The longest key and the longest value of a topology, in bytes: Kubernetes' limits for a label.
const KEY_BYTES: usize = 317;
const VALUE_BYTES: usize = 63;

/// What a driver says of this node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct AboutNode {
    /// Its name for the node.
    pub(super) node_id: String,
    /// How many volumes may be attached to the node; none when it knows no limit.
    pub(super) volume_limit: Option<u32>,
    /// Where the node is.
    pub(super) topology: BTreeMap<String, String>,
}

impl AboutNode {
    /// Asks the driver.
    ///
    /// # Errors
    /// Why it gave no answer, or one that cannot be used.
    pub(super) async fn ask(connection: &Connection) -> Result<Self, String> {
        let mut node = NodeClient::new(connection.channel());
        let said = answer(TIME, node.node_get_info(NodeGetInfoRequest {})).await?;
        let topology = said.accessible_topology.map(|topology| topology.segments).unwrap_or_default();
        Self::of(said.node_id, said.max_volumes_per_node, topology.into_iter().collect())
    }

    fn of(node_id: String, limit: i64, topology: BTreeMap<String, String>) -> Result<Self, String> {
        if node_id.is_empty() || node_id.len() > NODE_ID_BYTES {
            return Err(format!("its node id has {} bytes, and must have 1 to {NODE_ID_BYTES}", node_id.len()));
        }
        let limit = u64::try_from(limit).map_err(|_| {
            format!("its max_volumes_per_node is {limit}, and must not be negative; 0 stands for no limit")
        })?;
        // As Kubernetes, which has 32 bits for it.
        let volume_limit = (limit > 0).then(|| u32::try_from(limit).unwrap_or(u32::MAX));
        let fits = |(key, value): (&String, &String)| {
            !key.is_empty()
                && key.len() <= KEY_BYTES
                && value.len() <= VALUE_BYTES
                && !key.chars().chain(value.chars()).any(char::is_control)
        };
        if topology.len() > SEGMENTS || !topology.iter().all(fits) {
            return Err(format!(
                "its accessible_topology must have {SEGMENTS} segments at most, each of them a label: a key of 1 to {KEY_BYTES} bytes and a value of {VALUE_BYTES} at most"
            ));
        }
        Ok(Self { node_id, volume_limit, topology })
    }

    /// The limit in words.
    pub(super) fn limit_in_words(&self) -> String {
        match self.volume_limit {
            Some(limit) => format!("{limit} of its volumes may be attached to this node"),
            None => "any number of its volumes may be attached to this node".to_owned(),
        }
    }
}

/// What a call answers, in time; else why not.
pub(super) async fn answer<T>(
    time: Duration,
    call: impl Future<Output = Result<tonic::Response<T>, Status>>,
) -> Result<T, String> {
    match timeout(time, call).await {
        Ok(Ok(answer)) => Ok(answer.into_inner()),
        Ok(Err(status)) => {
            let cause = std::iter::successors(std::error::Error::source(&status), |cause| cause.source()).last();
            let cause = cause.map(|cause| format!(": {cause}")).unwrap_or_default();
            Err(format!("{:?}: {}{cause}", status.code(), status.message()))
        }
        Err(_) => Err(format!("no answer within {} s", time.as_secs())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(limit: i64, key: &str, value: &str) -> Result<AboutNode, String> {
        AboutNode::of("n".to_owned(), limit, [(key.to_owned(), value.to_owned())].into())
    }

    #[test]
    fn a_limit_of_nothing_is_none_and_a_huge_one_fits() {
        assert_eq!(of(0, "zone", "a").unwrap().volume_limit, None);
        assert_eq!(of(3, "zone", "a").unwrap().volume_limit, Some(3));
        assert_eq!(of(i64::MAX, "zone", "a").unwrap().volume_limit, Some(u32::MAX));
    }

    #[test]
    fn what_cannot_be_used_is_named() {
        assert!(of(-1, "zone", "a").unwrap_err().contains("max_volumes_per_node is -1"));
        for (key, value) in [("", "a"), ("zone", "a\n"), ("zone", &"x".repeat(64))] {
            assert!(of(1, key, value).unwrap_err().contains("accessible_topology"), "{key:?}");
        }
        assert!(AboutNode::of(String::new(), 0, BTreeMap::new()).unwrap_err().contains("node id has 0 bytes"));
    }
}
