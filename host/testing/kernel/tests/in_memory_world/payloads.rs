//! Faults and crashes in the middle of publishing.

use std::collections::BTreeSet;

use volhost_kernel::{Errno, Payload, PayloadFile};

use super::InMemoryWorld;
use crate::suite::{House, World, name};

fn payload(version: &str, files: &[&str]) -> Payload {
    let mut all: Vec<_> = files.iter().map(|path| PayloadFile::new(*path, version.as_bytes(), 0o640)).collect();
    all.push(PayloadFile::new("version", version.as_bytes(), 0o600));
    Payload { files: all, owner: Some(1), group: Some(2), folder_mode: 0o750 }
}

fn publish(house: &House<'_>, payload: &Payload) -> Result<bool, volhost_kernel::KernelError> {
    house.kernel.publish_payload(&house.root, name("volume"), payload).map(|published| published.changed)
}

/// The set behind `..data`: asserts that it is whole, and returns its version.
fn whole_set(house: &House<'_>, sets: &[&Payload], at: usize) -> String {
    let data = house.at("volume/..data");
    let version = String::from_utf8(house.world.read(&data.join("version")).unwrap()).unwrap();
    let set = sets.iter().find(|set| set.files.iter().any(|file| file.bytes == version.as_bytes())).unwrap();
    for file in &set.files {
        assert_eq!(house.world.read(&data.join(&file.path)).unwrap(), file.bytes, "step {at}");
        assert_eq!(house.world.mode_and_group(&data.join(&file.path)), (file.mode, 2), "step {at}");
        assert_eq!(house.world.owner(&data.join(&file.path)), 1, "step {at}");
    }
    let top: BTreeSet<_> = set.files.iter().map(|file| file.path.iter().next().unwrap().to_owned()).collect();
    assert!(house.world.list(&data).iter().eq(top.iter()), "step {at}");
    version
}

fn assert_shows(house: &House<'_>, set: &Payload, at: usize) {
    for file in &set.files {
        assert_eq!(house.world.read(&house.at("volume").join(&file.path)).unwrap(), file.bytes, "step {at}");
    }
    let top: BTreeSet<_> = set.files.iter().map(|file| file.path.iter().next().unwrap()).collect();
    assert_eq!(house.world.list(&house.at("volume")).len(), top.len() + 2, "step {at}: nothing is left over");
}

/// Ends an update at every step, in this way, and calls `then` with what it left.
fn at_every_step(end: impl Fn(&InMemoryWorld, usize), then: impl Fn(&InMemoryWorld, &House<'_>, [&Payload; 2], usize)) {
    let (old, new) = (payload("old", &["a", "b/c", "gone/x"]), payload("new", &["a", "b/c", "come/y"]));
    for step in 0.. {
        let world = InMemoryWorld::new();
        let house = House::new(&world);
        world.add_folder(&house.at("volume"));
        publish(&house, &old).unwrap();
        end(&world, step);
        let ended = publish(&house, &new);
        world.0.clear_faults();
        if ended.is_ok() {
            assert!(step > 40, "every call counts as a step");
            return;
        }
        then(&world, &house, [&old, &new], step);
    }
}

#[test]
fn a_crash_at_any_step_leaves_a_whole_set_and_the_next_update_converges() {
    at_every_step(
        |world, step| world.0.crash_at(step),
        |_, house, [old, new], step| {
            whole_set(house, &[old, new], step);
            // Whatever the next host wants.
            let wanted = if step % 2 == 0 { new } else { old };
            publish(house, wanted).unwrap();
            whole_set(house, &[wanted], step);
            assert_shows(house, wanted, step);
            assert!(!publish(house, wanted).unwrap(), "step {step}");
        },
    );
}

#[test]
fn a_crash_in_the_repair_of_a_crash_is_repaired_too() {
    for second in 0..60 {
        at_every_step(
            |world, step| world.0.crash_at(step),
            |world, house, [old, new], step| {
                let kernel = &world.0;
                kernel.crash_at(second);
                let _ = publish(house, if step % 2 == 0 { old } else { new });
                kernel.clear_faults();
                whole_set(house, &[old, new], step);
                publish(house, new).unwrap();
                assert_shows(house, new, step);
            },
        );
    }
}

#[test]
fn a_fault_at_any_step_is_reported_and_leaves_nothing_half_done() {
    at_every_step(
        |world, step| world.0.fail_at(step, Errno::IO),
        |_, house, [old, new], step| {
            let version = whole_set(house, &[old, new], step);
            if version == "old" {
                assert_shows(house, old, step);
            }
            publish(house, new).unwrap();
            assert_shows(house, new, step);
        },
    );
}
