//! The capabilities that the daemon keeps.

use rustix::io::Errno;
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, capability_is_in_bounding_set, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities,
};

use super::error::HardenError;
use super::programs::Programs;

/// The kept capabilities, and their use.
pub const KEPT: &[(CapabilitySet, &str)] = &[
    (CapabilitySet::SYS_ADMIN, "mounts, loop devices, file systems, quotas, user namespaces for id maps"),
    (CapabilitySet::CHOWN, "gives volumes to a pod's group and user"),
    (CapabilitySet::FOWNER, "sets modes of volumes that belong to pods' users"),
    (CapabilitySet::FSETID, "keeps the set-group-id bit of a volume whose group is not its own"),
    (CapabilitySet::DAC_OVERRIDE, "works in folders that belong to pods' users"),
    (CapabilitySet::DAC_READ_SEARCH, "walks through them"),
    (CapabilitySet::SETUID, "the compiler becomes nobody; maps of users"),
    (CapabilitySet::SETGID, "the compiler becomes nobody; maps of groups"),
    (CapabilitySet::SETFCAP, "maps of users that have root in them"),
    (CapabilitySet::SETPCAP, "programs are started with fewer rights"),
    (CapabilitySet::SYS_CHROOT, "the compiler's empty root folder"),
    (CapabilitySet::KILL, "ends programs that have become another user"),
    (
        CapabilitySet::SYS_RESOURCE,
        "bounds of programs, growing a mounted ext4, and the host's own files on a disk whose quota is full",
    ),
    (CapabilitySet::NET_BIND_SERVICE, "metrics on a low port"),
];

/// Of these, the capabilities without which volhost still serves, with less.
pub const OPTIONAL: CapabilitySet = CapabilitySet::SYS_RESOURCE.union(CapabilitySet::NET_BIND_SERVICE);

/// Whether a process with these capabilities may mount.
pub const fn may_mount(have: u64) -> bool {
    have & CapabilitySet::SYS_ADMIN.bits() != 0
}

/// The highest number that a capability may get: the kernel's sets have 64 bits.
const NUMBERS: u32 = 64;

/// Drops every capability but [`KEPT`]: of this process, and where `programs` are the daemon's own,
/// of all that it will start.
pub(super) fn drop_unneeded(programs: Programs) -> Result<(), HardenError> {
    let failed = HardenError::at("drop the capabilities that it does not need");
    let kept = KEPT.iter().fold(CapabilitySet::empty(), |all, (one, _)| all | *one);
    if programs == Programs::Own {
        // While the capability to do so exists.
        for number in 0..NUMBERS {
            let one = CapabilitySet::from_bits_retain(1 << number);
            match capability_is_in_bounding_set(one) {
                Ok(true) if !kept.contains(one) => match remove_capability_from_bounding_set(one) {
                    // Without root, child processes get none of it anyway.
                    Ok(()) | Err(Errno::PERM) => {}
                    Err(errno) => return Err(failed(errno)),
                },
                Ok(_) => {}
                // The kernel knows no more.
                Err(_) => break,
            }
        }
    }
    let have = capabilities(None).map_err(&failed)?;
    let left = have.permitted & kept;
    let sets = CapabilitySets {
        effective: have.effective & kept,
        permitted: left,
        // Child processes inherit by way of the bounding set alone.
        inheritable: CapabilitySet::empty(),
    };
    set_capabilities(None, sets).map_err(&failed)?;
    clear_ambient_capability_set().map_err(&failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_over_the_machine_itself_are_not_kept() {
        let kept = KEPT.iter().fold(CapabilitySet::empty(), |all, (one, _)| all | *one);
        for never in [
            CapabilitySet::SYS_MODULE,
            CapabilitySet::SYS_BOOT,
            CapabilitySet::SYS_TIME,
            CapabilitySet::SYS_RAWIO,
            CapabilitySet::SYS_PTRACE,
            CapabilitySet::NET_ADMIN,
            CapabilitySet::NET_RAW,
            CapabilitySet::BPF,
            CapabilitySet::MAC_ADMIN,
            CapabilitySet::MKNOD,
        ] {
            assert!(!kept.contains(never), "{never:?}");
        }
    }
}
