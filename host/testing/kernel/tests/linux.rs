//! The suite against this machine's kernel, and what only a real one can show. Needs root.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    unreachable_pub,
    dead_code,
    reason = "tests may panic, and share a suite of which each runs a part"
)]

mod real;
mod suite;

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use real::{RealWorld, in_namespace, mount_lines};
use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};
use suite::{House, World, name};
use volhost_kernel::{
    BlockDevices, Detach, DeviceError, Directory, Durability, Entry, Errno, Kernel, KernelError, MountInfo, Propagation,
};
use volhost_process::linux_kernel;
use volhost_testing_kernel::InMemoryKernel;

fn run(case: impl FnOnce(&dyn World) + Send + 'static) {
    in_namespace(linux_kernel(), |world| case(world));
}

fn run_with_mountinfo(case: impl FnOnce(&dyn World) + Send + 'static) {
    in_namespace(linux_kernel().with_mountinfo(), |world| case(world));
}

fn real(case: impl FnOnce(&RealWorld) + Send + 'static) {
    in_namespace(linux_kernel(), case);
}

mod statmount {
    use super::run;
    crate::all_cases!(run);
}

mod mountinfo {
    use super::run_with_mountinfo;
    crate::all_cases!(run_with_mountinfo);
}

#[test]
fn the_machines_mount_table_is_left_as_found() {
    let before = mount_lines();
    real(|world| {
        let house = House::new(world);
        house.attach(house.kernel.tmpfs(&[]).unwrap(), "left-behind");
    });
    assert_eq!(mount_lines(), before);
}

#[test]
fn both_ways_to_list_mounts_agree() {
    real(|world| {
        let house = House::new(world);
        let source = house.outside("so urce\n\\x");
        for at in 0..300 {
            let mount = if at % 2 == 0 { house.bind(&source) } else { house.kernel.tmpfs(&[]).unwrap() };
            let options: &[&str] = match at % 5 {
                0 => &["ro", "nosuid", "nodev", "noexec", "noatime", "nodiratime", "nosymfollow"],
                1 => &["strictatime"],
                _ => &[],
            };
            house.kernel.set_options(&mount, options, false).unwrap();
            house.attach(mount, &format!("vol ume\t{at}"));
        }
        let plain = |mounts: Vec<MountInfo>| {
            let key = |mount: MountInfo| {
                (mount.point, mount.fs_type, mount.source, mount.root, mount.options, mount.read_only)
            };
            let mut all: Vec<_> = mounts.into_iter().map(key).collect();
            all.sort();
            all
        };
        let old = linux_kernel().with_mountinfo();
        let listed = plain(house.kernel.mounts_below(&house.root).unwrap());
        assert_eq!(listed.len(), 300);
        assert_eq!(plain(old.mounts_below(&house.root).unwrap()), listed);
        for target in ["vol ume\t0", "vol ume\t1"] {
            let (one, other) = (
                house.kernel.mount_at(&house.root, name(target)).unwrap().unwrap(),
                old.mount_at(&house.root, name(target)).unwrap().unwrap(),
            );
            assert_eq!(plain(vec![one]), plain(vec![other]));
        }
        let whole = house.kernel.open_directory(Path::new("/")).unwrap();
        let (new, old) = (house.kernel.mounts_below(&whole).unwrap(), old.mounts_below(&whole).unwrap());
        assert_eq!(plain(new), plain(old), "of the whole machine");
    });
}

#[test]
fn more_mounts_than_one_page_of_ids_are_listed() {
    real(|world| {
        let house = House::new(world);
        let source = house.open(&house.outside("source"));
        for at in 0..9000 {
            house.attach(house.kernel.bind(&source, false).unwrap(), &format!("{at}"));
        }
        let listed = house.kernel.mounts_below(&house.root).unwrap();
        assert_eq!(listed.len(), 9000);
        assert!(listed.windows(2).all(|pair| pair[0].id < pair[1].id));
    });
}

