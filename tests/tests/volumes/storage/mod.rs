//! What becomes of volumes when their storage, or what their folders hold, is not as the host left it: how full they are, and what is
//! told when nobody knows.

mod data;
mod hung;
mod node_mounts;
mod orders;
mod orphans;
mod squatter;
mod stats;
