use volhost_kernel::{Detach, FuseMount, FuseOptions};

use super::{House, World, name};

fn options(read_only: bool) -> FuseOptions {
    FuseOptions {
        source: "the-source".to_owned(),
        subtype: "test".to_owned(),
        user: 65534,
        group: 65534,
        default_permissions: true,
        read_only,
        label: None,
    }
}

pub fn a_connection_is_known_until_the_last_mount_of_it_has_gone(world: &dyn World) {
    let house = House::new(world);
    let FuseMount { mount, connection, device } = house.kernel.fuse(&options(true)).unwrap();
    let is_mounted = || house.kernel.is_mounted_anywhere(connection).unwrap();
    assert!(is_mounted(), "it is detached, and it is there");
    house.attach(mount, "volume");
    let found = house.kernel.mount_at(&house.root, name("volume")).unwrap().unwrap();
    assert!(found.fs_type == "fuse.test" && found.read_only, "{found:?}");
    assert!(is_mounted());
    // It has no server, and none is asked.
    drop(device);
    house.kernel.detach(&house.root, name("volume"), Detach::Normal).unwrap();
    assert!(!is_mounted());
    assert!(!house.kernel.end_connection(connection).unwrap());
    assert!(!house.is_mount("volume"));

    let unseen = house.kernel.fuse(&options(false)).unwrap();
    assert!(house.kernel.end_connection(unseen.connection).unwrap());
    let connection = unseen.connection;
    drop(unseen);
    assert!(!house.kernel.is_mounted_anywhere(connection).unwrap());
}
