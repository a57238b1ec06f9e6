//! The emulator.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use super::lifetime;

/// The last bytes of the console that a failed test shows.
const CONSOLE_END: u64 = 4000;

/// The place of the processor time in user mode among the fields of `/proc/PID/stat` from the third on;
/// that in the kernel is the next.
const UTIME: usize = 11;

/// Mitigations double the time of a system call. A program that is loaded at another address each
/// time is translated anew each time: its start takes three times as long. To measure the timer of
/// the interrupt controller takes as long as the rest of the boot. The tables of ACPI are a program of
/// the firmware's, and the kernel's tests of its own ciphers are for hardware: a third of the rest.
const ARGUMENTS: &str =
    "console=ttyS0 panic=-1 quiet mitigations=off norandmaps noapictimer acpi=off cryptomgr.notests";

/// A kernel of `build.sh`, and how it is booted.
#[derive(Debug, Clone, Copy)]
pub(super) struct GuestKernel {
    file: &'static str,
    initramfs: &'static str,
    arguments: &'static str,
}

impl GuestKernel {
    /// The one for virtual machines, with these further arguments.
    pub(super) const fn usual(arguments: &'static str) -> Self {
        Self { file: "kernel", initramfs: "initramfs", arguments }
    }

    /// The one with Fibre Channel.
    pub(super) const FIBRE_CHANNEL: Self = Self { file: "kernel-fc", initramfs: "initramfs-fc", arguments: "" };
}

/// A running emulator. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Machine {
    emulator: Child,
    sockets: [PathBuf; 2],
    /// The emulator's output, and the guest's console. Their names may go while they are written.
    logs: [File; 2],
    /// What the emulator had used of a processor when it was ended.
    used: Option<Duration>,
}

impl Machine {
    /// Boots `guest` with the disks in `folder`.
    pub(super) fn start(folder: &Path, guest: &Path, kernel: &GuestKernel) -> Self {
        let sockets = ["agent.sock", "ended.sock"].map(|name| folder.join(name));
        for socket in &sockets {
            let _ = fs::remove_file(socket);
        }
        let channel = |id: &str, socket: &Path| format!("socket,path={},server=on,wait=off,id={id}", socket.display());
        let log = |name: &str| {
            let path = folder.join(name);
            File::options().read(true).write(true).create(true).truncate(true).open(path).expect("a log")
        };
        let logs = ["qemu.log", "console"].map(log);
        let output = || logs[0].try_clone().expect("a handle");
        let disk = |image: &Path, more: &str| format!("file={},if=virtio,format=raw{more}", image.display());
        let mut emulator = lifetime::command("qemu-system-x86_64");
        emulator
            // The guest's clock counts instructions, a nanosecond each: however busy the machine is,
            // limits and figures of time mean the same.
            .args(["-accel", "tcg,thread=single", "-icount", "shift=0,sleep=on"])
            // No feature beyond x86-64, which is what `precompiled` makes code for.
            .args(["-cpu", "qemu64,-sse3,-cx16", "-m", "1024", "-smp", "1"])
            .args(["-nodefaults", "-no-reboot", "-display", "none"])
            .arg("-serial")
            .arg(format!("file:{}", folder.join("console").display()))
            .arg("-kernel")
            .arg(guest.join(kernel.file))
            .arg("-initrd")
            .arg(guest.join(kernel.initramfs))
            .args(["-append", &format!("{ARGUMENTS} {}", kernel.arguments)])
            .args(["-drive", &disk(&guest.join("root.img"), ",snapshot=on")])
            .args(["-drive", &disk(&folder.join("payload.img"), ",readonly=on")])
            .args(["-drive", &disk(&folder.join("disk.img"), "")])
            .args(["-device", "virtio-serial"])
            .args(["-chardev", &channel("agent", &sockets[0])])
            .args(["-device", "virtserialport,chardev=agent,name=org.qemu.guest_agent.0"])
            .args(["-chardev", &channel("ended", &sockets[1])])
            .args(["-device", "virtserialport,chardev=ended,name=volhost.ended"])
            .stdin(Stdio::null())
            .stdout(output())
            .stderr(output());
        // A program that is missing is named by its log.
        let emulator = lifetime::spawn(emulator).expect("setpriv (util-linux) runs");
        Self { emulator, sockets, logs, used: None }
    }

    /// The sockets of the guest's agent and of its second port.
    pub(super) fn sockets(&self) -> [PathBuf; 2] {
        self.sockets.clone()
    }

    /// Whether the guest has not ended.
    pub(super) fn runs(&mut self) -> bool {
        let used = self.processor_time();
        let runs = self.emulator.try_wait().is_ok_and(|end| end.is_none());
        if !runs {
            self.used = Some(used);
        }
        runs
    }

    /// Ends it between two instructions.
    pub(super) fn end(&mut self) {
        self.used = Some(self.processor_time());
        let _ = self.emulator.kill();
        let _ = self.emulator.wait();
    }

    /// How long the emulator has kept a processor busy.
    pub(super) fn processor_time(&self) -> Duration {
        self.used.unwrap_or_else(|| {
            let stat = fs::read_to_string(format!("/proc/{}/stat", self.emulator.id())).unwrap_or_default();
            // After the program's name: the fields from the third on.
            let fields = stat.rsplit(") ").next().unwrap_or_default().split(' ');
            let ticks: u64 = fields.skip(UTIME).take(2).flat_map(str::parse::<u64>).sum();
            Duration::from_secs(ticks) / u32::try_from(rustix::param::clock_ticks_per_second()).expect("a rate")
        })
    }

    /// The end of the emulator's output and of the guest's console.
    pub(super) fn console(&self) -> String {
        let end = |file: &File| {
            let length = file.metadata().map_or(0, |about| about.len());
            let mut end = vec![0; usize::try_from(length.min(CONSOLE_END)).expect("a length")];
            let read = file.read_exact_at(&mut end, length.saturating_sub(CONSOLE_END));
            read.map_or_else(|error| error.to_string(), |()| String::from_utf8_lossy(&end).into_owned())
        };
        self.logs.each_ref().map(end).concat()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.end();
    }
}
