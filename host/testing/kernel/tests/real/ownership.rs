//! Large, deep and moving trees on the real kernel, and ids that are mapped for real.

use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat, statat};
use volhost_kernel::{FsOption, IdMap, IdRange, OwnershipPolicy, OwnershipReport, OwnershipRequest, Propagation};
use volhost_process::linux_kernel;

use super::{in_namespace, run_program};
use crate::suite::{House, World, name};

const GROUP: u32 = 77;

fn apply(house: &House<'_>, threads: usize) -> OwnershipReport {
    let request = OwnershipRequest { group: GROUP, policy: OwnershipPolicy::Always, read_only: false, threads };
    house.kernel.apply_ownership(&house.root, name("volume"), &request, &|_| ControlFlow::Continue(())).unwrap()
}

fn real(case: impl FnOnce(&dyn World) + Send + 'static) {
    in_namespace(linux_kernel(), |world| case(world));
}

#[test]
fn every_file_of_a_large_tree_is_given_whatever_the_threads() {
    real(|world| {
        let house = House::new(world);
        for folder in 0..300 {
            std::fs::create_dir_all(house.at(&format!("volume/{}/{folder}", folder % 17))).unwrap();
            for file in 0..folder % 40 {
                std::fs::write(house.at(&format!("volume/{}/{folder}/{file}", folder % 17)), b"").unwrap();
            }
        }
        // More than one reading of a folder, and enough to be split between threads.
        std::fs::create_dir(house.at("volume/flat")).unwrap();
        for file in 0..6000 {
            std::fs::write(house.at(&format!("volume/flat/file-with-a-long-name-{file}")), b"").unwrap();
        }
        let files: u64 = (0..300).map(|folder| folder % 40).sum::<u64>() + 6000;
        let all = 1 + 17 + 300 + 1 + files;
        for threads in [1, 2, 3, 16, 0, 1000] {
            let given = OwnershipReport { visited: all, changed: all, skipped: false };
            assert_eq!(apply(&house, threads), given, "{threads}");
            assert_eq!(apply(&house, threads), OwnershipReport { changed: 0, ..given }, "{threads}");
            let (chown, ..) = run_program("chown", &["-R", ":1", house.at("volume").to_str().unwrap()]);
            assert!(chown);
        }
    });
}

#[test]
fn a_tree_of_many_levels_is_given_with_few_descriptors() {
    real(|world| {
        let house = House::new(world);
        std::fs::create_dir(house.at("volume")).unwrap();
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut here: OwnedFd = openat(CWD, house.at("volume"), flags, Mode::empty()).unwrap();
        // At each level one folder waits while the other is entered.
        for _ in 0..2500 {
            mkdirat(&here, "d", Mode::RWXU).unwrap();
            mkdirat(&here, "waiting", Mode::RWXU).unwrap();
            here = openat(&here, "d", flags, Mode::empty()).unwrap();
        }
        // Asked in the middle of the walk: folders of the volume that are open.
        let most = std::sync::atomic::AtomicUsize::new(0);
        let volume = house.at("volume");
        let count = |_| {
            let open = std::fs::read_dir("/proc/thread-self/fd").unwrap().flatten();
            let held = open.filter_map(|fd| std::fs::read_link(fd.path()).ok()).filter(|to| to.starts_with(&volume));
            most.fetch_max(held.count(), Ordering::Relaxed);
            ControlFlow::Continue(())
        };
        let request = OwnershipRequest { group: GROUP, policy: OwnershipPolicy::Always, read_only: false, threads: 2 };
        let report = house.kernel.apply_ownership(&house.root, name("volume"), &request, &count).unwrap();
        assert_eq!(report.changed, 5001);
        let most = most.into_inner();
        assert!((1..300).contains(&most), "{most} descriptors");
        assert_eq!(statat(&here, "", rustix::fs::AtFlags::EMPTY_PATH).unwrap().st_gid, GROUP);
        assert_eq!(apply(&house, 1).changed, 0);
        drop(here);
        house.kernel.delete_folder(&house.root, name("volume")).unwrap();
    });
}

#[test]
fn folders_that_are_read_in_parts_on_many_levels_are_visited_whole() {
    real(|world| {
        // More levels that are read in parts than descriptors are kept; names so long that a level
        // takes several readings.
        const LEVELS: u64 = 300;
        const WIDE: u64 = 200;
        let house = House::new(world);
        let mut here = house.at("volume");
        std::fs::create_dir(&here).unwrap();
        for _ in 1..LEVELS {
            for folder in 1..WIDE {
                std::fs::create_dir(here.join(format!("{folder:0>200}"))).unwrap();
                if folder == WIDE / 2 {
                    std::fs::create_dir(here.join("d")).unwrap();
                }
            }
            here = here.join("d");
        }
        assert_eq!(apply(&house, 2).changed, 1 + (LEVELS - 1) * WIDE);
        assert_eq!(apply(&house, 1).changed, 0);
        house.kernel.delete_folder(&house.root, name("volume")).unwrap();
    });
}

