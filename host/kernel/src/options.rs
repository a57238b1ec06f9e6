//! Per-mount options by mount(8)'s names, and the options a plugin may give a tmpfs. The same for
//! every kernel.

use crate::error::{KernelError, Result};
use crate::types::FsOption;

/// The effect of options: bits to set, and bits to clear first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MountAttributes {
    /// The bits to set.
    pub set: u64,
    /// The bits to clear first.
    pub clear: u64,
}

/// Each option's bits. The access-time modes share a field that is cleared before it is set.
const OPTIONS: [(&str, MountAttributes); 9] = [
    ("ro", flag(libc::MOUNT_ATTR_RDONLY)),
    ("nosuid", flag(libc::MOUNT_ATTR_NOSUID)),
    ("nodev", flag(libc::MOUNT_ATTR_NODEV)),
    ("noexec", flag(libc::MOUNT_ATTR_NOEXEC)),
    ("nodiratime", flag(libc::MOUNT_ATTR_NODIRATIME)),
    ("nosymfollow", flag(libc::MOUNT_ATTR_NOSYMFOLLOW)),
    ("relatime", access_time(libc::MOUNT_ATTR_RELATIME)),
    ("noatime", access_time(libc::MOUNT_ATTR_NOATIME)),
    ("strictatime", access_time(libc::MOUNT_ATTR_STRICTATIME)),
];

/// The options of tmpfs(5) that the host passes on. Others reach into memory policy of the whole
/// machine.
const TMPFS_VALUES: [&str; 5] = ["size", "nr_inodes", "mode", "uid", "gid"];
const TMPFS_FLAGS: [&str; 1] = ["noswap"];
/// The options of hugetlbfs that the host passes on. `min_size` is not among them: it takes pages
/// from the node before they are used.
const HUGE_PAGES_VALUES: [&str; 6] = ["pagesize", "size", "nr_inodes", "mode", "uid", "gid"];

const fn flag(bit: u64) -> MountAttributes {
    MountAttributes { set: bit, clear: 0 }
}

const fn access_time(mode: u64) -> MountAttributes {
    MountAttributes { set: mode, clear: libc::MOUNT_ATTR__ATIME }
}

/// The bits for these options; of several access-time modes the last one counts.
pub fn attributes(subject: &str, options: &[&str]) -> Result<MountAttributes> {
    let mut all = MountAttributes::default();
    for option in options {
        let Some((_, one)) = OPTIONS.iter().find(|(name, _)| name == option) else {
            let known: Vec<&str> = OPTIONS.iter().map(|(name, _)| *name).collect();
            return Err(KernelError::InvalidOption {
                subject: subject.to_owned(),
                option: (*option).to_owned(),
                reason: format!("no such mount option; there are {}", known.join(", ")),
            });
        };
        all.set = (all.set & !one.clear) | one.set;
        all.clear |= one.clear;
    }
    Ok(all)
}

/// The names of the options that these bits mean, in the order the kernel writes them, `rw` or `ro`
/// first.
pub fn option_names(bits: u64) -> Vec<String> {
    let mut names = vec![if bits & libc::MOUNT_ATTR_RDONLY != 0 { "ro" } else { "rw" }];
    let flags =
        [(libc::MOUNT_ATTR_NOSUID, "nosuid"), (libc::MOUNT_ATTR_NODEV, "nodev"), (libc::MOUNT_ATTR_NOEXEC, "noexec")];
    names.extend(flags.iter().filter(|(bit, _)| bits & bit != 0).map(|(_, name)| *name));
    let access_time = bits & libc::MOUNT_ATTR__ATIME;
    if access_time == libc::MOUNT_ATTR_NOATIME {
        names.push("noatime");
    }
    if bits & libc::MOUNT_ATTR_NODIRATIME != 0 {
        names.push("nodiratime");
    }
    if access_time == libc::MOUNT_ATTR_RELATIME {
        names.push("relatime");
    }
    if bits & libc::MOUNT_ATTR_NOSYMFOLLOW != 0 {
        names.push("nosymfollow");
    }
    if bits & libc::MOUNT_ATTR_IDMAP != 0 {
        names.push("idmapped");
    }
    names.into_iter().map(str::to_owned).collect()
}

/// Refuses options that a tmpfs of a plugin may not have.
pub fn check_tmpfs(options: &[FsOption]) -> Result<()> {
    check("tmpfs", &TMPFS_VALUES, &TMPFS_FLAGS, options)
}

/// Refuses options that a hugetlbfs of a plugin may not have.
pub fn check_huge_pages(options: &[FsOption]) -> Result<()> {
    check("hugetlbfs", &HUGE_PAGES_VALUES, &[], options)
}

fn check(subject: &str, values: &[&str], flags: &[&str], options: &[FsOption]) -> Result<()> {
    for option in options {
        let key = option.key.as_str();
        let reason = if values.contains(&key) {
            match &option.value {
                None => "it needs a value".to_owned(),
                Some(value) if value.contains(['\0', ',']) => {
                    "its value has a character that is not allowed".to_owned()
                }
                Some(_) => continue,
            }
        } else if flags.contains(&key) {
            if option.value.is_none() {
                continue;
            }
            "it is a flag and takes no value".to_owned()
        } else {
            let known: Vec<&str> = values.iter().chain(flags).copied().collect();
            format!("no such option; there are {}", known.join(", "))
        };
        return Err(KernelError::InvalidOption { subject: subject.to_owned(), option: option.key.clone(), reason });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_access_time_mode_counts() {
        let both = attributes("x", &["noatime", "strictatime", "ro"]).unwrap();
        assert_eq!(both.set & libc::MOUNT_ATTR__ATIME, libc::MOUNT_ATTR_STRICTATIME);
        assert_eq!(both.clear, libc::MOUNT_ATTR__ATIME);
        assert_eq!(option_names(both.set), ["ro"]);
    }

    #[test]
    fn an_unknown_option_is_named() {
        let error = attributes("the volume", &["ro", "frozen"]).unwrap_err();
        assert!(error.to_string().starts_with("option \"frozen\" of the volume"), "{error}");
    }

    #[test]
    fn tmpfs_takes_only_its_own_options() {
        assert!(check_tmpfs(&[FsOption::new("size", "1m"), FsOption::flag("noswap")]).is_ok());
        for bad in [FsOption::flag("size"), FsOption::new("noswap", "1"), FsOption::new("mpol", "bind:0")] {
            assert!(matches!(check_tmpfs(&[bad]), Err(KernelError::InvalidOption { .. })));
        }
    }

    #[test]
    fn huge_pages_are_never_reserved() {
        assert!(check_huge_pages(&[FsOption::new("pagesize", "2m"), FsOption::new("size", "4m")]).is_ok());
        for bad in [FsOption::new("min_size", "2m"), FsOption::flag("noswap"), FsOption::flag("pagesize")] {
            assert!(matches!(check_huge_pages(&[bad]), Err(KernelError::InvalidOption { .. })));
        }
    }
}
