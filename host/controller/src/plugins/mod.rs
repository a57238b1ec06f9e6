//! `plugin-controller`: rolls the plugins that VolumePlugins name out to the nodes.
//!
//! ```text
//!  VolumePlugins --.
//!  Nodes ----------+--> decide (pure) --> statuses, then NodePlugins
//!  NodePlugins ----'
//! ```
//!
//! The whole state is in the API server: a leader that begins knows what the one before knew.
//!
//! # Guarantees
//! - A failed revision is written into the VolumePlugin's status before any node is taken back, so
//!   that the next leader does not roll it out again.
//! - A VolumePlugin that the API server does not let the controller write holds up no other.
//! - Each write names the version of the object that it is for.
//! - Nothing is decided before all three kinds have been listed.
//!
//! | module | its job |
//! |---|---|
//! | `cluster` | what is known of the cluster |
//! | `decide` | what is to be written |
//! | [`plan`] | which nodes get which revision next |
//! | `status` | a VolumePlugin's status |
//! | `unwritten` | what a node is to have while a VolumePlugin cannot be written |
//! | `run` | from the start to the end, and the writes |

mod cluster;
mod decide;
mod plan;
mod run;
mod status;
mod unwritten;

pub(crate) use run::run;
