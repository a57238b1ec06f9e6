//! fsGroup over many files against `chown -R` and `chmod -R`, on the same tree, in one run:
//! `cargo bench -p volhost-kernel --bench ownership`. Needs root. `FILES=1000000` for a million
//! files (100,000 otherwise), `ROUNDS=n` (3), `DISK=1` for ext4 in a file besides tmpfs.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a benchmark may panic"
)]

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use volhost_kernel::tools::{RunTool, ToolOutput, ToolRun};
use volhost_kernel::{
    Detach, IdMap, IdRange, Kernel, LinuxKernel, Ownership, OwnershipPolicy, OwnershipRequest, Propagation,
};

const FILES_A_FOLDER: usize = 100;
const GROUPS: [u32; 2] = [5000, 6000];

fn number(name: &str, default: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn fill(volume: &Path, files: usize) {
    for folder in 0..files.div_ceil(FILES_A_FOLDER) {
        let path = volume.join(format!("{}/{folder}", folder % 10));
        std::fs::create_dir_all(&path).unwrap();
        for file in 0..FILES_A_FOLDER.min(files - folder * FILES_A_FOLDER) {
            File::create(path.join(format!("{file}"))).unwrap();
        }
    }
}

fn run(command: &str, arguments: &[&OsStr]) -> Duration {
    let start = Instant::now();
    assert!(Command::new(command).args(arguments).status().unwrap().success(), "{command}");
    start.elapsed()
}

/// Back to modes and a group that every file must be changed from.
fn reset(volume: &Path) {
    run("chown", &["-R".as_ref(), ":4000".as_ref(), volume.as_ref()]);
    run("chmod", &["-R".as_ref(), "g-ws,o-w".as_ref(), volume.as_ref()]);
}

fn measure(kernel: &LinuxKernel, base: &Path, fs: &str, files: usize) {
    let root = kernel.prepare_root(&base.join("root"), Propagation::Private).unwrap();
    let volume = base.join("root/volume");
    std::fs::create_dir(&volume).unwrap();
    fill(&volume, files);
    let give = |threads, group| {
        let request = OwnershipRequest { group, policy: OwnershipPolicy::Always, read_only: false, threads };
        let start = Instant::now();
        let report =
            kernel.apply_ownership(&root, "volume".as_ref(), &request, &|_| ControlFlow::Continue(())).unwrap();
        (start.elapsed(), report)
    };
    let best = |run: &dyn Fn() -> Duration| {
        let round = |_| {
            reset(&volume);
            run()
        };
        (0..number("ROUNDS", 3)).map(round).min().unwrap()
    };
    let commands = best(&|| {
        let group = format!(":{}", GROUPS[0]);
        run("chown", &["-R".as_ref(), group.as_ref(), volume.as_ref()])
            + run("chmod", &["-R".as_ref(), "g+rwX".as_ref(), volume.as_ref()])
    });
    let ours = |threads| {
        best(&|| {
            let (time, report) = give(threads, GROUPS[1]);
            assert!(report.changed > files as u64, "{report:?}");
            time
        })
    };
    let (one, all) = (ours(1), ours(0));
    let (again, report) = give(0, GROUPS[1]);
    assert_eq!(report.changed, 0);
    let ratio = |time: Duration| commands.as_secs_f64() / time.as_secs_f64();
    println!("{fs}, {files} files, {} processors", std::thread::available_parallelism().unwrap());
    println!("  chown -R and chmod -R   {commands:>12.1?}");
    println!("  one thread              {one:>12.1?}   {:.1} times as fast", ratio(one));
    println!("  a thread a processor    {all:>12.1?}   {:.1} times as fast", ratio(all));
    println!("  nothing to change       {again:>12.1?}");
    let start = Instant::now();
    let bound = kernel.bind(&kernel.source(&kernel.walk(&root, Path::new("volume")).unwrap()).unwrap(), false).unwrap();
    let range = IdRange { stored: 0, seen: 100_000, count: 65_536 };
    match kernel.idmapped(&bound, &IdMap { users: vec![range], groups: vec![range] }) {
        Ok(()) => println!("  by an id-mapped mount   {:>12.1?}", start.elapsed()),
        Err(error) => println!("  by an id-mapped mount   {error}"),
    }
}

/// Runs no program: nothing here makes a file system through the kernel.
#[derive(Debug)]
struct RefusingTools;

impl RunTool for RefusingTools {
    fn run(&self, _: &ToolRun<'_>) -> io::Result<ToolOutput> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

fn main() {
    // `cargo test --benches` only asks whether it runs.
    let files = if std::env::args().any(|argument| argument == "--bench") { number("FILES", 100_000) } else { 1000 };
    // Nothing that is mounted here is seen by others, and all of it ends with this thread.
    unshare(CloneFlags::CLONE_FS | CloneFlags::CLONE_NEWNS).unwrap();
    mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>).unwrap();
    let kernel = LinuxKernel::new(Arc::new(RefusingTools));
    let base = tempfile::tempdir().unwrap();
    let here = kernel.open_directory(base.path()).unwrap();
    let inodes = format!("mode=755,nr_inodes={}", files * 2 + 10_000);
    let tmpfs = base.path().join("tmpfs");
    std::fs::create_dir(&tmpfs).unwrap();
    mount(Some("bench"), &tmpfs, Some("tmpfs"), MsFlags::empty(), Some(&*inodes)).unwrap();
    measure(&kernel, &tmpfs, "tmpfs", files);
    kernel.release_root(&tmpfs.join("root")).unwrap();
    kernel.detach(&here, "tmpfs".as_ref(), Detach::Lazy).unwrap();
    if number("DISK", 0) == 0 {
        return;
    }
    let (image, disk) = (base.path().join("image"), base.path().join("disk"));
    File::create(&image).unwrap().set_len(files as u64 * 1024 + (256 << 20)).unwrap();
    let inodes = format!("{}", files + files / 50 + 10_000);
    run("mkfs.ext4", &["-q".as_ref(), "-F".as_ref(), "-N".as_ref(), inodes.as_ref(), image.as_ref()]);
    std::fs::create_dir(&disk).unwrap();
    run("mount", &["-o".as_ref(), "loop".as_ref(), image.as_ref(), disk.as_ref()]);
    measure(&kernel, &disk, "ext4 in a file", files);
    kernel.release_root(&disk.join("root")).unwrap();
    run("umount", &[disk.as_ref()]);
    std::fs::remove_dir(&disk).unwrap();
}
