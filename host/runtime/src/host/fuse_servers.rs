//! `fuse-servers`: programs within the operator's grant that serve file systems. The command line
//! is the operator's; here its slots are filled in, and what an argument must not contain is
//! refused.

use std::collections::BTreeMap;

use volhost_kernel::SourceKind;
use volhost_model::objects::Bytes;
use wasmtime::component::Resource;

use super::State;
use super::mounts::dropped;
use crate::bindings::HostError;
use crate::bindings::volhost::plugin::fuse_servers::{Host, HostFuseServer};
use crate::bindings::volhost::plugin::types;
use crate::fuse_servers::{FuseServerArgument, FuseServerDescriptor, FuseServerError, FuseServerPart, FuseServerStart};
use crate::grants::{FuseServer, MOUNT_SLOT, Word, WordPart};
use crate::handles::{Content, DetachedMount, Filling, FuseServerHandle, MountSource};
use crate::text::tame;

/// How much of a name or a value a message shows, in bytes.
const SHOWN_BYTES: usize = 256;
/// The longest text in a slot, in bytes: a path's.
const VALUE_BYTES: usize = 4096;
/// What a FUSE server reads of a secret, in bytes.
const SECRET_BYTES: usize = 1 << 20;
/// Beside letters and digits, what a text may contain.
const PLAIN: &str = "._-/:@+%~[]";

impl From<FuseServerError> for HostError {
    fn from(error: FuseServerError) -> Self {
        Self::Plugin(match error {
            FuseServerError::Unusable(text) => types::Error::Precondition(text),
            FuseServerError::Failed(text) => types::Error::Retryable(text),
        })
    }
}

fn denied(text: String) -> HostError {
    HostError::Plugin(types::Error::PermissionDenied(text))
}

fn invalid(text: String) -> HostError {
    HostError::Plugin(types::Error::InvalidArgument(text))
}

/// Why no slot may contain this text.
fn unfit(value: &str) -> Option<&'static str> {
    if value.is_empty() {
        return Some("it is empty");
    }
    if value.len() > VALUE_BYTES {
        return Some("it is too long");
    }
    if value.starts_with('-') {
        return Some("it begins like an option");
    }
    if value.split('/').any(|part| part == "..") {
        return Some("it has `..` in a path");
    }
    let plain = |c: char| c.is_alphanumeric() || PLAIN.contains(c);
    (!value.chars().all(plain)).then_some("it has a character that an argument may end at")
}

impl State {
    fn granted_server(&self, name: &str) -> Result<&FuseServer, HostError> {
        self.reach.fuse_servers.get(name).ok_or_else(|| {
            denied(format!(
                "FUSE server {} is not granted to this plugin; see `fuse-servers` under [grants] in the configuration",
                tame(name, SHOWN_BYTES)
            ))
        })
    }

    /// Puts something into a slot that the command line has.
    fn fill(&mut self, server: &Resource<FuseServerHandle>, slot: String, filling: Filling) -> Result<(), HostError> {
        let name = self.table.get(server)?.name.clone();
        if !self.granted_server(&name)?.slots().contains(slot.as_str()) {
            let slot = tame(&slot, SHOWN_BYTES);
            return Err(invalid(format!("the command line of FUSE server {name} has no slot {slot:?}")));
        }
        match &mut self.table.get_mut(server)?.slots {
            Some(slots) => {
                slots.insert(slot, filling);
                Ok(())
            }
            None => Err(used_up(&name)),
        }
    }
}

fn used_up(name: &str) -> HostError {
    HostError::Plugin(types::Error::Precondition(format!("FUSE server {name} was started already; open it again")))
}

/// A command line with its slots filled in, and what they need.
struct FilledIn {
    arguments: Vec<FuseServerArgument>,
    descriptors: Vec<FuseServerDescriptor>,
    secrets: Vec<Bytes>,
}

/// The text of a file with its slots filled in; the slot that was not, if one was not.
fn file_of<'a>(text: &'a Word, slots: &BTreeMap<String, Filling>) -> Result<Vec<u8>, &'a str> {
    let mut bytes = Vec::new();
    for part in &text.0 {
        match part {
            WordPart::Text(text) => bytes.extend(text.as_bytes()),
            WordPart::Slot(slot) => match slots.get(slot) {
                Some(Filling::Text(text)) => bytes.extend(text.as_bytes()),
                Some(Filling::Descriptor(FuseServerDescriptor::Secret(line))) => bytes.extend(&**line),
                // `set-source` refuses a folder for it.
                Some(Filling::Descriptor(FuseServerDescriptor::Source(_))) | None => return Err(slot),
            },
        }
    }
    Ok(bytes)
}

