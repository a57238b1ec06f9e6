//! Programs that do on a device what the device has them do: the rest of the machine is out of
//! their reach.

use volhost_kernel::{BlockDevice, Detach, FilesystemError, Filesystems, FormatOptions, KernelError};
use volhost_process::linux_kernel;

use crate::real;
use crate::real::run_program;
use crate::suite::{House, MIB, World, name};

/// Puts a program in the place of `e2fsck`, for this test's thread alone.
pub fn instead_of_e2fsck(program: &str) {
    let flags = nix::mount::MsFlags::MS_BIND;
    nix::mount::mount(Some(program), "/usr/sbin/e2fsck", None::<&str>, flags, None::<&str>).unwrap();
}

/// A disk that begins with a text and has the mark of an ext file system where that belongs.
pub fn disk_with_text(house: &House<'_>, text: &str) -> BlockDevice {
    let mut bytes = text.as_bytes().to_vec();
    assert!(bytes.len() < 1024);
    bytes.resize(1024 + 0x38, b'\n');
    bytes.extend([0x53, 0xEF]);
    house.world.write(&house.world.base().join("disk"), &bytes).unwrap();
    house.disk("disk", 16 * MIB).1
}

#[test]
fn no_mount_of_the_host_is_kept_busy_by_a_program_that_runs() {
    real(|world| {
        let house = House::new(world);
        let (image, device) = house.disk("other", 16 * MIB);
        house.kernel.format(&device, "ext4", &FormatOptions::default()).unwrap();
        house.attach(house.kernel.mount_filesystem(&device, "ext4", &[], false).unwrap(), "volume");
        // A program that runs until it is killed.
        instead_of_e2fsck("/bin/sh");
        let script = disk_with_text(&house, "while [ ! -e /nowhere ]; do :; done\n");
        std::thread::scope(|scope| {
            let kernel = linux_kernel();
            let running = scope.spawn(move || kernel.check(&script, "ext4"));
            let runs = || {
                let found = run_program("pgrep", &["-f", "^/usr/sbin/e2fsck -p -- /dev/loop"]);
                found.1.lines().next().map(|pid| pid.parse::<i32>().unwrap())
            };
            let pid = std::iter::repeat_with(runs).flatten().next().unwrap();
            house.kernel.detach(&house.root, name("volume"), Detach::Normal).unwrap();
            assert!(!house.kernel.device_in_use(&device).unwrap(), "the program has no copy of the mount");
            house.kernel.detach_loop(&image).unwrap();
            nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL).unwrap();
            assert!(running.join().unwrap().is_err());
        });
    });
}

#[test]
fn a_program_that_its_device_took_over_freezes_no_file_system_of_the_host() {
    const FIFREEZE: &str = "0xC0045877";
    real(|world| {
        let house = House::new(world);
        // A file system as the host's, of which the program sees one file as it sees its libraries.
        let (_, other) = house.disk("other", 16 * MIB);
        house.kernel.format(&other, "ext4", &FormatOptions::default()).unwrap();
        house.attach(house.kernel.mount_filesystem(&other, "ext4", &[], false).unwrap(), "volume");
        let seen = house.at("volume").join("seen");
        world.write(&seen, b"x").unwrap();
        let flags = nix::mount::MsFlags::MS_BIND;
        nix::mount::mount(Some(&seen), "/etc/mke2fs.conf", None::<&str>, flags, None::<&str>).unwrap();
        // Its words are `-p -- /dev/loopN`: perl runs what is on the device.
        instead_of_e2fsck("/usr/bin/perl");
        let script = format!(
            "BEGIN {{ open(F, '<', '/etc/mke2fs.conf') or die; print 'READ '; \
             print 'FROZEN ' if ioctl(F, {FIFREEZE}, 0); print \"$! \"; \
             print 'SIGNALLED' if kill(0, getppid()); $? = 4; exit 4 }}\n"
        );
        let device = disk_with_text(&house, &script);
        let error = house.kernel.check(&device, "ext4").unwrap_err();
        // It does not delay the end of the test.
        run_program("fsfreeze", &["--unfreeze", house.at("volume").to_str().unwrap()]);
        let KernelError::Filesystem(FilesystemError::Damaged { said, .. }) = &error else { panic!("{error:?}") };
        assert!(said.contains("READ") && said.contains("not permitted"), "{said}");
        assert!(!said.contains("FROZEN") && !said.contains("SIGNALLED"), "{said}");
    });
}
