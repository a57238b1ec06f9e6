//! Files in memory for secrets: without a name, readable by one user, unchangeable, gone with their
//! last descriptor.

use std::io::{self, Write};
use std::os::fd::OwnedFd;

use rustix::fs::{Gid, MemfdFlags, Mode, SealFlags, Uid};

/// A file with this content, for this user.
pub(crate) fn file_of(bytes: &[u8], user: u32, group: u32) -> io::Result<OwnedFd> {
    let fd = rustix::fs::memfd_create("secret", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    let mut file = std::fs::File::from(fd);
    file.write_all(bytes)?;
    // Programs that read keys refuse files that other users can read.
    rustix::fs::fchmod(&file, Mode::RUSR)?;
    rustix::fs::fchown(&file, Some(Uid::from_raw(user)), Some(Gid::from_raw(group)))?;
    rustix::fs::fcntl_add_seals(&file, SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE)?;
    Ok(file.into())
}

/// Replaces secrets in a text: whole, and line by line.
pub(crate) fn redact(text: &str, secrets: &[volhost_model::objects::Bytes]) -> String {
    let mut text = text.to_owned();
    for secret in secrets {
        let Ok(secret) = std::str::from_utf8(secret) else { continue };
        let mut parts: Vec<&str> = std::iter::once(secret).chain(secret.lines()).map(str::trim).collect();
        parts.sort_by_key(|part| std::cmp::Reverse(part.len()));
        for part in parts.into_iter().filter(|part| part.len() >= SHORTEST) {
            text = text.replace(part, "(secret)");
        }
    }
    text
}

/// The shortest secret that is replaced, in bytes: a shorter one is part of many words.
const SHORTEST: usize = 4;

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn a_secret_is_its_users_and_cannot_be_changed() {
        let fd = file_of(b"hunter2", 65534, 65534).unwrap();
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&fd));
        let mut text = String::new();
        std::fs::File::open(&path).unwrap().read_to_string(&mut text).unwrap();
        let found = std::fs::metadata(&path).unwrap();
        assert_eq!((text.as_str(), found.mode() & 0o777, found.uid()), ("hunter2", 0o400, 65534));
        let error = std::fs::write(&path, "other").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{error}");
    }

    #[test]
    fn no_line_of_a_secret_is_repeated() {
        let key: volhost_model::objects::Bytes = b"-----BEGIN\nabcdefg\n"[..].into();
        let said = redact("bad key abcdefg in -----BEGIN\nabcdefg", &[key]);
        assert!(!said.contains("abcdefg") && said.starts_with("bad key"), "{said}");
    }
}
