//! SELinux labels of volumes: what `seLinuxOptions` of a container mean for the files that it uses.

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// How much of a wrong label a message shows, in characters.
const SHOWN: usize = 64;

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
            Some((field, text, _)) => Err((field, LabelError(text.chars().take(SHOWN).collect()))),
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

/// Why the label of a mount option was refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0:?} is no SELinux label: user:role:type, or user:role:type:level")]
pub struct ContextError(String);

/// The label of an option `context="LABEL"`, which is how a CSI driver gets it from kubelets; none
/// for any other option. The quotation marks may be missing.
///
/// # Errors
/// [`ContextError`].
pub fn label_of_option(option: &str) -> Option<Result<&str, ContextError>> {
    let value = option.strip_prefix("context=")?;
    let label = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(value);
    let is_plain =
        |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c));
    let is_level =
        |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "_.-:,".contains(c));
    let mut parts = label.splitn(4, ':');
    let is_context = (0..3).all(|_| parts.next().is_some_and(is_plain)) && parts.next().is_none_or(is_level);
    Some(if is_context { Ok(label) } else { Err(ContextError(label.chars().take(SHOWN).collect())) })
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

    #[test]
    fn the_label_of_an_option_is_one_label_and_nothing_else() {
        for label in ["system_u:object_r:container_file_t:s0:c1,c2", "u:r:t:s0-s0:c0.c1023", "u:r:t"] {
            assert_eq!(label_of_option(&format!("context=\"{label}\"")), Some(Ok(label)));
            assert_eq!(label_of_option(&format!("context={label}")), Some(Ok(label)));
        }
        for other in ["noatime", "fscontext=u:r:t", "contexts=u:r:t", "ro,context=u:r:t", "context"] {
            assert_eq!(label_of_option(other), None, "{other}");
        }
        for wrong in [
            "",
            "\"\"",
            "u:r",
            "u:r:",
            ":r:t",
            "u:r:t:",
            "u:r:t:s0\",bind=\"x",
            "\"u:r:t",
            "u:r:t s0",
            "u,x:r:t",
            "u:r:t\n",
        ] {
            assert!(matches!(label_of_option(&format!("context={wrong}")), Some(Err(_))), "{wrong:?}");
        }
    }
}
