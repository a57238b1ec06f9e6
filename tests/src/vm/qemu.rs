//! The emulator.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The last bytes of the console that a failed test shows.
const CONSOLE_END: usize = 4000;

/// Mitigations double the time of a system call. A program that is loaded at another address each
/// time is translated anew each time: its start takes three times as long. To measure the timer of
/// the interrupt controller takes as long as the rest of the boot.
const ARGUMENTS: &str = "console=ttyS0 panic=-1 quiet mitigations=off norandmaps noapictimer";

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
    folder: PathBuf,
}

impl Machine {
    /// Boots `guest` with the disks in `folder`.
    pub(super) fn start(folder: &Path, guest: &Path, kernel: &GuestKernel) -> Self {
        let socket = folder.join("agent.sock");
        let _ = fs::remove_file(&socket);
        let log = fs::File::create(folder.join("qemu.log")).expect("a log");
        let disk = |image: &Path, more: &str| format!("file={},if=virtio,format=raw{more}", image.display());
        let emulator = Command::new("qemu-system-x86_64")
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
            .args(["-device", "virtio-serial", "-chardev"])
            .arg(format!("socket,path={},server=on,wait=off,id=agent", socket.display()))
            .args(["-device", "virtserialport,chardev=agent,name=org.qemu.guest_agent.0"])
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a handle"))
            .stderr(log)
            .spawn()
            .expect("qemu-system-x86_64 (qemu-system-x86) runs");
        Self { emulator, folder: folder.to_owned() }
    }

    /// The socket of the guest's agent.
    pub(super) fn agent_socket(&self) -> PathBuf {
        self.folder.join("agent.sock")
    }

    /// Whether the guest has not ended.
    pub(super) fn runs(&mut self) -> bool {
        self.emulator.try_wait().is_ok_and(|end| end.is_none())
    }

    /// Ends it between two instructions.
    pub(super) fn end(&mut self) {
        let _ = self.emulator.kill();
        let _ = self.emulator.wait();
    }

    /// The end of the emulator's log and of the guest's console.
    pub(super) fn console(&self) -> String {
        let read = |name: &str| fs::read(self.folder.join(name)).unwrap_or_default();
        let all = [read("qemu.log"), read("console")].concat();
        let end = all.get(all.len().saturating_sub(CONSOLE_END)..).unwrap_or_default();
        String::from_utf8_lossy(end).into_owned()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.end();
    }
}
