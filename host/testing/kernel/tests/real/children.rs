//! Mounts come and go while programs are started: a child in the making has copies of descriptors,
//! and a copy keeps a mount busy.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use volhost_kernel::{Detach, MissingSubPath};
use volhost_process::linux_kernel;

use super::{in_namespace, run_program};
use crate::suite::{House, World, name};

#[test]
fn no_child_in_the_making_keeps_a_mount_busy() {
    in_namespace(linux_kernel(), |world| {
        let house = House::new(world);
        world.add_folder(&house.at("source"));
        world.add_folder(&house.at("volume/dir"));
        let stop = Arc::new(AtomicBool::new(false));
        let starters: Vec<_> = (0..3)
            .map(|_| {
                let stop = Arc::clone(&stop);
                std::thread::spawn(move || {
                    while !stop.load(Ordering::Relaxed) {
                        assert!(run_program("true", &[]).0);
                    }
                })
            })
            .collect();
        for round in 0..500 {
            let source = house
                .kernel
                .open_sub_path(&house.root, name("volume"), "dir".as_ref(), MissingSubPath::Refuse)
                .unwrap();
            house.attach(house.kernel.bind(&source, false).unwrap(), "target");
            let inside = std::fs::File::open(house.at("target")).unwrap();
            std::thread::yield_now();
            drop(inside);
            house
                .kernel
                .detach(&house.root, name("target"), Detach::Normal)
                .unwrap_or_else(|error| panic!("round {round}: {error}"));
        }
        stop.store(true, Ordering::Relaxed);
        starters.into_iter().for_each(|starter| starter.join().unwrap());
    });
}
