//! One suite for every kernel: a case is a function of a [`World`], and asserts only what a user of the machine would notice.

pub mod files;
pub mod folders;
pub mod host_paths;
pub mod mounts;
pub mod removal;
pub mod roots;

use std::any::Any;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use volhost_kernel::{DetachedMount, Directory, Entry, Errno, Kernel, MountSource, Propagation, SourceKind};

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
    /// Whether it exists, links followed.
    fn exists(&self, path: &Path) -> bool;
    /// The names in a folder, sorted.
    fn list(&self, path: &Path) -> Vec<OsString>;
    /// Mode and group.
    fn mode_and_group(&self, path: &Path) -> (u32, u32);
    /// Opens it until the value is dropped.
    fn hold(&self, path: &Path) -> Box<dyn Any>;
    /// How many mounts there are.
    fn mount_count(&self) -> usize;
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
/// The list of cases, for whoever runs them.
#[macro_export]
macro_rules! all_cases {
    ($run:ident) => {
        $crate::for_every_kernel! { $run:
            mounts {
                a_bound_folder_shows_its_source,
                a_read_only_bind_refuses_writes_and_leaves_its_source_writable,
                the_mount_point_comes_and_goes_with_the_mount,
                bad_targets_are_refused_and_left_alone,
                an_empty_target_is_used,
                files_sockets_devices_and_pipes_are_bound_onto_files,
                an_unknown_mount_option_is_refused_by_name,
                a_tmpfs_holds_no_more_than_its_size,
                bad_tmpfs_options_are_named,
                a_mount_in_use_is_busy_and_loses_nothing,
                a_lazy_detach_does_not_wait_for_users,
                stacked_mounts_all_go,
                a_recursive_bind_brings_the_mounts_below_and_takes_them_away,
                a_dropped_mount_leaves_nothing,
                mounts_are_told_as_they_stand,
                data_in_a_mount_point_survives_detach,
                detaching_nothing_is_done,
                a_folder_of_the_root_is_bound_elsewhere_in_it,
            }
            folders {
                symbolic_links_are_never_followed_below_a_handle,
                paths_that_lead_out_are_refused,
                missing_folders_are_made_with_the_exact_mode,
                entries_are_told_apart,
                names_of_any_bytes_work,
                a_plain_folder_gets_mode_and_group_and_keeps_its_content,
                a_folder_is_not_made_over_something_else,
                only_empty_folders_are_removed,
            }
            files {
                a_written_file_is_read_back_with_its_mode,
                a_file_is_not_read_beyond_its_limit_or_through_a_link,
                a_leftover_of_a_crashed_write_is_cleared,
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
                a_path_that_tricks_is_refused,
                missing_folders_of_the_host_are_made_within_the_grant,
                a_missing_file_of_the_host_is_made_within_the_grant,
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
