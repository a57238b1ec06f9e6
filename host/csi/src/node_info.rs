//! A driver's description of this node (`NodeGetInfo`): its id of the node, how many volumes may be
//! attached to it, and its topology.

use std::collections::BTreeMap;
use std::time::Duration;

use thiserror::Error;
use volhost_proto::csi::NodeGetInfoRequest;
use volhost_proto::csi::node_client::NodeClient;

use super::call::RpcError;
use super::connection::DriverConnection;

/// How long a driver may take to answer: some ask their cloud.
const TIMEOUT: Duration = Duration::from_secs(120);
/// The call.
const GET_INFO: &str = "/csi.v1.Node/NodeGetInfo";
/// The longest id of a node, in bytes: CSI's limit.
const NODE_ID_BYTES: usize = 256;
/// The most segments of a topology. Drivers have one to three.
const SEGMENTS: usize = 64;
/// The longest key of a topology, in bytes: Kubernetes' limit for a label.
const KEY_BYTES: usize = 317;
/// The longest value of a topology, in bytes: Kubernetes' limit for a label.
const VALUE_BYTES: usize = 63;

/// A driver's description of this node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct NodeInfo {
    /// The driver's id of the node.
    pub(super) node_id: String,
    /// How many volumes may be attached to the node; none if the driver knows no limit.
    pub(super) volume_limit: Option<u32>,
    /// The node's topology segments.
    pub(super) topology: BTreeMap<String, String>,
}

/// Why there is no usable description.
#[derive(Debug, Error)]
pub(super) enum NodeInfoError {
    /// The driver did not answer, or with an error.
    #[error(transparent)]
    Call(#[from] RpcError),
    /// The node id is empty or too long.
    #[error("its node id has {bytes} bytes, and must have 1 to {NODE_ID_BYTES}")]
    NodeId {
        /// Its length.
        bytes: usize,
    },
    /// The limit is negative.
    #[error("its max_volumes_per_node is {0}, and must not be negative; 0 means no limit")]
    Limit(i64),
    /// The topology cannot be labels of a node.
    #[error(
        "its accessible_topology must have {SEGMENTS} segments at most, each of them a label: a key of 1 to {KEY_BYTES} bytes and a value of {VALUE_BYTES} at most"
    )]
    Topology,
}

impl NodeInfo {
    /// Asks the driver.
    ///
    /// # Errors
    /// [`NodeInfoError`].
    pub(super) async fn ask(connection: &DriverConnection) -> Result<Self, NodeInfoError> {
        let mut node = NodeClient::new(connection.channel());
        let answer = connection.within(TIMEOUT, GET_INFO, node.node_get_info(NodeGetInfoRequest {})).await?;
        let topology = answer.accessible_topology.map(|topology| topology.segments).unwrap_or_default();
        Self::checked(answer.node_id, answer.max_volumes_per_node, topology.into_iter().collect())
    }

    fn checked(node_id: String, limit: i64, topology: BTreeMap<String, String>) -> Result<Self, NodeInfoError> {
        if node_id.is_empty() || node_id.len() > NODE_ID_BYTES {
            return Err(NodeInfoError::NodeId { bytes: node_id.len() });
        }
        let limit = u64::try_from(limit).map_err(|_| NodeInfoError::Limit(limit))?;
        // Kubernetes has 32 bits for it, too.
        let volume_limit = (limit > 0).then(|| u32::try_from(limit).unwrap_or(u32::MAX));
        let fits = |(key, value): (&String, &String)| {
            !key.is_empty()
                && key.len() <= KEY_BYTES
                && value.len() <= VALUE_BYTES
                && !key.chars().chain(value.chars()).any(char::is_control)
        };
        if topology.len() > SEGMENTS || !topology.iter().all(fits) {
            return Err(NodeInfoError::Topology);
        }
        Ok(Self { node_id, volume_limit, topology })
    }

    /// The volume limit as a part of a sentence.
    pub(super) fn limit_text(&self) -> String {
        match self.volume_limit {
            Some(limit) => format!("{limit} of its volumes may be attached to this node"),
            None => "any number of its volumes may be attached to this node".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(limit: i64, key: &str, value: &str) -> Result<NodeInfo, NodeInfoError> {
        NodeInfo::checked("n".to_owned(), limit, [(key.to_owned(), value.to_owned())].into())
    }

    #[test]
    fn a_limit_of_zero_is_none_and_a_huge_one_fits() {
        assert_eq!(checked(0, "zone", "a").unwrap().volume_limit, None);
        assert_eq!(checked(3, "zone", "a").unwrap().volume_limit, Some(3));
        assert_eq!(checked(i64::MAX, "zone", "a").unwrap().volume_limit, Some(u32::MAX));
    }

    #[test]
    fn an_unusable_field_is_named() {
        let limit = checked(-1, "zone", "a").unwrap_err();
        assert!(limit.to_string().contains("max_volumes_per_node is -1"), "{limit}");
        for (key, value) in [("", "a"), ("zone", "a\n"), ("zone", &"x".repeat(64))] {
            assert!(matches!(checked(1, key, value), Err(NodeInfoError::Topology)), "{key:?}");
        }
        let id = NodeInfo::checked(String::new(), 0, BTreeMap::new()).unwrap_err();
        assert!(id.to_string().contains("node id has 0 bytes"), "{id}");
    }
}
