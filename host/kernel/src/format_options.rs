//! How a file system is made: typed options, from which the host writes the command line of mkfs.
//! No text of a caller becomes an argument as it is: numbers are numbers, features come from a list
//! for each type, and nothing names a file.

use std::collections::BTreeMap;

use thiserror::Error;

use crate::error::{KernelError, Result};

/// How a file system is made. What is left out is as the type's mkfs does it, but for
/// `reserved_percent` of ext3 and ext4, which is 0.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FormatOptions {
    /// The label: at most 16 bytes for ext, 12 for XFS, 255 for btrfs.
    pub label: Option<String>,
    /// The UUID, in its usual form: `8-4-4-4-12` hexadecimal digits.
    pub uuid: Option<String>,
    /// Bytes of a block, a power of two: 1,024 to 65,536 for ext and XFS; for btrfs, which calls it
    /// a sector, 4,096 to 65,536.
    pub block_size: Option<u32>,
    /// Bytes of an inode, a power of two: 128 to 4,096 for ext, 256 to 2,048 for XFS; not for
    /// btrfs.
    pub inode_size: Option<u32>,
    /// One inode for so many bytes, 1,024 to 67,108,864. For ext.
    pub bytes_per_inode: Option<u32>,
    /// How much is kept for root, in per cent, at most 50. For ext.
    pub reserved_percent: Option<u32>,
    /// Features by their names in mkfs, turned on or off. Each type has a list of those that may be
    /// named.
    pub features: BTreeMap<String, bool>,
    /// Discards nothing on the device, which would give back the room that is reserved below it.
    pub keep_room: bool,
}

/// File systems that take the same options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OptionFamily {
    Ext,
    Xfs,
    Btrfs,
}

