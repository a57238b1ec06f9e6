//! One suite for every kernel: a case is a function of a [`World`], and asserts only what a user of
//! the machine would notice.

pub mod devices;
pub mod drivers;
pub mod files;
pub mod filesystems;
pub mod folders;
pub mod fuse;
pub mod host_paths;
pub mod huge_pages;
pub mod image_stores;
pub mod images;
pub mod loops;
pub mod mounts;
pub mod network_mounts;
pub mod overlays;
pub mod ownership;
pub mod payload_paths;
pub mod payloads;
pub mod quotas;
pub mod removal;
pub mod roots;
pub mod sub_paths;
pub mod usage;

use std::any::Any;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use volhost_kernel::{
    BlockDevice, DetachedMount, Directory, Entry, Errno, Kernel, MountSource, Propagation, SourceKind,
};

pub const MIB: u64 = 1 << 20;

/// A machine with a kernel to test, and what a process on it can do and see.
pub trait World {
    /// The kernel.
    fn kernel(&self) -> &dyn Kernel;
    /// An empty folder to work in.
    fn base(&self) -> PathBuf;
    /// `mkdir -p`.
    fn add_folder(&self, path: &Path);
    /// Writes a file.
    fn write(&self, path: &Path, bytes: &[u8]) -> Result<(), Errno>;
    /// Reads a file.
    fn read(&self, path: &Path) -> Result<Vec<u8>, Errno>;
    /// Makes a symbolic link.
    fn add_symlink(&self, path: &Path, target: &Path);
    /// Makes a socket, device or pipe.
    fn add_node(&self, path: &Path, kind: SourceKind);
    /// Returns whether it exists, links followed.
    fn exists(&self, path: &Path) -> bool;
    /// The names in a folder, sorted.
    fn list(&self, path: &Path) -> Vec<OsString>;
    /// Mode and group.
    fn mode_and_group(&self, path: &Path) -> (u32, u32);
    /// The owner of what is there, a link itself.
    fn owner(&self, path: &Path) -> u32;
    /// The target of a symbolic link; none if there is no link.
    fn link_target(&self, path: &Path) -> Option<PathBuf>;
    /// `chown` and `chmod`.
    fn give(&self, path: &Path, owner: u32, group: u32, mode: u32);
    /// Removes a file, link or empty folder.
    fn remove(&self, path: &Path);
    /// Opens it until the value is dropped.
    fn hold(&self, path: &Path) -> Box<dyn Any>;
    /// Returns how many mounts there are.
    fn mount_count(&self) -> usize;
    /// Has the machine's block devices for this case alone, until it ends.
    fn claim_devices(&self);
    /// Lets folders below [`World::base`] have quotas. Called before anything is made there.
    fn enable_folder_quotas(&self);
    /// Returns whether the kernel lets this process grow a mounted ext file system
    /// (`CAP_SYS_RESOURCE`, which sandboxes take from root).
    fn grows_mounted_ext(&self) -> bool;
}

/// A prepared root folder in a world, with shorthands.
pub struct House<'a> {
    pub world: &'a dyn World,
    pub kernel: &'a dyn Kernel,
    pub root: Directory,
    pub path: PathBuf,
}

impl<'a> House<'a> {
    pub fn new(world: &'a dyn World) -> Self {
        let path = world.base().join("root");
        let kernel = world.kernel();
        let root = kernel.prepare_root(&path, Propagation::Private).unwrap();
        Self { world, kernel, root, path }
    }

    pub fn at(&self, rel: &str) -> PathBuf {
        self.path.join(rel)
    }

    /// A folder outside of the root, with one file `data`.
    pub fn outside(&self, name: &str) -> PathBuf {
        let path = self.world.base().join(name);
        self.world.add_folder(&path);
        self.world.write(&path.join("data"), b"precious").unwrap();
        path
    }

    pub fn open(&self, path: &Path) -> MountSource {
        self.kernel.open_host_path(path, &[self.world.base()]).unwrap()
    }

    /// A new file of this many bytes, all holes.
    pub fn image(&self, name: &str, bytes: u64) -> MountSource {
        self.world.claim_devices();
        let base = self.world.base();
        self.kernel.create_image(&base.join(name), &[base], bytes).unwrap()
    }

    /// A new, blank loop device. The world removes what a case leaves.
    pub fn disk(&self, name: &str, bytes: u64) -> (MountSource, BlockDevice) {
        let image = self.image(name, bytes);
        let device = self.kernel.attach_loop(&image, false).unwrap();
        (image, device)
    }

    pub fn bind(&self, path: &Path) -> DetachedMount {
        self.kernel.bind(&self.open(path), false).unwrap()
    }

    pub fn attach(&self, mount: DetachedMount, name: &str) {
        self.kernel.attach(mount, &self.root, name.as_ref()).unwrap();
    }

