//! How many objects the API server has, and how far they are.

use serde_json::Value;
use volhost_tests::cluster::{Api, Tally};

use crate::objects::{ATTACHMENT_LIST, CLAIM_LIST, CSI_NODE_LIST, NODE_LIST, VOLUME_LIST};

/// The counts, kept by watches.
pub(crate) struct Counts {
    claims: Tally<2>,
    volumes: Tally<1>,
    attachments: Tally<2>,
    nodes: Tally<2>,
    csi_nodes: Tally<1>,
}

impl Counts {
    /// Counts from now on.
    pub(crate) fn start(api: &Api) -> Self {
        Self {
            claims: api.tally(CLAIM_LIST, |claim| [1, usize::from(claim["status"]["phase"] == "Bound")]),
            volumes: api.tally(VOLUME_LIST, |_| [1]),
            attachments: api
                .tally(ATTACHMENT_LIST, |attachment| [1, usize::from(attachment["status"]["attached"] == true)]),
            nodes: api.tally(NODE_LIST, |node| {
                ["volumesAttached", "volumesInUse"].map(|field| length(&node["status"][field]))
            }),
            csi_nodes: api.tally(CSI_NODE_LIST, |node| [length(&node["spec"]["drivers"]).min(1)]),
        }
    }

    /// Claims that are bound.
    pub(crate) fn bound(&self) -> usize {
        self.claims.sums()[1]
    }

    /// VolumeAttachments that are attached.
    pub(crate) fn attached(&self) -> usize {
        self.attachments.sums()[1]
    }

    /// Entries in `status.volumesAttached` of all nodes.
    pub(crate) fn listed(&self) -> usize {
        self.nodes.sums()[0]
    }

    /// Entries in `status.volumesInUse` of all nodes.
    pub(crate) fn in_use(&self) -> usize {
        self.nodes.sums()[1]
    }

    /// Nodes with a driver.
    pub(crate) fn nodes_with_driver(&self) -> usize {
        self.csi_nodes.sums()[0]
    }

    /// Claims, PersistentVolumes, VolumeAttachments and entries of nodes' status.
    pub(crate) fn left(&self) -> usize {
        self.claims.sums()[0] + self.volumes.sums()[0] + self.attachments.sums()[0] + self.listed() + self.in_use()
    }
}

fn length(list: &Value) -> usize {
    list.as_array().map_or(0, Vec::len)
}
