//! Volumes of every kind on a real kernel, from the manifest to the mount and back.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "tests may panic"
)]

mod attaching;
mod devices;
mod empty_dir;
mod fuse_servers;
mod host_paths;
mod images;
mod iscsi_portals;
mod kept_volumes;
mod layers;
mod layers_of_volumes;
mod local_volumes;
mod mount_options;
mod nfs_servers;
mod payload;
mod provisioning;
mod s3;
mod selinux;
mod sshfs;
mod storage;
mod sub_paths;
mod tokens;