#[test]
fn a_tree_of_five_thousand_levels_is_removed() {
    real(|world| {
        let house = House::new(world);
        std::fs::create_dir(house.at("deep")).unwrap();
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut here: OwnedFd = openat(CWD, house.at("deep"), flags, Mode::empty()).unwrap();
        for _ in 0..5000 {
            mkdirat(&here, "d", Mode::RWXU).unwrap();
            mkdirat(&here, "side", Mode::RWXU).unwrap();
            here = openat(&here, "d", flags, Mode::empty()).unwrap();
            openat(&here, "file", OFlags::CREATE | OFlags::WRONLY, Mode::RUSR).unwrap();
        }
        drop(here);
        house.kernel.delete_folder(&house.root, name("deep")).unwrap();
        assert_eq!(house.entry("deep"), Entry::Absent);
    });
}

#[test]
fn a_wide_tree_is_removed() {
    real(|world| {
        let house = House::new(world);
        for folder in 0..600 {
            std::fs::create_dir_all(house.at(&format!("wide/{folder}/a"))).unwrap();
            std::fs::write(house.at(&format!("wide/{folder}/a/file")), b"x").unwrap();
        }
        for file in 0..20_000 {
            std::fs::write(house.at(&format!("wide/f{file}")), b"").unwrap();
        }
        house.kernel.delete_folder(&house.root, name("wide")).unwrap();
        assert_eq!(house.entry("wide"), Entry::Absent);
    });
}

#[test]
fn folders_without_permissions_are_removed() {
    real(|world| {
        use std::os::unix::fs::PermissionsExt;
        let house = House::new(world);
        world.add_folder(&house.at("shut/inner/deep"));
        world.write(&house.at("shut/inner/deep/file"), b"x").unwrap();
        for folder in ["shut/inner/deep", "shut/inner", "shut"] {
            std::fs::set_permissions(house.at(folder), std::fs::Permissions::from_mode(0o0)).unwrap();
        }
        house.kernel.delete_folder(&house.root, name("shut")).unwrap();
        assert_eq!(house.entry("shut"), Entry::Absent);
    });
}

#[test]
fn the_machines_root_bound_inside_survives_a_removal() {
    real(|world| {
        let house = House::new(world);
        world.add_folder(&house.at("folder/inner"));
        world.write(&house.at("folder/kept"), b"kept").unwrap();
        let inner = house.kernel.walk(&house.root, Path::new("folder/inner")).unwrap();
        let whole = house.kernel.open_host_path(Path::new("/"), &["/".into()]).unwrap();
        let whole = house.kernel.bind(&whole, true).unwrap();
        // A removal that is broken tries to remove the machine's files: it must fail on the error
        // below, not on this machine.
        house.kernel.set_options(&whole, &["ro"], true).unwrap();
        house.kernel.attach(whole, &inner, name("host")).unwrap();
        let error = house.kernel.delete_folder(&house.root, name("folder")).unwrap_err();
        assert!(matches!(error, KernelError::MountInside { .. }), "{error:?}");
        assert_eq!(world.read(&house.at("folder/kept")).unwrap(), b"kept");
        assert!(house.at("folder/inner/host/etc").exists());
        house.kernel.detach(&inner, name("host"), Detach::Normal).unwrap();
        drop(inner);
        house.kernel.delete_folder(&house.root, name("folder")).unwrap();
        assert!(Path::new("/etc").exists());
    });
}

#[test]
fn a_hard_link_out_of_a_removed_folder_keeps_its_content() {
    real(|world| {
        let house = House::new(world);
        world.add_folder(&house.at("gone"));
        world.write(&house.at("kept"), b"kept").unwrap();
        std::fs::hard_link(house.at("kept"), house.at("gone/link")).unwrap();
        house.kernel.delete_folder(&house.root, name("gone")).unwrap();
        assert_eq!(world.read(&house.at("kept")).unwrap(), b"kept");
    });
}

