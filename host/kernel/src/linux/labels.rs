//! SELinux: whether the kernel has it, and what its policy says of containers' files.

use std::path::Path;

use rustix::fs::{StatVfsMountFlags, statfs, statvfs};
use rustix::io::Errno;

use super::LinuxKernel;
use crate::error::{KernelError, Result};
use crate::labels::Labels;
use crate::step::Step;

/// Where the kernel shows SELinux, and the magic number of that file system.
const SELINUX: &str = "/sys/fs/selinux";
const SELINUX_MAGIC: i64 = 0xf97c_ff8c;
/// Which policy is loaded, and where that keeps the labels of containers.
const CONFIG: &str = "/etc/selinux/config";
/// What the policies of the distributions say.
const DEFAULT: &str = "system_u:object_r:container_file_t:s0";

impl Labels for LinuxKernel {
    fn container_file_label(&self) -> Result<Option<String>> {
        let failed = |errno| KernelError::failed(Step::ReadPolicy, SELINUX, errno);
        match statfs(SELINUX) {
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(failed(errno)),
            Ok(found) if i128::from(found.f_type) != i128::from(SELINUX_MAGIC) => return Ok(None),
            Ok(_) => {}
        }
        // Read-only in a container of a host with SELinux: for what runs there it is off.
        if statvfs(SELINUX).map_err(failed)?.f_flag.contains(StatVfsMountFlags::RDONLY) {
            return Ok(None);
        }
        let Some(config) = text_of(CONFIG)? else { return Ok(Some(DEFAULT.to_owned())) };
        let policy = value_of(&config, "SELINUXTYPE").unwrap_or("targeted");
        let contexts = Path::new("/etc/selinux").join(policy).join("contexts/lxc_contexts");
        let contexts = text_of(&contexts.to_string_lossy())?;
        let label = contexts.as_deref().and_then(|contexts| value_of(contexts, "file"));
        Ok(Some(label.unwrap_or(DEFAULT).to_owned()))
    }
}

fn text_of(path: &str) -> Result<Option<String>> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => {
            let errno = error.raw_os_error().map_or(Errno::ILSEQ, Errno::from_raw_os_error);
            Err(KernelError::failed(Step::ReadPolicy, path, errno))
        }
    }
}

/// The value of the last line `key = value`, without quotation marks.
fn value_of<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let mut pairs = text.lines().filter_map(|line| line.trim().split_once('='));
    let found = pairs.rfind(|(name, _)| name.trim() == key);
    found.map(|(_, value)| value.trim().trim_matches('"')).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::value_of;

    #[test]
    fn a_policys_files_are_read_as_libselinux_reads_them() {
        let text =
            "# file = \"no\"\nprocess = \"system_u:system_r:container_t:s0\"\nfile = \"system_u:object_r:x_t:s0\"\n";
        assert_eq!(value_of(text, "file"), Some("system_u:object_r:x_t:s0"));
        assert_eq!(value_of("SELINUX=enforcing\nSELINUXTYPE=mls\n", "SELINUXTYPE"), Some("mls"));
        assert_eq!(value_of("SELINUXTYPE=\n", "SELINUXTYPE"), None);
    }
}
