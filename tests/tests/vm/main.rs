//! The daemon on Debian's kernel 6.1, in a virtual machine: a kernel without `statmount`, NFS and SMB
//! servers, iSCSI and Fibre Channel targets, SELinux, project quotas, the device mapper, and a machine that loses its
//! power.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "tests may panic"
)]

mod cifs;
mod cifs_by_csi;
mod cifs_server;
mod csi_driver;
mod device_mapper;
mod fc;
mod fc_target;
mod iscsi;
mod iscsi_paths;
mod iscsi_target;
mod kit;
mod nfs;
mod nfs_dead_server;
mod nfs_latency;
mod nfs_mutants;
mod nfs_provisioning;
mod nfs_server;
mod older_kernel;
mod power_loss;
mod quotas;
mod selinux;
mod suite;