#[test]
fn a_folder_that_is_written_while_it_is_removed_ends_gone_or_named() {
    real(|world| {
        let house = House::new(world);
        let stop = Arc::new(AtomicBool::new(false));
        let folder = house.at("busy");
        let writer = std::thread::spawn({
            let (stop, folder) = (Arc::clone(&stop), folder.clone());
            move || {
                for at in 0_u64.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    let inner = folder.join(format!("{}", at % 7));
                    let _ = std::fs::create_dir_all(&inner);
                    let _ = std::fs::write(inner.join(format!("{at}")), b"x");
                }
            }
        });
        for _ in 0..200 {
            match house.kernel.delete_folder(&house.root, name("busy")) {
                Ok(()) | Err(KernelError::StillWritten { .. }) => {}
                Err(error) => panic!("{error:?}"),
            }
        }
        stop.store(true, Ordering::Relaxed);
        writer.join().unwrap();
        house.kernel.delete_folder(&house.root, name("busy")).unwrap();
        assert_eq!(house.entry("busy"), Entry::Absent);
    });
}

#[test]
fn a_removal_gives_up_on_writers_that_fill_folder_after_folder() {
    // What the writers make at most: a removal that follows them to their end fails the last line.
    const ENOUGH: u64 = 2_000_000;
    real(|world| {
        let house = House::new(world);
        let (stop, made) = (AtomicBool::new(false), AtomicU64::new(0));
        let top = house.at("busy");
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        let at = made.fetch_add(1, Ordering::Relaxed);
                        if at >= ENOUGH {
                            break;
                        }
                        let _ = std::fs::create_dir_all(top.join(format!("{}/{at}", at % 100)));
                    }
                });
            }
            while made.load(Ordering::Relaxed) < 2_000 {
                std::thread::yield_now();
            }
            let removed = house.kernel.delete_folder(&house.root, name("busy"));
            let at_the_end = made.load(Ordering::Relaxed);
            stop.store(true, Ordering::Relaxed);
            assert!(matches!(removed, Ok(()) | Err(KernelError::StillWritten { .. })), "{removed:?}");
            assert!(at_the_end < ENOUGH, "the removal followed the writers to their end");
        });
        house.kernel.delete_folder(&house.root, name("busy")).unwrap();
        assert_eq!(house.entry("busy"), Entry::Absent);
    });
}

#[test]
fn a_folder_that_is_moved_out_while_it_is_removed_takes_nothing_along() {
    real(|world| {
        let house = House::new(world);
        world.add_folder(&house.at("kept"));
        for file in 0..50 {
            world.write(&house.at(&format!("kept/data{file}")), b"kept").unwrap();
        }
        let stop = Arc::new(AtomicBool::new(false));
        let (inside, outside) = (house.at("gone/moving"), house.at("kept/moving"));
        let mover = std::thread::spawn({
            let stop = Arc::clone(&stop);
            move || {
                while !stop.load(Ordering::Relaxed) {
                    let _ = std::fs::rename(&inside, &outside);
                    let _ = std::fs::rename(&outside, &inside);
                }
            }
        });
        for _ in 0..300 {
            for at in 0..5 {
                // The mover may have it in another place: then this round has less to remove.
                let folder = house.at(&format!("gone/moving/{at}"));
                let _ = std::fs::create_dir_all(&folder);
                let _ = std::fs::write(folder.join("file"), b"x");
            }
            // Gone, or stopped because of the move; what must not happen is below.
            let _ = house.kernel.delete_folder(&house.root, name("gone"));
            let left = world.list(&house.at("kept")).into_iter().filter(|name| name != "moving");
            assert_eq!(left.count(), 50, "a folder outside was emptied");
        }
        stop.store(true, Ordering::Relaxed);
        mover.join().unwrap();
        house.kernel.delete_folder(&house.root, name("gone")).unwrap();
    });
}