    pub fn entry(&self, name: &str) -> Entry {
        self.kernel.entry(&self.root, name.as_ref()).unwrap()
    }

    pub fn is_mount(&self, name: &str) -> bool {
        matches!(self.entry(name), Entry::Mount(_))
    }
}

pub fn name(text: &str) -> &OsStr {
    OsStr::new(text)
}

/// Every case, once for each kernel.
#[macro_export]
macro_rules! for_every_kernel {
    ($run:ident: $($room:ident { $($case:ident,)* })*) => {
        $($(
            #[test]
            fn $case() {
                $run(|world| $crate::suite::$room::$case(world));
            }
        )*)*
    };
}
/// The list of cases.
#[macro_export]
macro_rules! all_cases {
    ($run:ident) => {
        $crate::for_every_kernel! { $run:
            mounts {
                a_bound_folder_shows_its_source,
                a_read_only_bind_refuses_writes_and_leaves_its_source_writable,
                an_existing_mount_is_made_read_only_and_nothing_else_is,
                the_mount_point_comes_and_goes_with_the_mount,
                bad_targets_are_refused_and_left_alone,
                an_empty_target_is_used,
                files_sockets_devices_and_pipes_are_bound_onto_files,
                an_unknown_mount_option_is_refused_by_name,
                a_tmpfs_takes_no_more_than_its_size,
                bad_tmpfs_options_are_named,
                a_mount_in_use_is_busy_and_loses_nothing,
                a_lazy_detach_does_not_wait_for_users,
                stacked_mounts_all_go,
                a_file_system_that_a_user_mounted_inside_keeps_the_volume_mounted,
                a_recursive_bind_brings_the_mounts_below_and_takes_them_away,
                a_dropped_mount_leaves_nothing,
                mounts_are_listed_as_they_are,
                data_in_a_mount_point_survives_detach,
                detaching_nothing_is_done,
                a_folder_of_the_root_is_bound_elsewhere_in_it,
            }
            folders {
                symbolic_links_are_never_followed_below_a_handle,
                paths_that_lead_out_are_refused,
                missing_folders_are_made_with_the_exact_mode,
                entries_are_distinguished,
                names_of_any_bytes_work,
                a_plain_folder_gets_mode_and_group_and_keeps_its_content,
                a_folder_is_not_made_over_something_else,
                only_empty_folders_are_removed,
                a_folder_is_renamed_over_an_empty_one_alone,
            }
            files {
                a_written_file_is_read_back_with_its_mode,
                a_file_is_not_read_beyond_its_limit_or_through_a_link,
                a_leftover_of_a_crashed_write_is_cleared,
                what_is_appended_follows_what_was_there,
                a_file_that_is_appended_to_is_a_file,
                what_does_not_fit_is_not_appended_in_part,
                removing_a_file_leaves_folders_alone,
                a_full_disk_is_named_and_leaves_nothing_behind,
                a_disk_without_inodes_leaves_nothing_behind,
            }
            removal {
                a_folder_goes_with_all_that_is_in_it,
                links_are_removed_and_not_followed,
                a_mount_below_keeps_everything,
                a_mount_is_not_removed,
                what_is_no_folder_is_not_removed,
            }
            host_paths {
                a_granted_path_is_opened_by_what_it_leads_to,
                a_link_out_of_the_grant_is_refused,
                what_is_not_granted_has_one_answer_whether_or_not_it_exists,
                a_path_that_tricks_is_refused,
                missing_folders_of_the_host_are_made_within_the_grant,
                a_missing_file_of_the_host_is_made_within_the_grant,
            }
            payload_paths {
                a_payload_with_a_bad_path_is_refused_and_changes_nothing,
                payload_paths_that_are_allowed_are_published,
            }
            payloads {
                a_payload_is_published_with_content_modes_and_owners,
                a_payload_is_updated_to_exactly_the_new_set,
                many_updates_in_a_row_leave_one_set,
                the_same_payload_again_writes_nothing,
                a_mode_or_owner_alone_is_published,
                missing_links_are_put_back,
                what_a_crash_left_over_does_not_block,
                what_a_pod_planted_is_not_followed,
                a_pods_own_files_stay,
                what_a_pod_changed_in_the_set_is_put_right,
                a_folder_in_the_protocols_place_is_named,
                a_mount_shows_a_payload,
                a_full_volume_keeps_the_old_set,
            }
            ownership {
                a_volume_is_given_to_a_group_as_the_kubelet_does_it,
                a_root_that_matches_is_not_walked_unless_it_must_be,
                links_and_mounts_are_not_followed_by_a_walk,
                a_mounted_volume_is_given_and_its_mount_point_is_not,
                what_a_walk_could_not_change_is_reported,
                a_group_that_can_not_exist_is_refused,
                a_walk_reports_its_progress,
                a_walk_that_is_cancelled_ends_early_and_is_not_taken_for_finished,
                an_id_map_is_shown_by_the_mount_and_set_once,
                a_bad_id_map_is_refused,
            }
            overlays {
                an_overlay_shows_its_folders_as_one,
                what_is_written_to_an_overlay_leaves_the_lower_alone,
                an_overlay_without_a_top_refuses_writes,
                layers_are_found_by_their_source,
                a_detached_tmpfs_is_a_top,
                layers_that_make_no_overlay_are_reported,
            }
            network_mounts {
                an_address_is_its_own_and_a_name_that_none_has_is_reported,
                a_server_that_takes_no_connection_is_named_and_leaves_no_mount,
                shares_and_options_that_trick_are_refused_before_a_server_is_asked,
                the_secrets_of_a_mount_are_in_no_message,
            }
            sub_paths {
                what_lies_in_the_volume_is_opened_and_bound,
                what_leads_out_of_the_volume_is_refused,
                missing_sub_paths_are_made_with_the_volumes_mode,
                a_read_only_volume_makes_no_sub_path,
                a_sub_path_that_is_shown_as_wanted_stays,
                another_thing_under_the_same_name_is_shown_anew,
                a_sub_path_is_read_only_when_wanted_so,
                hundreds_of_sub_paths_go_at_once,
                mounts_on_sub_paths_go_too,
                empty_leftovers_of_sub_paths_are_removed,
                data_among_sub_paths_stays_and_is_named,
                a_busy_sub_path_is_reported_and_the_others_go,
                a_mounted_or_linked_tree_is_detached_or_refused,
            }
            huge_pages {
                huge_pages_are_mounted_whether_or_not_there_are_any,
                a_size_of_page_that_the_machine_lacks_is_named,
            }
            quotas {
                where_there_are_no_quotas_nothing_is_made,
            }
            drivers {
                a_folder_has_a_path_until_it_is_removed,
                mounts_that_appear_are_distinguished,
                what_a_driver_left_is_cleared_unless_it_is_data,
            }
            fuse {
                a_connection_is_known_until_the_last_mount_of_it_has_gone,
            }
            usage {
                a_file_system_reports_how_full_it_is,
                files_are_added_up_on_one_file_system,
                a_file_system_in_memory_is_grown_and_keeps_its_files,
            }
            roots {
                preparing_a_root_twice_changes_nothing,
                a_root_is_released_only_when_nothing_is_mounted_below,
                a_root_that_is_no_folder_is_refused,
                a_lock_admits_one,
                errors_say_what_where_and_why,
            }
        }
    };
}

