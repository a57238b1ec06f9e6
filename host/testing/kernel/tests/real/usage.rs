//! What only a real file system has: holes and hard links.

use std::fs::File;
use std::io::Write;
use std::ops::ControlFlow;

use volhost_kernel::{OwnershipPolicy, OwnershipRequest};
use volhost_process::linux_kernel;

use super::{in_namespace, run_program};
use crate::suite::{House, World, name};

#[test]
fn holes_are_not_counted_and_hard_links_once() {
    in_namespace(linux_kernel(), |world| {
        let house = House::new(world);
        world.add_folder(&house.at("volume/dir"));
        let measure = || house.kernel.disk_usage(&house.root, name("volume")).unwrap();
        let empty = measure();
        File::create(house.at("volume/hole")).unwrap().set_len(1 << 30).unwrap();
        File::create(house.at("volume/file")).unwrap().write_all(&[1; 8192]).unwrap();
        for link in 0..10 {
            std::fs::hard_link(house.at("volume/file"), house.at(&format!("volume/dir/{link}"))).unwrap();
        }
        let filled = measure();
        assert_eq!(filled.bytes - empty.bytes, 8192);
        assert_eq!(filled.inodes - empty.inodes, 2);
        let (_, du, _) = run_program("du", &["-s", "-B1", house.at("volume").to_str().unwrap()]);
        assert_eq!(du.split_whitespace().next().unwrap(), filled.bytes.to_string(), "as du has it");
        // A file with several names is one file to a change of its group, too.
        let request = OwnershipRequest { group: 9, policy: OwnershipPolicy::Always, read_only: false, threads: 2 };
        let report = house
            .kernel
            .apply_ownership(&house.root, name("volume"), &request, &|_| ControlFlow::Continue(()))
            .unwrap();
        assert_eq!(report.visited, 14);
        assert_eq!(world.mode_and_group(&house.at("volume/dir/3")), (0o664, 9));
    });
}
