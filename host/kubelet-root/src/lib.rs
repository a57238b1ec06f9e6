//! A root folder that a kubelet filled, and that volhost takes over.
//!
//! ```text
//!  volhost adopt:  look (nothing is changed) -> the operator agrees -> clean the kubelet's marks -> write ROOT/adopted.json
//!  volhost run:    refuse a kubelet's folder without ROOT/adopted.json
//! ```
//!
//! volhost lays volumes out as the kubelet does, and `vol_data.json` names a CSI driver's volume.
//! So adopting writes no record of any volume: the recovery of the next start finds what is
//! mounted, publishes again what a pod wants, where it is, and unmounts the rest once every source
//! of pods has been read. Whether a pod still exists is not known here, and nothing is unmounted.
//!
//! | module | its job |
//! |---|---|
//! | [`look`], `devices` | find what is in the folder |
//! | [`found`] | one thing that was found, and what becomes of it |
//! | [`adopt`] | removes the kubelet's marks, and records that the folder is volhost's |
//! | [`claim`] | whose folder it is |
#![forbid(unsafe_code)]

pub mod adopt;
pub mod claim;
mod devices;
pub mod found;
pub mod look;

#[cfg(test)]
mod tests;