fn command_line(name: &str, granted: &FuseServer, slots: BTreeMap<String, Filling>) -> Result<FilledIn, HostError> {
    let mut descriptors = Vec::new();
    let mut secrets = Vec::new();
    let mut parts: BTreeMap<&str, Result<FuseServerPart, &str>> =
        BTreeMap::from([(MOUNT_SLOT, Ok(FuseServerPart::Descriptor(0)))]);
    for (file, text) in granted.files() {
        let part = file_of(text, &slots).map(|bytes| {
            descriptors.push(FuseServerDescriptor::Secret(bytes.into()));
            FuseServerPart::Descriptor(descriptors.len())
        });
        parts.insert(file, part);
    }
    let names: Vec<String> = slots.keys().cloned().collect();
    for (slot, filling) in names.iter().zip(slots.into_values()) {
        if let Filling::Descriptor(FuseServerDescriptor::Secret(bytes)) = &filling {
            secrets.push(bytes.clone());
        }
        let part = match filling {
            Filling::Text(text) => FuseServerPart::Text(text),
            // A server gets nothing that its command line does not name.
            Filling::Descriptor(_) if !granted.is_in_the_arguments(slot) => continue,
            Filling::Descriptor(descriptor) => {
                descriptors.push(descriptor);
                FuseServerPart::Descriptor(descriptors.len())
            }
        };
        parts.insert(slot, Ok(part));
    }
    let mut arguments = Vec::new();
    for (words, needed) in granted.command_line() {
        let mut filled = Vec::new();
        let mut missing = None;
        for word in words {
            let mut argument = Vec::new();
            for part in &word.0 {
                match part {
                    WordPart::Text(text) => argument.push(FuseServerPart::Text(text.clone())),
                    WordPart::Slot(slot) => match parts.get(slot.as_str()) {
                        Some(Ok(part)) => argument.push(part.clone()),
                        Some(Err(of_file)) => missing = Some(*of_file),
                        None => missing = Some(slot.as_str()),
                    },
                }
            }
            filled.push(FuseServerArgument(argument));
        }
        match missing {
            None => arguments.extend(filled),
            Some(slot) if needed => {
                let text = format!("FUSE server {name} needs the slot {slot:?}, and nothing was put into it");
                return Err(HostError::Plugin(types::Error::Precondition(text)));
            }
            Some(_) => {}
        }
    }
    Ok(FilledIn { arguments, descriptors, secrets })
}

/// A secret without the end of its line, for a file of several; none when it is more than a line,
/// or nothing: it could be another entry of the file, or take away the meaning of one.
fn line_of(secret: &Bytes) -> Option<Bytes> {
    let text = std::str::from_utf8(secret).ok()?;
    let line = text.strip_suffix('\n').map_or(text, |line| line.strip_suffix('\r').unwrap_or(line));
    let is_line = !line.trim().is_empty() && !line.chars().any(char::is_control);
    is_line.then(|| line.as_bytes().into())
}

impl Host for State {
    fn open(&mut self, name: String) -> Result<Resource<FuseServerHandle>, HostError> {
        self.count()?;
        self.granted_server(&name)?;
        Ok(self.push(FuseServerHandle { name, slots: Some(BTreeMap::new()) })?)
    }
}

impl HostFuseServer for State {
    fn set(&mut self, server: Resource<FuseServerHandle>, slot: String, value: String) -> Result<(), HostError> {
        self.count()?;
        let name = self.table.get(&server)?.name.clone();
        if let Some(why) = unfit(&value) {
            let (slot, value) = (tame(&slot, SHOWN_BYTES), tame(&value, SHOWN_BYTES));
            return Err(invalid(format!("{value:?} is not allowed in the slot {slot} of FUSE server {name}: {why}")));
        }
        let granted = self.granted_server(&name)?;
        if granted.slots().contains(slot.as_str()) && !granted.allows(&slot, &value) {
            return Err(denied(format!(
                "{:?} is not granted for the slot {slot} of FUSE server {name}; see `values` of it under [grants] in the configuration",
                tame(&value, SHOWN_BYTES)
            )));
        }
        self.fill(&server, slot, Filling::Text(value))
    }

