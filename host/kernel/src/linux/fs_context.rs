//! New file systems: `fsopen`, `fsconfig`, `fsmount`, and the log in which the kernel explains a
//! refusal.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;

use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags};

use super::LinuxKernel;
use crate::error::{KernelError, Result};
use crate::handle::DetachedMount;
use crate::options::{check_huge_pages, check_tmpfs};
use crate::step::Step;
use crate::types::FsOption;

/// The longest message of the log, in bytes; the kernel cuts nothing shorter than a page.
const MESSAGE_BYTES: usize = 4096;
/// The file system of huge pages, and its option for the size of a page.
const HUGE_PAGES: &str = "hugetlbfs";
const PAGE_SIZE: &str = "pagesize";
/// The kernel keeps eight messages.
const MAX_MESSAGES: usize = 8;

impl LinuxKernel {
    pub(super) fn new_tmpfs(&self, options: &[FsOption]) -> Result<DetachedMount> {
        check_tmpfs(options)?;
        filesystem("tmpfs", "tmpfs", options)
    }

    pub(super) fn new_huge_pages(&self, options: &[FsOption]) -> Result<DetachedMount> {
        check_huge_pages(options)?;
        // The source that the kubelet gives it.
        filesystem(HUGE_PAGES, "nodev", options).map_err(|error| match error {
            // It says into the machine's log what was wrong, and the caller only that something
            // was.
            KernelError::InvalidOption { option, .. } if option == PAGE_SIZE => lacking_pages(options),
            other => other,
        })
    }
}

/// The error for a size of page that the machine does not have.
fn lacking_pages(options: &[FsOption]) -> KernelError {
    let asked = options.iter().find(|option| option.key == PAGE_SIZE).and_then(|option| option.value.clone());
    let asked = asked.unwrap_or_default();
    let (subject, option) = (HUGE_PAGES.to_owned(), PAGE_SIZE.to_owned());
    if asked.parse::<u64>().is_err() {
        return KernelError::InvalidOption { subject, option, reason: format!("{asked:?} is not a number of bytes") };
    }
    let sizes = std::fs::read_dir("/sys/kernel/mm/hugepages").into_iter().flatten().flatten();
    let mut sizes: Vec<String> = sizes.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    sizes.sort();
    let there = if sizes.is_empty() { "no huge pages at all".to_owned() } else { sizes.join(", ") };
    KernelError::UnsupportedOption { subject, option, reason: format!("no pages of {asked} bytes; there are {there}") }
}

/// A new mount of a file system, unseen until attached.
fn filesystem(fs_type: &str, source: &str, options: &[FsOption]) -> Result<DetachedMount> {
    let failed = |step, errno, detail| KernelError::Failed { step, path: fs_type.to_owned(), errno, detail };
    // A context collects the options, so a wrong one is refused by name before anything is made.
    let context = rustix::mount::fsopen(fs_type, FsOpenFlags::FSOPEN_CLOEXEC)
        .map_err(|errno| failed(Step::CreateFileSystem, errno, String::new()))?;
    rustix::mount::fsconfig_set_string(&context, "source", source)
        .map_err(|errno| failed(Step::ConfigureFileSystem, errno, log(context.as_fd())))?;
    for option in options {
        configure(context.as_fd(), option).map_err(|errno| refused(fs_type, option, errno, log(context.as_fd())))?;
    }
    // A superblock of its own, never one with other options.
    rustix::mount::fsconfig_create(&context)
        .map_err(|errno| failed(Step::CreateFileSystem, errno, log(context.as_fd())))?;
    let mount = rustix::mount::fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())
        .map_err(|errno| failed(Step::CreateFileSystem, errno, log(context.as_fd())))?;
    Ok(DetachedMount { fd: mount, label: PathBuf::from(fs_type) })
}

/// Sets one option of a new file system.
pub(super) fn configure(context: BorrowedFd<'_>, option: &FsOption) -> std::result::Result<(), Errno> {
    match &option.value {
        Some(value) => rustix::mount::fsconfig_set_string(context, option.key.as_str(), value.as_str()),
        None => rustix::mount::fsconfig_set_flag(context, option.key.as_str()),
    }
}

/// Distinguishes an option that the kernel does not have from one whose value it refuses.
pub(super) fn refused(fs_type: &str, option: &FsOption, errno: Errno, said: String) -> KernelError {
    if errno != Errno::INVAL {
        return KernelError::Failed {
            step: Step::ConfigureFileSystem,
            path: format!("{fs_type} option {}", option.key),
            errno,
            detail: said,
        };
    }
    let reason = if said.is_empty() { "the kernel refuses it".to_owned() } else { said };
    let (subject, name) = (fs_type.to_owned(), option.key.clone());
    // A flag has no value that could be wrong.
    if option.value.is_none() || reason.contains("Unknown parameter") || reason.contains("nsupported") {
        KernelError::UnsupportedOption { subject, option: name, reason }
    } else {
        KernelError::InvalidOption { subject, option: name, reason }
    }
}

/// The kernel's own words about what it refused, joined.
pub(super) fn log(context: BorrowedFd<'_>) -> String {
    let mut messages = Vec::new();
    let mut buffer = vec![0_u8; MESSAGE_BYTES];
    for _ in 0..MAX_MESSAGES {
        // One read, one message; ENODATA after the last.
        let Ok(length) = rustix::io::read(context, &mut buffer) else {
            break;
        };
        let Some(message) = buffer.get(..length) else {
            break;
        };
        // `e`, `w` or `i`, a blank, the text.
        let message = String::from_utf8_lossy(message.get(2..).unwrap_or_default());
        messages.push(message.trim_end().to_owned());
    }
    messages.join("; ")
}