#[test]
fn files_that_come_and_go_during_a_walk_are_no_error() {
    real(|world| {
        let house = House::new(world);
        let volume = house.at("volume");
        std::fs::create_dir(&volume).unwrap();
        std::fs::write(volume.join("stays"), b"").unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let writer = std::thread::spawn({
            let (stop, volume) = (Arc::clone(&stop), volume.clone());
            move || {
                for at in 0_u64.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    let folder = volume.join(format!("{}", at % 50));
                    let _ = std::fs::create_dir_all(folder.join("a/b"));
                    let _ = std::fs::write(folder.join("a/file"), b"");
                    let _ = std::os::unix::fs::symlink("/etc", folder.join("a/link"));
                    let _ = std::fs::remove_dir_all(volume.join(format!("{}", (at + 25) % 50)));
                }
            }
        });
        for _ in 0..200 {
            apply(&house, 2);
            std::fs::set_permissions(&volume, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
        }
        stop.store(true, Ordering::Relaxed);
        writer.join().unwrap();
        assert_eq!(world.mode_and_group(&volume.join("stays")).1, GROUP);
        assert_ne!(std::fs::metadata("/etc").unwrap().gid(), GROUP);
    });
}

#[test]
fn a_name_that_changes_between_file_and_link_leads_nowhere() {
    real(|world| {
        let house = House::new(world);
        let outside = house.outside("outside");
        std::fs::create_dir(house.at("volume")).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let swapper = std::thread::spawn({
            let (stop, volume, target) = (Arc::clone(&stop), house.at("volume"), outside.clone());
            move || {
                let (name, spare) = (volume.join("name"), volume.join("spare"));
                while !stop.load(Ordering::Relaxed) {
                    std::fs::write(&spare, b"").unwrap();
                    std::fs::rename(&spare, &name).unwrap();
                    std::os::unix::fs::symlink(target.join("data"), &spare).unwrap();
                    std::fs::rename(&spare, &name).unwrap();
                    std::fs::remove_file(&name).unwrap();
                    std::fs::create_dir(&name).unwrap();
                    std::fs::remove_dir(&name).unwrap();
                    std::os::unix::fs::symlink(&target, &name).unwrap();
                    std::fs::remove_file(&name).unwrap();
                }
            }
        });
        for _ in 0..3000 {
            apply(&house, 1);
        }
        stop.store(true, Ordering::Relaxed);
        swapper.join().unwrap();
        assert_eq!(world.mode_and_group(&outside.join("data")), (0o644, 0));
        assert_eq!(world.mode_and_group(&outside), (0o755, 0));
    });
}

#[test]
fn a_mapped_mount_shows_and_stores_other_ids() {
    real(|world| {
        let house = House::new(world);
        let source = house.outside("source");
        world.give(&source.join("data"), 5, 6, 0o640);
        let mount = house.bind(&source);
        let map = IdMap {
            users: vec![IdRange { stored: 0, seen: 10_000, count: 100 }, IdRange { stored: 100, seen: 0, count: 100 }],
            groups: vec![IdRange { stored: 0, seen: 20_000, count: 200 }],
        };
        house.kernel.idmapped(&mount, &map).unwrap();
        house.attach(mount, "volume");
        let seen = std::fs::metadata(house.at("volume/data")).unwrap();
        assert_eq!((seen.uid(), seen.gid()), (10_005, 20_006));
        std::os::unix::fs::chown(house.at("volume/data"), Some(7), Some(20_008)).unwrap();
        let stored = std::fs::metadata(source.join("data")).unwrap();
        assert_eq!((stored.uid(), stored.gid()), (107, 8));
        let status = std::fs::read_to_string(format!("/proc/self/task/{}/children", nix::unistd::gettid()));
        assert_eq!(status.unwrap_or_default().trim(), "", "no child is left");
    });
}

#[test]
fn a_file_system_without_id_maps_is_named() {
    real(|world| {
        let house = House::new(world);
        // Of the pseudo file systems /proc can't be id-mapped.
        let proc = house.kernel.open_host_path(std::path::Path::new("/proc"), &["/proc".into()]).unwrap();
        let mount = house.kernel.bind(&proc, false).unwrap();
        let range = IdRange { stored: 0, seen: 1, count: 1 };
        let error = house.kernel.idmapped(&mount, &IdMap { users: vec![range], groups: vec![range] }).unwrap_err();
        assert!(error.to_string().contains("does not support id-mapped mounts"), "{error}");
    });
}

#[test]
fn a_walk_leaves_no_handle_and_no_busy_mount() {
    real(|world| {
        let house = House::new(world);
        house.attach(house.kernel.tmpfs(&[FsOption::new("size", "1m")]).unwrap(), "volume");
        std::fs::create_dir_all(house.at("volume/a/b/c")).unwrap();
        apply(&house, 4);
        house.kernel.disk_usage(&house.root, name("volume")).unwrap();
        house.kernel.usage(&house.root, name("volume")).unwrap();
        house.kernel.detach(&house.root, name("volume"), volhost_kernel::Detach::Normal).unwrap();
        // Prepared again as a root, which a busy leftover would refuse.
        house.kernel.prepare_root(&house.path, Propagation::Private).unwrap();
    });
}
