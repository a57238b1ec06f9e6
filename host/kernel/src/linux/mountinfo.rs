//! `/proc/PID/mountinfo`, parsed. Pure: bytes in, mounts out.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use crate::types::{MountId, MountInfo};

/// Undoes the octal escapes (`\040`) by which the kernel keeps blanks and line ends out of a field.
pub(super) fn unescape(field: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, tail)) = rest.split_first() {
        if first == b'\\'
            && let Some((digits, after)) = tail.split_at_checked(3)
            && let Some(byte) = octal(digits)
        {
            plain.push(byte);
            rest = after;
        } else {
            plain.push(first);
            rest = tail;
        }
    }
    plain
}

fn octal(digits: &[u8]) -> Option<u8> {
    digits.iter().try_fold(0_u8, |value, digit| match digit {
        b'0'..=b'7' => value.checked_mul(8)?.checked_add(digit - b'0'),
        _ => None,
    })
}

/// A list of options as the kernel joins them.
pub(super) fn split_options(list: &[u8]) -> impl Iterator<Item = String> {
    list.split(|byte| *byte == b',')
        .filter(|option| !option.is_empty())
        .map(|option| String::from_utf8_lossy(&unescape(option)).into_owned())
}

/// All mounts, with absolute mount points; a line of no known form is left out.
pub(super) fn parse(text: &[u8]) -> Vec<MountInfo> {
    text.split(|byte| *byte == b'\n').filter_map(parse_line).collect()
}

fn parse_line(line: &[u8]) -> Option<MountInfo> {
    // id parent major:minor root point options [tag...] - type source options
    let mut fields = line.split(|byte| *byte == b' ');
    let id = number(fields.next()?)?;
    let parent = number(fields.next()?)?;
    let device = device(fields.next()?)?;
    let root = path(fields.next()?);
    let point = path(fields.next()?);
    let mount_options = fields.next()?;
    fields.find(|field| *field == b"-")?;
    let fs_type = String::from_utf8_lossy(&unescape(fields.next()?)).into_owned();
    let source = OsString::from_vec(unescape(fields.next()?));
    let fs_options = fields.next()?;

    let mut options: Vec<String> = split_options(mount_options).collect();
    let mut read_only = options.iter().any(|option| option == "ro");
    for option in split_options(fs_options) {
        match option.as_str() {
            "rw" => {}
            "ro" => read_only = true,
            _ => options.push(option),
        }
    }
    let (id, parent) = (MountId(id), MountId(parent));
    Some(MountInfo { id, parent, point, device, fs_type, source, root, options, read_only })
}

/// Whether new mounts below the mount of this id travel to other mount namespaces.
pub(super) fn is_shared(text: &[u8], id: u64) -> bool {
    text.split(|byte| *byte == b'\n').any(|line| {
        let mut fields = line.split(|byte| *byte == b' ');
        let is_it = fields.next().and_then(number) == Some(id);
        // Five fields, then tags up to a dash.
        is_it && fields.skip(5).take_while(|field| *field != b"-").any(|tag| tag.starts_with(b"shared:"))
    })
}

fn device(field: &[u8]) -> Option<(u32, u32)> {
    let (major, minor) = std::str::from_utf8(field).ok()?.split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

fn number(field: &[u8]) -> Option<u64> {
    std::str::from_utf8(field).ok()?.parse().ok()
}

fn path(field: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(&unescape(field)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_newlines_and_backslashes_come_back() {
        assert_eq!(unescape(br"a\040b\011c\012d\134e\043"), b"a b\tc\nd\\e#");
        assert_eq!(unescape(br"end\04"), br"end\04");
        assert_eq!(unescape(br"not\999octal\777"), br"not\999octal\777");
    }

    #[test]
    fn a_line_with_tags_and_options_is_understood() {
        let line =
            br"36 35 98:0 /sub\040dir /mnt/a\012b rw,noatime shared:1 master:7 - ext4 /dev/sd\134a ro,errors=continue
";
        let mounts = parse(line);
        let [mount] = mounts.as_slice() else { panic!("one mount") };
        assert_eq!((mount.id, mount.parent), (MountId(36), MountId(35)));
        assert_eq!(mount.root, PathBuf::from("/sub dir"));
        assert_eq!(mount.point, PathBuf::from("/mnt/a\nb"));
        assert_eq!(mount.source, r"/dev/sd\a");
        assert_eq!(mount.options, ["rw", "noatime", "errors=continue"]);
        assert!(mount.read_only, "the file system is read-only, so the mount is");
    }

    #[test]
    fn a_tag_says_whether_a_mount_is_shared() {
        let text = b"36 35 98:0 / /shared:1 rw master:7 - ext4 shared:2 rw\n37 35 98:0 / /b rw,noatime master:1 shared:9 - ext4 /dev/sda rw\n";
        assert!(!is_shared(text, 36), "neither the mount point nor the source is a tag");
        assert!(is_shared(text, 37));
        assert!(!is_shared(text, 38));
    }

    #[test]
    fn an_empty_source_and_a_broken_line_do_no_harm() {
        let text = b"garbage\n1 0 0:1 / / rw - rootfs  rw\n\n7 x 0:1 / / rw - a b c\n";
        let mounts = parse(text);
        assert_eq!(mounts.len(), 1);
        assert_eq!(mounts.first().unwrap().source, "");
    }
}
