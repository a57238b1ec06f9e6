//! `spec.mountOptions` of a PersistentVolume: which of them a volume may ask for at all.
//!
//! Options end up in one text with commas between them, or in calls of the kernel, one by one.
//! Either way an option must be one option, and must not say what is the host's to say: what is
//! mounted, where, how mounts are tied to each other, and under which label.

use thiserror::Error;

/// The limit of all options of a volume, in bytes, with the commas between them: mount(2) takes one
/// page.
pub const MAX_BYTES: usize = 4095;
/// How much of a wrong option a message shows, in characters.
const SHOWN: usize = 64;

/// The security label of everything in the volume: it comes from the pod.
const LABEL: [&str; 5] = ["context", "fscontext", "defcontext", "rootcontext", "seclabel"];
/// Options that select the source, the target or the propagation of a mount.
const OF_THE_HOST: [&str; 19] = [
    "source",
    "bind",
    "rbind",
    "move",
    "remount",
    "loop",
    "offset",
    "sizelimit",
    "encryption",
    "helper",
    "uhelper",
    "private",
    "rprivate",
    "shared",
    "rshared",
    "slave",
    "rslave",
    "unbindable",
    "runbindable",
];
/// Orders to mount(8) itself: to make folders, to set owners.
const OF_MOUNT_PROGRAM: &str = "X-";

/// Why an option was refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum MountOptionError {
    /// Nothing between two commas, or nothing at all.
    #[error("is empty; remove it, or the comma too many")]
    Empty,
    /// A line break, NUL or another control character.
    #[error("{0:?} has a control character; an option is one line of text")]
    Control(String),
    /// A quotation mark could hide a comma.
    #[error("{0:?} has a quotation mark; write the value without, a comma always ends an option")]
    Quote(String),
    /// The label of the volume.
    #[error("{0:?} is the volume's SELinux label, which comes from seLinuxOptions of the pods that use it; remove it")]
    Label(String),
    /// Something that the host decides.
    #[error("{0:?} is for the host to say, not for a volume; remove it")]
    Host(String),
    /// More than one page.
    #[error("has {0} bytes in all; {MAX_BYTES} at most")]
    TooLong(usize),
}

/// Whether the option of this name gives a volume an SELinux label.
#[must_use]
pub fn is_label(key: &str) -> bool {
    LABEL.contains(&key)
}

/// Splits items with several options, separated by commas as in fstab(5).
///
/// # Errors
/// The index of the item that is wrong, and why.
pub fn split(items: &[String]) -> Result<Vec<String>, (usize, MountOptionError)> {
    let mut options = Vec::new();
    let mut length = 0_usize;
    for (index, item) in items.iter().enumerate() {
        for option in item.split(',') {
            // Before blanks are cut off: a line break is one of them.
            let option = check(option).map_err(|error| (index, error))?;
            length = length.saturating_add(option.len()).saturating_add(1);
            options.push(option.to_owned());
        }
        if length > MAX_BYTES + 1 {
            return Err((index, MountOptionError::TooLong(length.saturating_sub(1))));
        }
    }
    Ok(options)
}

fn check(option: &str) -> Result<&str, MountOptionError> {
    let shown = || option.trim().chars().take(SHOWN).collect::<String>();
    if option.chars().any(char::is_control) {
        return Err(MountOptionError::Control(shown()));
    }
    let option = option.trim();
    if option.is_empty() {
        return Err(MountOptionError::Empty);
    }
    let key = option.split_once('=').map_or(option, |(key, _)| key).trim();
    if LABEL.contains(&key) {
        Err(MountOptionError::Label(key.to_owned()))
    } else if OF_THE_HOST.contains(&key) || key.starts_with(OF_MOUNT_PROGRAM) || key.is_empty() {
        Err(MountOptionError::Host(shown()))
    } else if option.contains('"') {
        Err(MountOptionError::Quote(shown()))
    } else {
        Ok(option)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(item: &str) -> MountOptionError {
        let (index, error) = split(&["noatime".to_owned(), item.to_owned()]).unwrap_err();
        assert_eq!(index, 1, "{item}");
        error
    }

    #[test]
    fn every_item_is_taken_apart_at_its_commas() {
        let items = ["hard".to_owned(), "nfsvers=4.1, noatime".to_owned()];
        assert_eq!(split(&items).unwrap(), ["hard", "nfsvers=4.1", "noatime"]);
        assert_eq!(split(&[]), Ok(Vec::new()));
    }

    #[test]
    fn what_would_become_another_option_is_refused() {
        for empty in ["", " ", "a,,b", "a,"] {
            assert_eq!(refused(empty), MountOptionError::Empty, "{empty:?}");
        }
        for control in ["a\nb", "a\0", "a\n", "\tb", "a\u{85}b"] {
            assert!(matches!(refused(control), MountOptionError::Control(_)), "{control:?}");
        }
        assert!(matches!(refused("name=\"a,b\""), MountOptionError::Quote(_)));
    }

    #[test]
    fn what_the_host_decides_is_refused_wherever_it_stands() {
        for label in ["context=\"system_u:object_r:x_t:s0\"", "ro,context=x", " rootcontext = x", "seclabel"] {
            assert!(matches!(refused(label), MountOptionError::Label(_)), "{label}");
        }
        for own in ["bind", "remount", "ro,source=/dev/sda", "rshared", "X-mount.mkdir", "offset=4096", "=x"] {
            assert!(matches!(refused(own), MountOptionError::Host(_)), "{own}");
        }
        assert_eq!(split(&["contexts=x".to_owned(), "x-comment".to_owned()]).unwrap().len(), 2);
    }

    #[test]
    fn a_page_of_options_is_taken_and_no_more() {
        let mut items = vec!["x".repeat(MAX_BYTES)];
        assert_eq!(split(&items).unwrap(), items);
        items.push("y".to_owned());
        let more = split(&items).unwrap_err();
        assert_eq!(more, (1, MountOptionError::TooLong(MAX_BYTES + 2)));
    }
}