#[test]
fn what_is_mounted_in_a_volume_does_not_appear_at_its_source() {
    real(|world| {
        let house = House::new(world);
        let source = house.outside("source");
        world.add_folder(&source.join("inner"));
        // As systemd has it: the source lies on a shared mount.
        let base = world.base();
        rustix::mount::mount_change(&base, rustix::mount::MountPropagationFlags::SHARED).unwrap();
        for recursive in [false, true] {
            let mount = house.kernel.bind(&house.open(&source), recursive).unwrap();
            house.attach(mount, "volume");
            let inner = house.kernel.walk(&house.root, Path::new("volume")).unwrap();
            house.kernel.attach(house.kernel.tmpfs(&[]).unwrap(), &inner, name("inner")).unwrap();
            drop(inner);
            assert!(house.at("volume/inner").exists());
            let below = house.kernel.open_directory(&source).unwrap();
            assert_eq!(house.kernel.mounts_below(&below).unwrap(), [], "recursive: {recursive}");
            let volume = house.kernel.walk(&house.root, Path::new("volume")).unwrap();
            house.kernel.detach(&volume, name("inner"), Detach::Normal).unwrap();
            drop(volume);
            house.kernel.detach(&house.root, name("volume"), Detach::Normal).unwrap();
            world.add_folder(&source.join("inner"));
        }
    });
}

#[test]
fn a_shared_root_shows_its_mounts_to_followers_and_not_beneath_itself() {
    real(|world| {
        let base = world.base();
        rustix::mount::mount_change(&base, rustix::mount::MountPropagationFlags::SHARED).unwrap();
        let before = mount_lines();
        let path = base.join("root");
        let root = world.kernel().prepare_root(&path, Propagation::Shared).unwrap();
        // A follower of the root, as a container's namespace has one.
        world.add_folder(&base.join("follower"));
        let follower = world.kernel().open_host_path(&path, std::slice::from_ref(&base)).unwrap();
        let follower = world.kernel().bind(&follower, true).unwrap();
        let at = world.kernel().open_directory(&base).unwrap();
        world.kernel().attach(follower, &at, name("follower")).unwrap();
        world.kernel().attach(world.kernel().tmpfs(&[]).unwrap(), &root, name("volume")).unwrap();
        world.write(&path.join("volume/file"), b"x").unwrap();
        assert!(base.join("follower/volume/file").exists());
        assert_eq!(mount_lines(), before + 4, "root, follower, and the volume in each");
        world.kernel().detach(&root, name("volume"), Detach::Normal).unwrap();
        assert_eq!(mount_lines(), before + 2);
    });
}

#[test]
fn a_magic_link_opens_nothing() {
    real(|world| {
        let kernel = world.kernel();
        let granted = [Path::new("/").to_owned()];
        for path in ["/proc/self/root/etc", "/proc/self/cwd"] {
            let error = kernel.open_host_path(Path::new(path), &granted).unwrap_err();
            assert!(matches!(error, KernelError::SymbolicLink { .. }), "{error:?}");
        }
    });
}

#[test]
fn an_umask_changes_no_mode() {
    real(|world| {
        // The thread has an umask of its own: it left the process's file-system context.
        nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(0o077));
        let house = House::new(world);
        house.kernel.make_dirs(&house.root, Path::new("a/b"), 0o777).unwrap();
        house.kernel.make_folder(&house.root, name("c"), 0o2777, None).unwrap();
        house.kernel.write_atomic(&house.root, name("f"), b"", 0o666, Durability::Process).unwrap();
        house.kernel.create_host_directory(&house.at("h/i"), std::slice::from_ref(&house.path)).unwrap();
        let modes = ["a", "a/b", "c", "f", "h", "h/i"].map(|path| world.mode_and_group(&house.at(path)).0);
        assert_eq!(modes, [0o777, 0o777, 0o2777, 0o666, 0o755, 0o755]);
    });
}

#[test]
fn handles_do_not_leak() {
    real(|world| {
        let house = House::new(world);
        let source = house.outside("source");
        let once = || {
            house.attach(house.bind(&source), "volume");
            let _ = house.kernel.attach(house.bind(&source), &house.root, name("volume")).unwrap_err();
            house.kernel.mounts_below(&house.root).unwrap();
            house.kernel.detach(&house.root, name("volume"), Detach::Normal).unwrap();
            world.add_folder(&house.at("a/b/c/d"));
            house.kernel.delete_folder(&house.root, name("a")).unwrap();
        };
        let ours = || {
            let links = std::fs::read_dir("/proc/thread-self/fd").unwrap().flatten();
            let base = world.base();
            links.filter_map(|fd| std::fs::read_link(fd.path()).ok()).filter(|to| to.starts_with(&base)).count()
        };
        once();
        let before = ours();
        once();
        assert_eq!(ours(), before);
    });
}