    fn set_secret(
        &mut self,
        server: Resource<FuseServerHandle>,
        slot: String,
        content: Resource<Content>,
    ) -> Result<(), HostError> {
        self.count()?;
        let bytes = self.table.get(&content)?.bytes.clone();
        if bytes.len() > SECRET_BYTES {
            let slot = tame(&slot, SHOWN_BYTES);
            // Not how long it is: the plugin may not know.
            return Err(invalid(format!(
                "slot {slot}: the content is longer than {SECRET_BYTES} bytes, which a FUSE server does not get"
            )));
        }
        let name = self.table.get(&server)?.name.clone();
        let bytes = if self.granted_server(&name)?.is_in_a_file(&slot) {
            line_of(&bytes).ok_or_else(|| {
                let slot = tame(&slot, SHOWN_BYTES);
                invalid(format!(
                    "slot {slot} of FUSE server {name}: the secret must be one line of text, and not empty"
                ))
            })?
        } else {
            bytes
        };
        self.fill(&server, slot, Filling::Descriptor(FuseServerDescriptor::Secret(bytes)))
    }

    fn set_source(
        &mut self,
        server: Resource<FuseServerHandle>,
        slot: String,
        source: Resource<MountSource>,
    ) -> Result<(), HostError> {
        self.count()?;
        let source = self.table.get(&source)?;
        let kind = source.source.kind();
        if source.read_only {
            return Err(denied("what may only be read cannot be given to a FUSE server".to_owned()));
        }
        let name = &self.table.get(&server)?.name;
        if self.granted_server(name)?.is_in_a_file(&slot) {
            let slot = tame(&slot, SHOWN_BYTES);
            return Err(invalid(format!("slot {slot} of FUSE server {name} is in a file, and takes no path")));
        }
        if !matches!(kind, SourceKind::Directory | SourceKind::File) {
            return Err(invalid(format!("a FUSE server gets a folder or a file, and no {kind}")));
        }
        let descriptor = self.kernel.descriptor(&source.source)?;
        self.fill(&server, slot, Filling::Descriptor(FuseServerDescriptor::Source(descriptor)))
    }

    fn serve(
        &mut self,
        server: Resource<FuseServerHandle>,
        read_only: bool,
    ) -> Result<Resource<DetachedMount>, HostError> {
        let name = self.table.get(&server)?.name.clone();
        self.may_mount(Some(&format!("fuse.{name}")), [])?;
        let what = format!("fuse-servers.serve {name}");
        self.change(what, |state| {
            let slots = state.table.get_mut(&server)?.slots.take().ok_or_else(|| used_up(&name))?;
            let granted = state.granted_server(&name)?;
            let FilledIn { arguments, descriptors, secrets } = command_line(&name, granted, slots)?;
            let start = FuseServerStart {
                program: granted.program(),
                arguments,
                environment: granted.environment(),
                rights: granted.rights(),
                bounds: granted.bounds(),
                descriptors,
                secrets,
                default_permissions: granted.default_permissions(),
                read_only,
                label: state.selinux_label.clone(),
                name,
            };
            let served = state.call.environment().fuse_servers().serve(start)?;
            state.fuse_servers.push(served.id);
            Ok(state.push(DetachedMount(served.mount))?)
        })
    }

    fn drop(&mut self, server: Resource<FuseServerHandle>) -> wasmtime::Result<()> {
        dropped(self, server)
    }
}

#[cfg(test)]
mod tests {
    use super::{Bytes, line_of, unfit};

    #[test]
    fn a_secret_in_a_file_is_one_line() {
        let line =
            |text: &str| line_of(&Bytes::from(text.as_bytes())).map(|line| String::from_utf8(line.to_vec()).unwrap());
        for (good, line_of_it) in [("a", "a"), ("a b=c\n", "a b=c"), ("a\r\n", "a"), ("é", "é")] {
            assert_eq!(line(good).as_deref(), Some(line_of_it));
        }
        for bad in ["", "\n", " ", "a\nb", "a\n\n", "a\0", "a\rb", "\u{1b}[2J", "a\nsource_profile = x\n"] {
            assert_eq!(line(bad), None, "{bad:?}");
        }
        assert_eq!(line_of(&Bytes::from(&[0xff, 0xfe][..])), None);
    }

    #[test]
    fn what_could_be_more_than_a_value_is_kept_out() {
        for good in ["files.example.com", "/srv/ä/b-1", "user@[::1]:22", "a+b%20~", "...", "a..b"] {
            assert_eq!(unfit(good), None, "{good}");
        }
        for bad in [
            "",
            "-o",
            "--",
            "-",
            "a,b",
            "a b",
            "a\nb",
            "a\0b",
            "a=b",
            "a\\,b",
            "a\"b",
            "a'b",
            "$(x)",
            "`x`",
            "a;b",
            "/srv/../etc",
            "..",
            "a\u{202e}b",
            "a\tb",
            "{mount}",
        ] {
            assert!(unfit(bad).is_some(), "{bad:?}");
        }
        assert!(unfit(&"a".repeat(5000)).is_some());
    }
}
