//! Finds whether a file is being written. A read lease is granted only while no process has the
//! file open for writing: fcntl(2), "Leases".

use std::os::fd::AsFd;

use rustix::io::Errno;

use super::syscall::{set_lease, set_lease_signal};

/// Returns whether any process has the file open for writing; it must be open for reading only.
/// None where that cannot be found: the file system has no leases, or the file belongs to another
/// user.
///
/// # Guarantees
/// No lease is left. A process that opens the file meanwhile waits for some microseconds at the
/// most, and the signal that announces it is one that is ignored unless a program handles it.
pub fn is_being_written(file: impl AsFd) -> Option<bool> {
    let file = file.as_fd();
    // The signal that comes with a lease otherwise ends the process.
    set_lease_signal(file, libc::SIGURG).ok()?;
    match set_lease(file, libc::F_RDLCK) {
        // Closing the file ends the lease, should this fail.
        Ok(()) => set_lease(file, libc::F_UNLCK).map_or(Some(false), |()| Some(false)),
        Err(Errno::AGAIN) => Some(true),
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn a_file_is_being_written_while_it_is_open_for_writing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let writer = File::create(&path).unwrap();
        let reader = File::open(&path).unwrap();
        assert_eq!(is_being_written(&reader), Some(true));
        drop(writer);
        assert_eq!(is_being_written(&reader), Some(false));
        // No lease is left that a writer would have to wait for.
        drop(File::options().append(true).open(&path).unwrap());
        assert_eq!(is_being_written(&reader), Some(false));
    }
}
