//! Volumes for claims without Kubernetes: real drivers, real records, real mounts, and daemons that
//! die in between.

mod bad_input;
mod by_request;
mod content;
mod crash;
mod faults;
mod kit;
mod life;
mod manifests_gone;
mod missing_claims;
mod not_read;
