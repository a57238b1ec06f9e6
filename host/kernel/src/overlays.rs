//! Overlays: folders laid on one another, of which only the topmost is ever written.

use crate::error::{KernelError, Result};
use crate::handle::{DetachedMount, MountSource, SourceKind};
use crate::names::text;
use crate::types::FsOption;

/// The folder in an overlay's top for what is written.
pub const UPPER: &str = "upper";
/// The folder in an overlay's top that the kernel works in.
pub const WORK: &str = "work";
/// The name of an upper folder until it has its mode and owner.
pub(crate) const UPPER_IN_THE_MAKING: &str = "upper.new";
/// As many layers as the kernel stacks.
const MAX_LOWERS: usize = 500;

/// The options of an overlay that callers may set, with their values; none for a flag.
const OPTIONS: [(&str, Option<&[&str]>); 5] = [
    ("index", Some(&["on", "off"])),
    ("metacopy", Some(&["on", "off"])),
    ("redirect_dir", Some(&["on", "off", "follow", "nofollow"])),
    ("xino", Some(&["on", "off", "auto"])),
    ("volatile", None),
];

/// Primitives over overlay file systems.
pub trait Overlays {
    /// A mount that shows the `lowers` as one folder, the first one on top, unseen until attached.
    /// The lowers are never written. What is written goes to `top`, into two folders that are made
    /// there if they are missing: `upper`, which gets mode and owner of the first lower, and
    /// `work`. Without a top nothing can be written. Of each folder the mount it lies on is shown,
    /// not what is mounted below. The result keeps what it needs of the file systems; a top that is
    /// a detached mount ([`Overlays::root_of`]) lives as long as the overlay does.
    ///
    /// Options: `index`, `metacopy`, `redirect_dir`, `xino`, with the kernel's values, and
    /// `volatile`. With `index` a top that another overlay uses is `Busy`, and one that was made
    /// over other lowers is refused; without, both go unnoticed and do harm.
    ///
    /// # Errors
    /// `WrongType` if a layer is no folder; `InvalidOption`; `LayersRefused` with what the kernel's
    /// answer means; `Failed`. A top may then have its two folders.
    fn overlay(
        &self,
        lowers: &[&MountSource],
        top: Option<&MountSource>,
        options: &[FsOption],
    ) -> Result<DetachedMount>;

    /// As [`Overlays::overlay`] without a top: a mount that shows the `lowers` as one folder. The
    /// mount table shows `source` as its source, by which its owner finds it again. At most 256
    /// bytes of letters, digits and `-._:@`.
    ///
    /// # Errors
    /// As [`Overlays::overlay`]; `InvalidOption` for another source.
    fn layers(&self, lowers: &[&MountSource], source: &str) -> Result<DetachedMount>;

    /// The root of a detached mount, to be bound or to be an overlay's top.
    ///
    /// # Errors
    /// `Failed` when the process has no file descriptor left.
    fn root_of(&self, mount: &DetachedMount) -> Result<MountSource>;
}

/// The longest source of a mount, in bytes.
const SOURCE_BYTES: usize = 256;

/// Refuses a source that the mount table could not show as one word. The same for every kernel.
pub fn check_source(source: &str) -> Result<()> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:@".contains(&byte);
    if !source.is_empty() && source.len() <= SOURCE_BYTES && source.bytes().all(plain) {
        return Ok(());
    }
    Err(KernelError::InvalidOption {
        subject: "overlay".to_owned(),
        option: "source".to_owned(),
        reason: format!("must be letters, digits and -._:@, at most {SOURCE_BYTES} bytes"),
    })
}

/// Refuses layers and options that no overlay can have. The same for every kernel.
pub fn check_overlay(lowers: &[&MountSource], top: Option<&MountSource>, options: &[FsOption]) -> Result<()> {
    let wrong = |option: &str, reason: String| KernelError::InvalidOption {
        subject: "overlay".to_owned(),
        option: option.to_owned(),
        reason,
    };
    if lowers.is_empty() || lowers.len() > MAX_LOWERS {
        return Err(wrong("lowers", format!("there are {}; an overlay has 1 to {MAX_LOWERS}", lowers.len())));
    }
    if top.is_none() && lowers.len() == 1 {
        return Err(wrong("lowers", "one folder without a top is no overlay; bind it".to_owned()));
    }
    for layer in lowers.iter().copied().chain(top) {
        if layer.kind != SourceKind::Directory {
            let (expected, found) = (SourceKind::Directory.as_str(), layer.kind.as_str());
            return Err(KernelError::WrongType { path: text(&layer.label), expected, found });
        }
    }
    for option in options {
        let Some((_, values)) = OPTIONS.iter().find(|(name, _)| *name == option.key) else {
            let known: Vec<&str> = OPTIONS.iter().map(|(name, _)| *name).collect();
            return Err(wrong(&option.key, format!("no such option; there are {}", known.join(", "))));
        };
        match (values, option.value.as_deref()) {
            (None, None) => {}
            (None, Some(_)) => return Err(wrong(&option.key, "it is a flag and takes no value".to_owned())),
            (Some(values), given) if !given.is_some_and(|given| values.contains(&given)) => {
                return Err(wrong(&option.key, format!("its value must be one of {}", values.join(", "))));
            }
            (Some(_), _) => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Arc;

    use super::*;
    use crate::tools::{RunTool, ToolOutput, ToolRun};
    use crate::{Kernel, LinuxKernel};

    /// Runs no program: an overlay needs none.
    #[derive(Debug)]
    struct NoTools;

    impl RunTool for NoTools {
        fn run(&self, _: &ToolRun<'_>) -> io::Result<ToolOutput> {
            Err(io::ErrorKind::Unsupported.into())
        }
    }

    #[test]
    fn options_and_layers_that_no_overlay_has_are_named() {
        let kernel = LinuxKernel::new(Arc::new(NoTools));
        let folder = kernel.open_host_path("/".as_ref(), &["/".into()]).unwrap();
        let file = kernel.open_host_path("/proc/self/status".as_ref(), &["/".into()]).unwrap();
        let lowers = [&folder, &folder];
        let good = [FsOption::new("index", "on"), FsOption::flag("volatile")];
        assert!(check_overlay(&lowers, None, &good).is_ok());
        for (option, said) in [
            (FsOption::new("lowerdir", "/etc"), "no such option"),
            (FsOption::new("index", "maybe"), "one of on, off"),
            (FsOption::flag("metacopy"), "one of on, off"),
            (FsOption::new("volatile", "1"), "takes no value"),
        ] {
            let error = check_overlay(&lowers, None, &[option]).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
        assert!(matches!(check_overlay(&[], None, &[]), Err(KernelError::InvalidOption { .. })));
        assert!(matches!(check_overlay(&[&folder], None, &[]), Err(KernelError::InvalidOption { .. })));
        assert!(matches!(check_overlay(&[&file], Some(&folder), &[]), Err(KernelError::WrongType { .. })));
        assert!(matches!(check_overlay(&[&folder], Some(&file), &[]), Err(KernelError::WrongType { .. })));
    }
}
