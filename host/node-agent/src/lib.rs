//! The agent of a node: brings the pods of this node, and what their volumes name, from the API
//! server of a Kubernetes cluster to the daemon, and what the daemon reports back to the API server.
//!
//! ```text
//!  API server --watches--> Known --Plan--> mirror --AddPods, RemovePod--> daemon
//!      ^                                                                   |
//!      |<-- volumesInUse ------------------ in_use <-----------------------|
//!      |<-- CSINode, labels -------------- csi_node <---------------------|
//!      |<-- Events ------------------------ events <-----------------------|
//!      |<-- NodePlugins ----------------- plugins <----------------------|
//!      '<-- TokenRequests ----------------- tokens <-----------------------'
//! ```
//!
//! `volhost run --kubernetes` starts it. It runs beside the daemon, as a process of its own and
//! without a right on the node: what speaks TLS and has the cluster's credentials is not what mounts.
//!
//! What it does not know it leaves as it is. While the API server does not answer, the daemon keeps
//! every pod that it has. A pod is passed on once everything that its volumes name has been read, or
//! is known not to exist. What the daemon has and the cluster has not is removed only after the
//! cluster's pods have been listed.
//!
//! | module | its job |
//! |---|---|
//! | `run` | from the start to the end; a session with the daemon after the other |
//! | `watches` | the watches: of all objects of a kind, and of single ones by name |
//! | `cluster_object` | one object as the API server has it |
//! | `known` | all that was read, and which pods can be passed on |
//! | `parent` | the daemon that has started the agent |
//! | `plan` | which objects the daemon has to add and remove |
//! | `refusals` | what the daemon has refused, and when it is tried again |
//! | `waiting` | when pods that wait for what they name are reported |
//! | `daemon` | calls of the daemon |
//! | `mirror` | carries out plans |
//! | `in_use` | `status.volumesInUse` of the node |
//! | `growth` | the status of claims whose volumes have grown |
//! | `csi_node` | the CSINode, and the labels of topology |
//! | `events` | events on pods |
//! | `plugins` | plugins that the cluster installs |
//! | `tokens` | tokens of service accounts |
#![forbid(unsafe_code)]

mod cluster_object;
mod csi_node;
mod daemon;
mod error;
mod events;
mod growth;
mod in_use;
mod known;
mod mirror;
mod parent;
mod plan;
mod plugins;
mod refusals;
mod run;
mod tokens;
mod waiting;
mod watches;

pub use error::AgentError;
pub use run::run;
