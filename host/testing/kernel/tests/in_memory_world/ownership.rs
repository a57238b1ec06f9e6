//! Walks that end in the middle, and file systems that can't map ids.

use std::ops::ControlFlow;

use volhost_kernel::{Errno, ErrorKind, IdMap, IdRange, KernelError, OwnershipPolicy, OwnershipRequest, Step};
use volhost_testing_kernel::InMemoryKernel;

use super::InMemoryWorld;
use crate::suite::{House, World, name};

const REQUEST: OwnershipRequest =
    OwnershipRequest { group: 9, policy: OwnershipPolicy::OnRootMismatch, read_only: false, threads: 1 };
const PATHS: [&str; 5] = ["volume", "volume/a", "volume/dir", "volume/dir/b", "volume/dir/inner"];

fn at_every_step(end: impl Fn(&InMemoryKernel, usize), check: impl Fn(KernelError)) -> usize {
    for step in 0.. {
        let world = InMemoryWorld::new();
        let house = House::new(&world);
        world.add_folder(&house.at("volume/dir/inner"));
        for file in ["volume/a", "volume/dir/b"] {
            world.write(&house.at(file), b"x").unwrap();
        }
        let apply =
            || house.kernel.apply_ownership(&house.root, name("volume"), &REQUEST, &|_| ControlFlow::Continue(()));
        end(&world.0, step);
        let ended = apply();
        world.0.clear_faults();
        let Err(error) = ended else { return step };
        check(error);
        let again = apply().unwrap();
        assert!(!again.skipped, "step {step}: an interrupted walk was taken for a finished one");
        for path in PATHS {
            assert_eq!(world.mode_and_group(&house.at(path)).1, 9, "step {step}: {path}");
        }
        assert!(apply().unwrap().skipped);
    }
    0
}

#[test]
fn a_walk_that_is_killed_at_any_file_is_taken_up_again() {
    let steps = at_every_step(InMemoryKernel::crash_at, |_| {});
    assert_eq!(steps, 1 + PATHS.len(), "opening, and each file");
}

#[test]
fn a_file_that_fails_is_reported_and_the_root_waits() {
    at_every_step(
        |kernel, step| kernel.fail_at(step, Errno::PERM),
        |error| match &error {
            KernelError::OwnershipIncomplete { failed: 1, first, .. } => {
                assert_eq!(first[0].step(), Some(Step::ApplyOwnership));
                assert_eq!(error.kind(), ErrorKind::PermissionDenied);
            }
            KernelError::Failed { step, .. } => assert!(matches!(step, Step::OpenFolder | Step::ApplyOwnership)),
            other => panic!("{other:?}"),
        },
    );
}

#[test]
fn a_file_system_that_maps_no_ids_is_reported() {
    let world = InMemoryWorld::new();
    let house = House::new(&world);
    let mount = house.bind(&house.outside("source"));
    world.0.without_id_maps("ext4");
    let range = IdRange { stored: 0, seen: 5, count: 1 };
    let map = IdMap { users: vec![range], groups: vec![range] };
    let error = house.kernel.idmapped(&mount, &map).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("does not support id-mapped mounts"), "{error}");
    house.kernel.idmapped(&house.kernel.tmpfs(&[]).unwrap(), &map).unwrap();
}