/// The list of cases that work with block devices. They start programs, which hold copies of every
/// open file of their process for a moment and so keep mounts busy: a process of their own runs
/// them.
#[macro_export]
macro_rules! device_cases {
    ($run:ident) => {
        $crate::for_every_kernel! { $run:
            loops {
                a_file_has_one_loop_device_however_often_it_is_asked_for,
                a_used_loop_device_is_busy_and_stays,
                an_image_is_private_and_only_grows,
                a_read_only_loop_device_is_never_written,
                only_files_become_loop_devices,
                a_device_that_is_found_has_its_files_size,
                the_device_of_a_file_that_was_removed_is_found_and_taken_away,
            }
            image_stores {
                a_folder_lists_its_images_and_nothing_else,
                a_copy_is_the_image_and_never_takes_anothers_place,
                an_image_in_use_is_neither_removed_nor_copied_in_parts,
                images_that_nobody_uses_are_copied_together_or_not_at_all,
                only_granted_paths_are_touched,
            }
            images {
                an_image_is_mounted_read_only_and_leaves_nothing,
                what_is_no_such_image_is_reported,
                an_image_that_is_written_is_not_mounted_beside,
            }
            devices {
                a_mapped_device_is_the_device,
                a_mapping_is_never_taken_for_another_device,
                a_link_leads_to_the_device_and_is_replaced_whole,
                a_pinned_device_can_not_go,
                a_device_that_a_driver_shows_is_opened,
                a_volume_is_a_device_or_a_file_system_and_not_both,
                what_is_no_block_device_is_refused,
            }
            quotas {
                a_limited_folder_takes_no_more_than_its_limit,
                a_folder_without_a_quota_gets_none_and_stays,
            }
            filesystems {
                a_blank_device_is_formatted_and_never_again,
                a_label_is_an_option_that_only_a_kernel_with_selinux_takes,
                a_mounted_file_system_grows_with_its_device,
                an_ext_file_system_grows_before_it_is_mounted,
                only_the_devices_own_file_system_grows,
                a_device_in_use_is_neither_formatted_nor_checked,
                another_type_than_asked_for_is_reported,
                options_that_reach_beyond_the_device_are_refused,
                a_format_has_the_options_that_were_asked_for,
                what_no_tool_recognises_is_never_formatted_over,
                a_device_without_storage_is_not_blank,
                a_file_system_is_mounted_read_only_on_demand,
            }
        }
    };
}