/// Why an option is refused.
#[derive(Debug, Error)]
enum OptionError {
    #[error("it has {bytes} bytes, and at most {most} fit")]
    LabelTooLong { bytes: usize, most: usize },
    #[error("it is empty, or has a control character")]
    LabelNotText,
    #[error("it is not 8-4-4-4-12 hexadecimal digits")]
    NotAUuid,
    #[error("{value} is no power of two between {least} and {most}")]
    NotAPowerOfTwo { value: u32, least: u32, most: u32 },
    #[error("{value} is not between {least} and {most}")]
    OutOfBounds { value: u32, least: u32, most: u32 },
    #[error("btrfs has no inodes of a fixed size")]
    NoInodeSize,
    #[error("only ext2, ext3 and ext4 have it")]
    OnlyExt,
    #[error("no such feature; there are {}", .known.join(", "))]
    UnknownFeature { known: Vec<&'static str> },
}

/// The smallest and largest block that Linux knows on any processor, in bytes.
const BLOCK_BYTES: (u32, u32) = (1 << 10, 64 << 10);
/// How many bytes there may be for each inode: mke2fs(8) takes no more and no less.
const BYTES_PER_INODE: (u32, u32) = (1 << 10, 64 << 20);
/// mke2fs(8) keeps no more than half of a file system for root.
const MOST_RESERVED_PERCENT: u32 = 50;

/// Features of ext, by `mke2fs -O`. Left out: what needs another device (`journal_dev`), what a
/// running kernel does not mount without more (`encrypt`, `verity`, `casefold`), and what is an
/// experiment (`bigalloc`).
const EXT_FEATURES: &[&str] = &[
    "64bit",
    "dir_index",
    "dir_nlink",
    "extent",
    "extra_isize",
    "flex_bg",
    "has_journal",
    "huge_file",
    "inline_data",
    "large_dir",
    "large_file",
    "metadata_csum",
    "metadata_csum_seed",
    "orphan_file",
    "project",
    "quota",
    "sparse_super",
    "sparse_super2",
    "uninit_bg",
];
/// Features that mke2fs takes as extended options (`-E`), 0 or 1.
const EXT_LAZY: &[&str] = &["lazy_itable_init", "lazy_journal_init"];
/// Features of XFS, with the option of mkfs.xfs(8) that takes each.
const XFS_FEATURES: &[(&str, &str)] = &[
    ("bigtime", "-m"),
    ("crc", "-m"),
    ("finobt", "-m"),
    ("inobtcount", "-m"),
    ("nrext64", "-i"),
    ("reflink", "-m"),
    ("rmapbt", "-m"),
    ("sparse", "-i"),
];
/// Features of btrfs, by `mkfs.btrfs -O`. Left out: those that need several devices or that the
/// kernel calls unstable.
const BTRFS_FEATURES: &[&str] =
    &["block-group-tree", "extref", "free-space-tree", "no-holes", "quota", "skinny-metadata", "squota"];

impl FormatOptions {
    /// The arguments for the type's mkfs, the device not among them.
    ///
    /// # Errors
    /// `InvalidOption`; `FilesystemError::Unsupported` is the caller's.
    pub fn arguments(&self, fs_type: &str) -> Result<Vec<String>> {
        let family = match fs_type {
            "xfs" => OptionFamily::Xfs,
            "btrfs" => OptionFamily::Btrfs,
            _ => OptionFamily::Ext,
        };
        let invalid = |option: &str, error: OptionError| KernelError::InvalidOption {
            subject: format!("mkfs.{fs_type}"),
            option: option.to_owned(),
            reason: error.to_string(),
        };
        let mut words = MkfsArguments::default();
        // Quiet: a kill of volhost closes the pipe of the program's output, and a program that
        // writes to it would end with a half-made file system.
        words.flag("-q");
        // Forced, for a whole disk makes mke2fs ask. XFS and btrfs refuse by themselves what they
        // recognise.
        if family == OptionFamily::Ext {
            words.flag("-F");
        }
        if let Some(label) = &self.label {
            check_label(family, label).map_err(|error| invalid("label", error))?;
            words.pair("-L", label.clone());
        }
        if let Some(uuid) = &self.uuid {
            check_uuid(uuid).map_err(|error| invalid("uuid", error))?;
            match family {
                OptionFamily::Xfs => words.pair("-m", format!("uuid={uuid}")),
                OptionFamily::Ext | OptionFamily::Btrfs => words.pair("-U", uuid.clone()),
            }
        }
        if let Some(bytes) = self.block_size {
            let least = if family == OptionFamily::Btrfs { 4 << 10 } else { BLOCK_BYTES.0 };
            check_power(bytes, (least, BLOCK_BYTES.1)).map_err(|error| invalid("block size", error))?;
            match family {
                OptionFamily::Ext => words.pair("-b", bytes.to_string()),
                OptionFamily::Xfs => words.pair("-b", format!("size={bytes}")),
                OptionFamily::Btrfs => words.pair("-s", bytes.to_string()),
            }
        }
        if let Some(bytes) = self.inode_size {
            let bounds = match family {
                OptionFamily::Ext => (128, 4 << 10),
                OptionFamily::Xfs => (256, 2 << 10),
                OptionFamily::Btrfs => return Err(invalid("inode size", OptionError::NoInodeSize)),
            };
            check_power(bytes, bounds).map_err(|error| invalid("inode size", error))?;
            match family {
                OptionFamily::Xfs => words.pair("-i", format!("size={bytes}")),
                OptionFamily::Ext | OptionFamily::Btrfs => words.pair("-I", bytes.to_string()),
            }
        }
        for (name, value, (least, most), flag) in [
            ("bytes per inode", self.bytes_per_inode, BYTES_PER_INODE, "-i"),
            ("reserved percent", self.reserved_percent, (0, MOST_RESERVED_PERCENT), "-m"),
        ] {
            let Some(value) = value else { continue };
            if family != OptionFamily::Ext {
                return Err(invalid(name, OptionError::OnlyExt));
            }
            if !(least..=most).contains(&value) {
                return Err(invalid(name, OptionError::OutOfBounds { value, least, most }));
            }
            words.pair(flag, value.to_string());
        }
        if matches!(fs_type, "ext3" | "ext4") && self.reserved_percent.is_none() {
            // As the kubelet has it: a volume's blocks are the pods', root's processes have none of
            // them.
            words.pair("-m", "0".to_owned());
        }
        for (name, on) in &self.features {
            self.feature(family, name, *on, &mut words).map_err(|error| invalid(&shown(name), error))?;
        }
        if self.keep_room {
            match family {
                OptionFamily::Ext => words.extended.push("nodiscard".to_owned()),
                OptionFamily::Xfs | OptionFamily::Btrfs => words.flag("-K"),
            }
        }
        Ok(words.all())
    }

