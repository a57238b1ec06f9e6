//! Clearing away that fails in the middle.

use std::path::Path;

use volhost_kernel::{Detach, Entry, Errno};

use super::InMemoryWorld;
use crate::suite::{House, World, name};

#[test]
fn a_clearing_that_fails_or_ends_at_any_step_is_finished_by_the_next() {
    for crash in [false, true] {
        for step in 0.. {
            let world = InMemoryWorld::new();
            let house = House::new(&world);
            let source = house.outside("source");
            let folder = house.kernel.make_dirs(&house.root, Path::new("binds/c"), 0o750).unwrap();
            for point in ["0", "1"] {
                house.kernel.attach(house.bind(&source), &folder, name(point)).unwrap();
            }
            house.kernel.attach(house.bind(&source.join("data")), &folder, name("2")).unwrap();
            if crash {
                world.0.crash_at(step)
            } else {
                world.0.fail_at(step, Errno::IO)
            }
            let ended = house.kernel.detach_tree(&house.root, name("binds"), Detach::Normal);
            world.0.clear_faults();
            if ended.is_ok() {
                assert_eq!(step, 9, "looking, three mounts, three points, two folders");
                break;
            }
            house.kernel.detach_tree(&house.root, name("binds"), Detach::Normal).unwrap();
            assert_eq!(house.entry("binds"), Entry::Absent, "step {step}");
            assert_eq!(world.0.mounts().len(), 1, "step {step}: the root's own");
            assert_eq!(world.read(&source.join("data")).unwrap(), b"precious", "step {step}");
        }
    }
}
