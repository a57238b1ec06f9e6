//! SELinux labels of volumes: what `seLinuxOptions` of a container mean for the files that it uses.

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// `seLinuxOptions` of a pod or a container, as they were written; empty where nothing was.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SelinuxOptions {
    /// `user`.
    pub user: String,
    /// `role`, which is the process's alone.
    pub role: String,
    /// `type`, which is the process's alone.
    pub process_type: String,
    /// `level`, with its categories.
    pub level: String,
}

/// `seLinuxChangePolicy` of a pod: how its volumes get their label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SelinuxChangePolicy {
    /// By an option of the mount, where the volume can have one.
    MountOption,
    /// File by file, by the container runtime.
    Recursive,
}

/// Why a part of a label was refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0:?} is no part of an SELinux label; letters, digits, `_`, `.`, `-`, and for a level `:` and `,` make one")]
pub struct LabelError(String);

impl SelinuxOptions {
    /// Checks every part: a label becomes an option of a mount, and must not become two.
    ///
    /// # Errors
    /// The field, and what is wrong with it.
    pub fn check(&self) -> Result<(), (&'static str, LabelError)> {
        let plain = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c));
        let level = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || "_.-:,".contains(c));
        let parts = [
            ("user", &self.user, plain(&self.user)),
            ("role", &self.role, plain(&self.role)),
            ("type", &self.process_type, plain(&self.process_type)),
            ("level", &self.level, level(&self.level)),
        ];
        match parts.into_iter().find(|(_, _, good)| !good) {
            Some((field, text, _)) => Err((field, LabelError(text.chars().take(64).collect()))),
            None => Ok(()),
        }
    }

    /// The label of files that a container with these options can use, where those of containers
    /// have `context` by default (`system_u:object_r:container_file_t:s0`). User and level are the
    /// container's; role and type are the files'. None without a level: then the container runtime
    /// chooses one, and it is not known before.
    pub fn file_label(&self, context: &str) -> Option<String> {
        if self.level.is_empty() {
            return None;
        }
        let mut parts = context.splitn(4, ':');
        let (user, role, kind) = (parts.next()?, parts.next()?, parts.next()?);
        let user = if self.user.is_empty() { user } else { &self.user };
        Some(format!("{user}:{role}:{kind}:{}", self.level))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONTEXT: &str = "system_u:object_r:container_file_t:s0";

    fn options(user: &str, process_type: &str, level: &str) -> SelinuxOptions {
        SelinuxOptions {
            user: user.into(),
            role: "system_r".into(),
            process_type: process_type.into(),
            level: level.into(),
        }
    }

    #[test]
    fn user_and_level_are_the_containers_role_and_type_the_files() {
        let full = options("me_u", "spc_t", "s0:c1,c2").file_label(CONTEXT);
        assert_eq!(full.as_deref(), Some("me_u:object_r:container_file_t:s0:c1,c2"));
        let partial = options("", "", "s0:c3").file_label("sys_u:object_r:svirt_t:s0");
        assert_eq!(partial.as_deref(), Some("sys_u:object_r:svirt_t:s0:c3"));
        assert_eq!(options("me_u", "container_t", "").file_label(CONTEXT), None, "the level is not known yet");
    }

    #[test]
    fn what_could_become_another_option_is_no_label() {
        assert_eq!(options("u", "t", "s0-s0:c0.c1023").check(), Ok(()));
        for (bad, field) in [
            (options("a,b", "", ""), "user"),
            (options("a:b", "", ""), "user"),
            (options("", "x\"", ""), "type"),
            (options("", "", "s0\",bind"), "level"),
            (options("", "", "s0\n"), "level"),
            (options("", "", "s0 x"), "level"),
        ] {
            assert_eq!(bad.check().unwrap_err().0, field, "{bad:?}");
        }
    }
}