#[test]
fn a_handle_of_the_in_memory_kernel_is_refused() {
    real(|world| {
        let memory = InMemoryKernel::new();
        let root = memory.open_directory(Path::new("/")).unwrap();
        let house = House::new(world);
        let kernel = house.kernel;
        // Sockets: Linux has no folder, no mount and no file by any of them.
        assert!(matches!(kernel.names(&root), Err(KernelError::WrongType { .. })));
        let error = kernel.make_folder(&root, name("x"), 0o755, None).unwrap_err();
        assert_eq!(error.errno(), Some(Errno::NOTDIR));
        assert_eq!(kernel.bind(&memory.source(&root).unwrap(), true).unwrap_err().errno(), Some(Errno::INVAL));
        let mount = memory.tmpfs(&[]).unwrap();
        assert!(kernel.set_options(&mount, &["ro"], false).is_err());
        assert!(kernel.attach(mount, &house.root, name("x")).is_err());
        assert_eq!(house.entry("x"), Entry::Absent);
        memory.write("/file", b"12345678").unwrap();
        let file = memory.open_host_path(Path::new("/file"), &["/".into()]).unwrap();
        assert!(kernel.attach_loop(&file, false).is_err());
        assert!(kernel.set_file_size(&file, 1 << 20).is_err());
        memory.add_disk("/dev/disk", 1 << 20).unwrap();
        let disk = memory.open_block_device(Path::new("/dev/disk")).unwrap();
        assert!(matches!(kernel.device_size(&disk), Err(KernelError::Device(DeviceError::Gone { .. }))));
        assert!(kernel.map_device(&disk, &house.root, name("y")).is_err());
        assert_eq!(house.entry("y"), Entry::Absent);
    });
}

#[test]
fn what_shows_below_a_mount_that_another_process_unmounted_is_closed_to_users() {
    real(|world| {
        let house = House::new(world);
        house.attach(house.kernel.tmpfs(&[]).unwrap(), "volume");
        let file = house.outside("file");
        house.attach(house.bind(&file.join("data")), "bound");
        for point in ["volume", "bound"] {
            rustix::mount::unmount(house.at(point), rustix::mount::UnmountFlags::empty()).unwrap();
            assert_eq!(world.mode_and_group(&house.at(point)).0, 0, "{point}");
            house.kernel.detach(&house.root, name(point), Detach::Normal).unwrap();
            assert_eq!(house.entry(point), Entry::Absent);
        }
    });
}

#[test]
fn only_a_file_system_of_a_server_has_one_to_end() {
    real(|world| {
        let house = House::new(world);
        house.attach(house.kernel.tmpfs(&[]).unwrap(), "volume");
        for at in ["volume", "absent"] {
            assert!(!house.kernel.end_server(&house.root, name(at)).unwrap(), "{at}");
        }
    });
}

#[test]
fn a_large_folder_of_a_mount_that_is_not_attached_is_removed_whatever_is_mounted_at_its_name() {
    for kernel in [linux_kernel(), linux_kernel().with_mountinfo()] {
        in_namespace(kernel, |world| {
            let kernel = world.kernel();
            let mount = kernel.tmpfs(&[]).unwrap();
            let fd = openat(&mount, ".", OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
            let root = Directory::from_fd(fd, "share".into());
            // This namespace has mounts below /proc, or /proc itself.
            let folder = kernel.make_dirs(&root, Path::new("proc/inner"), 0o755).unwrap();
            // More than are looked at one by one.
            for number in 0..600 {
                kernel.make_dirs(&folder, Path::new(&number.to_string()), 0o755).unwrap();
            }
            assert_eq!(kernel.mounts_below(&root).unwrap(), Vec::new());
            kernel.delete_folder(&root, name("proc")).unwrap();
            assert_eq!(kernel.names(&root).unwrap(), Vec::<std::ffi::OsString>::new());
        });
    }
}
