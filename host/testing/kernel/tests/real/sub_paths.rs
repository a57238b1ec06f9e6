//! Sub-paths while a pod exchanges folders for links: the races of CVE-2017-1002101 and
//! CVE-2021-25741.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use volhost_kernel::{Detach, KernelError, MissingSubPath};
use volhost_process::linux_kernel;

use super::in_namespace;
use crate::suite::{House, World, name};

#[test]
fn a_folder_exchanged_for_a_link_does_not_lead_out() {
    in_namespace(linux_kernel(), |world| {
        let house = House::new(world);
        let outside = house.outside("outside");
        world.add_folder(&outside.join("inner"));
        world.write(&outside.join("inner/data"), b"precious").unwrap();
        world.add_folder(&house.at("volume/dir/inner"));
        world.write(&house.at("volume/dir/inner/data"), b"ours").unwrap();
        world.add_symlink(&house.at("volume/link"), &outside);
        world.add_symlink(&house.at("volume/relative"), Path::new("../../outside"));
        let stop = Arc::new(AtomicBool::new(false));
        let swapper = std::thread::spawn({
            let (stop, volume) = (Arc::clone(&stop), house.at("volume"));
            move || {
                let swap = |link: &str| {
                    renameat_with(CWD, volume.join("dir"), CWD, volume.join(link), RenameFlags::EXCHANGE).unwrap();
                };
                while !stop.load(Ordering::Relaxed) {
                    for link in ["link", "relative"] {
                        swap(link);
                        swap(link);
                    }
                }
            }
        });
        let (mut opened, mut refused) = (0, 0);
        for round in 0..1_000_000 {
            // Long enough to have met the race both ways, however the threads are scheduled.
            if round >= 4000 && opened > 0 && refused > 0 {
                break;
            }
            let rel = ["dir/inner", "dir/inner/data", "dir/made/new"][round % 3];
            match house.kernel.open_sub_path(&house.root, name("volume"), Path::new(rel), MissingSubPath::MakeFolders) {
                Ok(source) => {
                    opened += 1;
                    let mount = house.kernel.bind(&source, false).unwrap();
                    drop(source);
                    house.attach(mount, "target");
                    let file = match rel {
                        "dir/inner" => house.at("target/data"),
                        "dir/inner/data" => house.at("target"),
                        _ => house.at("volume/nothing"),
                    };
                    assert_ne!(world.read(&file).ok().as_deref(), Some(&b"precious"[..]), "{rel}");
                    house.kernel.detach(&house.root, name("target"), Detach::Normal).unwrap();
                }
                Err(KernelError::OutsideVolume { .. } | KernelError::SymbolicLink { .. }) => refused += 1,
                Err(error) if error.kind() == volhost_kernel::ErrorKind::NotFound => refused += 1,
                Err(KernelError::WrongType { .. }) => refused += 1,
                Err(error) => panic!("{error:?}"),
            }
        }
        stop.store(true, Ordering::Relaxed);
        swapper.join().unwrap();
        assert!(opened > 0 && refused > 0, "{opened} {refused}: the race was never met");
        assert_eq!(world.list(&outside), ["data", "inner"], "nothing was made outside");
    });
}

#[test]
fn magic_links_in_a_volume_open_nothing() {
    in_namespace(linux_kernel(), |world| {
        let house = House::new(world);
        let source = house.kernel.open_host_path(Path::new("/proc"), &["/proc".into()]).unwrap();
        house.attach(house.kernel.bind(&source, true).unwrap(), "volume");
        for rel in ["self/root/etc", "self/cwd", "1/root"] {
            for missing in [MissingSubPath::Refuse, MissingSubPath::MakeFolders] {
                assert!(house.kernel.open_sub_path(&house.root, name("volume"), Path::new(rel), missing).is_err());
            }
        }
        drop(source);
        house.kernel.detach(&house.root, name("volume"), Detach::Lazy).unwrap();
    });
}

#[test]
fn an_umask_changes_no_sub_path() {
    in_namespace(linux_kernel(), |world| {
        nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(0o077));
        let house = House::new(world);
        world.add_folder(&house.at("volume"));
        world.give(&house.at("volume"), 0, 31, 0o2777);
        house.kernel.open_sub_path(&house.root, name("volume"), Path::new("a/b"), MissingSubPath::MakeFolders).unwrap();
        assert_eq!(world.mode_and_group(&house.at("volume/a/b")), (0o2777, 31));
    });
}