    fn feature(
        &self,
        family: OptionFamily,
        name: &str,
        on: bool,
        words: &mut MkfsArguments,
    ) -> std::result::Result<(), OptionError> {
        let unknown = |known: Vec<&'static str>| Err(OptionError::UnknownFeature { known });
        match family {
            OptionFamily::Ext if EXT_LAZY.contains(&name) => words.extended.push(format!("{name}={}", u8::from(on))),
            OptionFamily::Ext if EXT_FEATURES.contains(&name) => words.features.push(turned(name, on)),
            OptionFamily::Ext => return unknown(EXT_FEATURES.iter().chain(EXT_LAZY).copied().collect()),
            OptionFamily::Xfs => match XFS_FEATURES.iter().find(|(known, _)| *known == name) {
                Some((_, option)) => words.pair(option, format!("{name}={}", u8::from(on))),
                None => return unknown(XFS_FEATURES.iter().map(|(name, _)| *name).collect()),
            },
            OptionFamily::Btrfs if BTRFS_FEATURES.contains(&name) => words.features.push(turned(name, on)),
            OptionFamily::Btrfs => return unknown(BTRFS_FEATURES.to_vec()),
        }
        Ok(())
    }
}

/// A command line that grows.
#[derive(Default)]
struct MkfsArguments {
    arguments: Vec<String>,
    /// For `-O`.
    features: Vec<String>,
    /// For `-E`.
    extended: Vec<String>,
}

impl MkfsArguments {
    fn flag(&mut self, flag: &str) {
        self.arguments.push(flag.to_owned());
    }

    fn pair(&mut self, flag: &str, value: String) {
        self.arguments.extend([flag.to_owned(), value]);
    }

