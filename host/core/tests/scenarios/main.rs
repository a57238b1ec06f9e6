//! The cases of the kubelet's own tests of its volume manager, and those where volhost means to be
//! better, one scenario each.
//!
//! | the kubelet's tests of | here |
//! |---|---|
//! | volume manager, populator: pods come, change, go; unbound claims; groups | `pods` |
//! | waits for mounts and unmounts, one pod and many, and their answers | `waits` |
//! | attachment by the host and by a controller, reports that flip, full nodes | `attach` |
//! | block volumes: map, unmap, both ways to attach, plugins that are missing | `block` |
//! | uncertain devices and mounts: time-out, failure, both, after success | `uncertain`, `block` |
//! | reconstruction: found, mounted again, failed, unwanted | `recovery`, `block` |
//! | expansion in use, file system and device | `operations`, `block`, `matrix` |
//! | the executor's matrix: what runs beside what | `matrix` |
//! | pending operations: keys, back-off, other names, pending first | `operations`, `matrix` |
//! | SELinux: several pods, one volume | `labels` |
//! | cases that none of them covers: mounts that another process unmounts, volumes made of volumes | `vanished`, `needs` |
//! | nor these: another plugin for a mounted volume, edits of what is mounted | `owners`, `edits` |
//!
//! The same with real plugins, mounts and devices, each row of the uncertain states at every
//! function of the contract:
//!
//! | the kubelet's test | scenario here | end to end, in `tests/tests` |
//! |---|---|---|
//! | no operation without a wanted pod | `pods::nothing_desired_starts_nothing` | `storage/orphans.rs` |
//! | attach, mount, unmount, detach | `attach::attach_mount_unmount_detach_in_this_order` | `devices.rs` |
//! | device: time-out is uncertain | `uncertain::a_device_that_timed_out_is_mounted_again_and_unmounted_when_unwanted` | `storage/orders.rs`: `stage`, order `doubt` |
//! | device: failure is not mounted | `uncertain::a_device_that_failed_is_not_there` | the same, order `fail` |
//! | device: time-out, then failure | `uncertain::a_device_that_failed_after_a_timeout_is_not_there` | the same, order `doubt-after` |
//! | device: success, then time-out or failure | `uncertain::a_mounted_device_stays_mounted_when_a_later_mount_fails` | `storage/orders.rs`: `publish` |
//! | mount: the same five, file system | `uncertain::a_mount_that_timed_out_is_uncertain_and_undone_when_unwanted`, `..._that_failed_is_not_there`, `a_timeout_and_then_a_failure_leave_nothing`, `pods::a_failed_refresh_keeps_the_mounted_content` | `storage/orders.rs`: `publish` |
//! | map: the same five, block | `block::a_map_that_timed_out_is_uncertain_and_undone_when_unwanted` and those after it | `storage/orders.rs`: `stage_device`, `map_device` |
//! | mount succeeds, expand fails | `uncertain::a_mount_that_succeeds_but_cannot_be_expanded_is_uncertain` | `storage/orders.rs`: `expand_while_it_is_used` |
//! | map, unmap, unmap device without the plugin | `block::without_its_plugin_nothing_is_mapped_unmapped_or_taken_from_the_node_and_nothing_changes` | `plugins.rs` |
//! | expansion: file system, device, in use, unsupported | `operations::a_larger_capacity_expands_the_volume_and_does_not_remount_it`, `block::a_larger_capacity_expands_a_device_that_is_mapped`, `operations::a_volume_that_cannot_be_expanded_here_or_is_read_only_is_left_alone` | `devices.rs` |
//! | attachment flips while it is verified | `attach::an_attachment_that_comes_and_goes_before_it_is_verified_delays_the_mount` | |
//! | recovered volume is unmounted after a failed mount | `recovery::a_recovered_mount_that_could_not_be_mounted_again_is_unmounted_when_unwanted` | `restart.rs` |
//! | orphans only when no pod wants them | `recovery::nothing_recovered_is_unmounted_before_every_source_has_reported` | `storage/orphans.rs` |
//!
//! Resolving claims, mode mismatches, the SELinux label of one pod and the recovery of an expansion
//! are decided outside the machine, and tested there.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    unreachable_pub,
    reason = "tests may panic"
)]

mod attach;
mod block;
mod counts;
mod edits;
mod kit;
mod labels;
mod matrix;
mod needs;
mod operations;
mod owners;
mod parts;
mod pods;
mod recovery;
mod uncertain;
mod vanished;
mod waits;
