//! Volumes whose storage or folders are not as the host left them, how full they are, and what is
//! reported when that is unknown.

mod data;
mod hung;
mod node_mounts;
mod orders;
mod orphans;
mod squatter;
mod stats;