    fn all(mut self) -> Vec<String> {
        for (flag, list) in [("-O", std::mem::take(&mut self.features)), ("-E", std::mem::take(&mut self.extended))] {
            if !list.is_empty() {
                self.pair(flag, list.join(","));
            }
        }
        self.arguments
    }
}

/// A feature for a list: `^` turns it off.
fn turned(name: &str, on: bool) -> String {
    if on { name.to_owned() } else { format!("^{name}") }
}

fn check_label(family: OptionFamily, label: &str) -> std::result::Result<(), OptionError> {
    let most = match family {
        OptionFamily::Ext => 16,
        OptionFamily::Xfs => 12,
        OptionFamily::Btrfs => 255,
    };
    if label.len() > most {
        return Err(OptionError::LabelTooLong { bytes: label.len(), most });
    }
    if label.is_empty() || label.chars().any(char::is_control) {
        return Err(OptionError::LabelNotText);
    }
    Ok(())
}

fn check_uuid(uuid: &str) -> std::result::Result<(), OptionError> {
    const GROUPS: [usize; 5] = [8, 4, 4, 4, 12];
    let groups: Vec<&str> = uuid.split('-').collect();
    let fits =
        |(group, length): (&&str, &usize)| group.len() == *length && group.bytes().all(|byte| byte.is_ascii_hexdigit());
    if groups.len() == GROUPS.len() && groups.iter().zip(&GROUPS).all(fits) {
        return Ok(());
    }
    Err(OptionError::NotAUuid)
}

fn check_power(bytes: u32, (least, most): (u32, u32)) -> std::result::Result<(), OptionError> {
    if bytes.is_power_of_two() && (least..=most).contains(&bytes) {
        return Ok(());
    }
    Err(OptionError::NotAPowerOfTwo { value: bytes, least, most })
}

/// A foreign name as a message shows it: its beginning, without what could disturb a terminal.
fn shown(name: &str) -> String {
    const SHOWN_CHARS: usize = 40;
    name.chars().take(SHOWN_CHARS).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(options: &FormatOptions, fs_type: &str) -> String {
        options.arguments(fs_type).unwrap().join(" ")
    }

    #[test]
    fn nothing_asked_for_is_what_the_kubelet_does() {
        let none = FormatOptions::default();
        assert_eq!(words(&none, "ext2"), "-q -F");
        assert_eq!(words(&none, "ext4"), "-q -F -m 0");
        assert_eq!((words(&none, "xfs").as_str(), words(&none, "btrfs").as_str()), ("-q", "-q"));
    }

    #[test]
    fn each_type_gets_its_own_words() {
        let uuid = "01234567-89ab-cdef-0123-456789abcdef";
        let options = FormatOptions {
            label: Some("data".to_owned()),
            uuid: Some(uuid.to_owned()),
            block_size: Some(4096),
            inode_size: Some(512),
            bytes_per_inode: Some(8192),
            reserved_percent: Some(1),
            features: [("metadata_csum", true), ("quota", false), ("lazy_itable_init", false)]
                .map(|(name, on)| (name.to_owned(), on))
                .into(),
            keep_room: true,
        };
        assert_eq!(
            words(&options, "ext4"),
            format!(
                "-q -F -L data -U {uuid} -b 4096 -I 512 -i 8192 -m 1 -O metadata_csum,^quota -E lazy_itable_init=0,nodiscard"
            )
        );
        let options = FormatOptions {
            bytes_per_inode: None,
            reserved_percent: None,
            features: [("reflink", false), ("sparse", true)].map(|(name, on)| (name.to_owned(), on)).into(),
            ..options
        };
        assert_eq!(
            words(&options, "xfs"),
            format!("-q -L data -m uuid={uuid} -b size=4096 -i size=512 -m reflink=0 -i sparse=1 -K")
        );
        let options = FormatOptions { inode_size: None, features: [("no-holes".to_owned(), false)].into(), ..options };
        assert_eq!(words(&options, "btrfs"), format!("-q -L data -U {uuid} -s 4096 -K -O ^no-holes"));
    }

    #[test]
    fn a_program_that_makes_a_file_system_writes_nothing_to_its_output() {
        const BYTES: u64 = 320 << 20;
        // mkfs.btrfs writes a note, and only when it exits.
        for fs_type in ["ext2", "ext3", "ext4", "xfs"] {
            let image = tempfile::NamedTempFile::new().unwrap();
            image.as_file().set_len(BYTES).unwrap();
            let mut mkfs = std::process::Command::new(format!("/usr/sbin/mkfs.{fs_type}"));
            let words = FormatOptions::default().arguments(fs_type).unwrap();
            let made = mkfs.args(words).arg("--").arg(image.path()).output().unwrap();
            let said = [made.stdout, made.stderr].concat();
            assert!(made.status.success() && said.is_empty(), "{fs_type}: {}", String::from_utf8_lossy(&said));
        }
    }

    #[test]
    fn what_could_be_another_option_or_a_path_is_refused() {
        let label = |label: &str| FormatOptions { label: Some(label.to_owned()), ..FormatOptions::default() };
        let uuid = |uuid: &str| FormatOptions { uuid: Some(uuid.to_owned()), ..FormatOptions::default() };
        let feature =
            |name: &str| FormatOptions { features: [(name.to_owned(), true)].into(), ..FormatOptions::default() };
        for bad in [
            label(""),
            label("a\nb"),
            label("a\0"),
            label(&"x".repeat(256)),
            uuid("random"),
            uuid("01234567-89ab-cdef-0123-456789abcde,"),
            feature("journal_dev"),
            feature("quota,root_selinux"),
            feature("-d"),
            feature("/etc"),
            feature(""),
            feature("file=/etc/passwd"),
            FormatOptions { block_size: Some(7), ..FormatOptions::default() },
            FormatOptions { block_size: Some(1 << 20), ..FormatOptions::default() },
            FormatOptions { inode_size: Some(1 << 20), ..FormatOptions::default() },
            FormatOptions { reserved_percent: Some(51), ..FormatOptions::default() },
            FormatOptions { bytes_per_inode: Some(1), ..FormatOptions::default() },
        ] {
            for fs_type in ["ext2", "ext3", "ext4", "xfs", "btrfs"] {
                let error = bad.arguments(fs_type).unwrap_err();
                assert!(matches!(error, KernelError::InvalidOption { .. }), "{fs_type} {bad:?}: {error:?}");
            }
        }
    }
}
