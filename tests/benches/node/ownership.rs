//! A group given to many files (fsGroup) beside `chown -R` and `chmod -R` on the same tree.

use std::ffi::OsStr;
use std::fs::File;
use std::ops::ControlFlow;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use volhost_kernel::{IdMap, IdRange, Kernel, LinuxKernel, Ownership, OwnershipPolicy, OwnershipRequest, Propagation};
use volhost_process::linux_kernel;
use volhost_tests::benchmark::{Figure, number};

use crate::options::Sizes;
use crate::report::Report;

const FILES_A_FOLDER: usize = 100;
const GROUPS: [u32; 2] = [5000, 6000];
/// Rounds, the fastest of which is the figure.
const ROUNDS: usize = 2;

fn fill(volume: &Path, files: usize) {
    for folder in 0..files.div_ceil(FILES_A_FOLDER) {
        let path = volume.join(format!("{}/{folder}", folder % 10));
        std::fs::create_dir_all(&path).expect("a folder");
        for file in 0..FILES_A_FOLDER.min(files - folder * FILES_A_FOLDER) {
            File::create(path.join(format!("{file}"))).expect("a file");
        }
    }
}

fn run(command: &str, arguments: &[&OsStr]) -> Duration {
    let start = Instant::now();
    assert!(Command::new(command).args(arguments).status().expect("it runs").success(), "{command}");
    start.elapsed()
}

/// Back to modes and a group that every file must be changed from.
fn reset(volume: &Path) {
    run("chown", &["-R".as_ref(), ":4000".as_ref(), volume.as_ref()]);
    run("chmod", &["-R".as_ref(), "g-ws,o-w".as_ref(), volume.as_ref()]);
}

pub(crate) fn measure(report: &mut Report, scratch: &Path, sizes: &Sizes) {
    let folder = tempfile::tempdir_in(scratch).expect("a folder");
    on(report, &linux_kernel(), folder.path(), "tmpfs", sizes.files);
    // Nothing but a disk shows what a file system that waits does.
    let (image, disk) = (folder.path().join("image"), folder.path().join("disk"));
    let files = sizes.files / 10;
    File::create(&image).expect("a file").set_len(files as u64 * 1024 + (64 << 20)).expect("it is made longer");
    let inodes = format!("{}", files + files / 50 + 10_000);
    run("mkfs.ext4", &["-q".as_ref(), "-F".as_ref(), "-N".as_ref(), inodes.as_ref(), image.as_ref()]);
    std::fs::create_dir(&disk).expect("a folder");
    run("mount", &["-o".as_ref(), "loop".as_ref(), image.as_ref(), disk.as_ref()]);
    on(report, &linux_kernel(), &disk, "ext4", files);
    run("umount", &[disk.as_ref()]);
}

fn on(report: &mut Report, kernel: &LinuxKernel, base: &Path, fs: &str, files: usize) {
    let place = base.join("root");
    let root = kernel.prepare_root(&place, Propagation::Private).expect("the root is prepared");
    let volume = place.join("volume");
    std::fs::create_dir(&volume).expect("a folder");
    fill(&volume, files);
    let give = |threads, group| {
        let request = OwnershipRequest { group, policy: OwnershipPolicy::Always, read_only: false, threads };
        let start = Instant::now();
        let applied = kernel.apply_ownership(&root, "volume".as_ref(), &request, &|_| ControlFlow::Continue(()));
        (start.elapsed(), applied.expect("the group is given"))
    };
    let best = |run: &dyn Fn() -> Duration| {
        let round = |_| {
            reset(&volume);
            run()
        };
        (0..ROUNDS).map(round).min().expect("there are rounds")
    };
    let commands = best(&|| {
        let group = format!(":{}", GROUPS[0]);
        run("chown", &["-R".as_ref(), group.as_ref(), volume.as_ref()])
            + run("chmod", &["-R".as_ref(), "g+rwX".as_ref(), volume.as_ref()])
    });
    let ours = |threads| {
        best(&|| {
            let (time, applied) = give(threads, GROUPS[1]);
            assert!(applied.changed > files as u64, "{applied:?}");
            time
        })
    };
    let (one, all) = (ours(1), ours(0));
    let (again, applied) = give(0, GROUPS[1]);
    assert_eq!(applied.changed, 0);
    let start = Instant::now();
    let source = kernel.walk(&root, Path::new("volume")).and_then(|entry| kernel.source(&entry));
    let bound = kernel.bind(&source.expect("the volume"), false).expect("a bind");
    let range = IdRange { stored: 0, seen: 100_000, count: 65_536 };
    kernel.idmapped(&bound, &IdMap { users: vec![range], groups: vec![range] }).expect("the mount is id-mapped");
    let mapped = start.elapsed();
    drop(bound);
    kernel.release_root(&place).expect("the root is released");

    let id = |name: &str| format!("ownership-{fs}-{files}{name}");
    let beside = "`chown -R` and `chmod -R`";
    let what = format!("group given to {} files on {fs}, a thread a processor", number(files));
    report.add(Figure::new(id(""), what, all).beside(beside, commands).aim_ratio(1.0 / 4.0));
    report.add(Figure::new(id("-one-thread"), "the same, one thread", one).beside(beside, commands));
    report.add(Figure::new(id("-unchanged"), "the same, nothing to change", again).beside(beside, commands));
    report.add(Figure::new(id("-id-map"), "the same, by an id-mapped mount", mapped).beside(beside, commands));
}
