//! The FUSE servers that a plugin may start: the operator writes their command lines.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::time::Duration;

use rustix::thread::CapabilitySet;
use serde::Deserialize;
use thiserror::Error;
use volhost_model::quantity::{QuantityError, parse_bytes};

use super::words::{CallTime, MountWord, Root};
use crate::fuse_servers::{FuseServerBounds, FuseServerRights};

/// Placeholder for the connection in a command line.
pub(crate) const MOUNT_SLOT: &str = "mount";
/// Why a part of the grant of FUSE servers is refused.
#[derive(Debug, Error)]
pub(crate) enum FuseGrantError {
    #[error("fuse-servers.{server}: {source}")]
    Within { server: String, source: Box<FuseGrantError> },
    #[error("arguments: {{{MOUNT_SLOT}}} must occur in them once, and occurs {0} times")]
    MountSlots(usize),
    #[error("values: the arguments have no slot {{{0}}}")]
    NoSlot(String),
    #[error("files: the arguments have no slot {{{0}}} that would get the path of this file")]
    NoFileSlot(String),
    #[error("files.{file}: {{{slot}}} is the connection or a file; a file is written from other slots")]
    FileInFile { file: String, slot: String },
    #[error("capabilities: only a FUSE server that is root (`user = 0`) keeps rights of root's")]
    Capabilities,
    #[error("{0:?} has a brace without its other one")]
    OpenBrace(String),
    #[error("{0:?} has a brace without its other one, or a zero byte")]
    ClosingBrace(String),
    #[error("{word:?}: {{{slot}}} is no slot; write a name of letters, digits, `-` and `_`")]
    SlotName { slot: String, word: String },
    #[error("{0:?} is no variable for a FUSE server")]
    Variable(String),
    #[error("has a zero byte")]
    ZeroByte,
    #[error("{0:?} is no memory")]
    NoMemory(String),
    #[error(transparent)]
    Quantity(#[from] QuantityError),
}

/// The user `nobody`.
const NOBODY: u32 = 65534;
/// Time enough for a server far away to answer.
const START: Duration = Duration::from_secs(30);
/// Time enough to write out what is still to be written.
const STOP: Duration = Duration::from_secs(10);

/// One FUSE server: the table `[grants."NAME".fuse-servers.SERVER]`.
///
/// ```toml
/// [grants."example.com/files".fuse-servers.sshfs]
/// program = "/usr/bin/sshfs"
/// # `{mount}` is where the server gets the connection; other words in braces are slots that the plugin fills in. A list in the
/// # list is left out when one of its slots is not filled in.
/// arguments = ["-f", "{server}:{path}", "{mount}", ["-p", "{port}"]]
/// # What the plugin may put into a slot as a text: `*` is anything but `/`, `**` anything. A slot that is not named takes none.
/// values = { server = ["*.files.example.com"], path = ["/exports/**"], port = ["*"] }
/// # Optional: files in memory that the host writes for it, by the slot in the arguments that gets their path: here `{login}`
/// # would be one. A slot in such a file takes a secret of one line, or a text like any other slot.
/// files = {}
/// # Optional: its environment, its user (nobody) and group (of the same number), and, for root, the rights that it keeps.
/// environment = { LANG = "C" }
/// user = 65534
/// group = 65534
/// capabilities = []
/// # Optional: the most memory that it may map, how many files it may have open.
/// memory = "512Mi"
/// open-files = 4096
/// # Optional: how long it may take until it serves, and until it ends once its file system is no longer mounted.
/// start-time = "30s"
/// stop-time = "10s"
/// # Optional: false lets the server decide on each access, in place of the kernel by the modes that the server reports.
/// default-permissions = true
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct FuseServer {
    program: Root,
    arguments: Vec<ArgumentWords>,
    #[serde(default)]
    values: BTreeMap<String, BTreeSet<Pattern>>,
    #[serde(default)]
    files: BTreeMap<String, Word>,
    #[serde(default)]
    environment: BTreeMap<VariableName, Plain>,
    user: Option<u32>,
    group: Option<u32>,
    #[serde(default)]
    capabilities: BTreeSet<ServerCapability>,
    memory: Option<ByteSize>,
    open_files: Option<NonZeroU64>,
    start_time: Option<CallTime>,
    stop_time: Option<CallTime>,
    #[serde(default = "yes")]
    default_permissions: bool,
}

fn yes() -> bool {
    true
}

/// The FUSE servers of one plugin, by their names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "BTreeMap<MountWord, FuseServer>")]
pub(super) struct FuseServersTable(pub(super) BTreeMap<String, FuseServer>);

/// A word of a command line, or several that belong together.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
enum ArgumentWords {
    One(Word),
    Together(Vec<Word>),
}

/// A word of a command line, or the text of a file, with its slots.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Word(pub(crate) Vec<WordPart>);

/// A part of such a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WordPart {
    /// As the operator wrote it.
    Text(String),
    /// The content of a slot.
    Slot(String),
}

/// The form of a text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(transparent)]
struct Pattern(String);

/// The name of a variable.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
struct VariableName(String);

/// A text without a zero byte.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
struct Plain(String);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
struct ByteSize(u64);

/// A right of root's over files; there is no other that a FUSE server can keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ServerCapability {
    Chown,
    DacOverride,
    DacReadSearch,
    Fowner,
    Fsetid,
}

impl FuseServer {
    pub(crate) fn program(&self) -> PathBuf {
        self.program.0.clone()
    }

    pub(crate) fn environment(&self) -> BTreeMap<String, String> {
        self.environment.iter().map(|(name, value)| (name.0.clone(), value.0.clone())).collect()
    }

    pub(crate) fn default_permissions(&self) -> bool {
        self.default_permissions
    }

    pub(crate) fn rights(&self) -> FuseServerRights {
        let user = self.user.unwrap_or(NOBODY);
        let capabilities = self.capabilities.iter().fold(CapabilitySet::empty(), |all, right| all | right.set());
        FuseServerRights {
            user,
            group: self.group.unwrap_or(user),
            capabilities: capabilities.bits(),
            memory: self.memory.map(|memory| memory.0),
            open_files: self.open_files.map(NonZeroU64::get),
        }
    }

    pub(crate) fn bounds(&self) -> FuseServerBounds {
        let time = |given: Option<CallTime>, usual| given.map_or(usual, |time| time.0);
        FuseServerBounds { start: time(self.start_time, START), stop: time(self.stop_time, STOP) }
    }

    /// The command line, in groups that are left out when one of their slots is not filled in; true
    /// for one that must not be.
    pub(crate) fn command_line(&self) -> impl Iterator<Item = (&[Word], bool)> {
        self.arguments.iter().map(|words| match words {
            ArgumentWords::One(word) => (std::slice::from_ref(word), true),
            ArgumentWords::Together(words) => (words.as_slice(), false),
        })
    }

    /// The slots that a plugin fills in: of the command line, and of the files.
    pub(crate) fn slots(&self) -> BTreeSet<&str> {
        let of_files = self.files.values().flat_map(Word::slots);
        let of_arguments = self.argument_slots().filter(|slot| !self.files.contains_key(*slot));
        of_arguments.chain(of_files).filter(|slot| *slot != MOUNT_SLOT).collect()
    }

    fn argument_slots(&self) -> impl Iterator<Item = &str> {
        self.command_line().flat_map(|(words, _)| words).flat_map(Word::slots)
    }

    /// Returns whether the command line itself has the slot.
    pub(crate) fn is_in_the_arguments(&self, slot: &str) -> bool {
        self.argument_slots().any(|of_arguments| of_arguments == slot)
    }

    /// The files that the host writes for it, by the slots that get their paths.
    pub(crate) fn files(&self) -> &BTreeMap<String, Word> {
        &self.files
    }

    /// Returns whether what is in the slot becomes a part of a file.
    pub(crate) fn is_in_a_file(&self, slot: &str) -> bool {
        self.files.values().flat_map(Word::slots).any(|of_file| of_file == slot)
    }

    /// Returns whether the slot may contain this text.
    pub(crate) fn allows(&self, slot: &str, text: &str) -> bool {
        self.values.get(slot).is_some_and(|patterns| patterns.iter().any(|pattern| matches(&pattern.0, text)))
    }

    fn check(&self) -> Result<(), FuseGrantError> {
        let mounts = self.argument_slots().filter(|slot| *slot == MOUNT_SLOT).count();
        if mounts != 1 {
            return Err(FuseGrantError::MountSlots(mounts));
        }
        for (file, text) in &self.files {
            if file == MOUNT_SLOT || !self.argument_slots().any(|slot| slot == file) {
                return Err(FuseGrantError::NoFileSlot(file.clone()));
            }
            if let Some(slot) = text.slots().find(|slot| *slot == MOUNT_SLOT || self.files.contains_key(*slot)) {
                return Err(FuseGrantError::FileInFile { file: file.clone(), slot: slot.to_owned() });
            }
        }
        let slots = self.slots();
        if let Some(other) = self.values.keys().find(|slot| !slots.contains(slot.as_str())) {
            return Err(FuseGrantError::NoSlot(other.clone()));
        }
        if !self.capabilities.is_empty() && self.user != Some(0) {
            return Err(FuseGrantError::Capabilities);
        }
        Ok(())
    }
}

/// Returns whether a text is like a pattern.
fn matches(pattern: &str, text: &str) -> bool {
    if let Some(rest) = pattern.strip_prefix("**") {
        return std::iter::once(text.len())
            .chain(text.char_indices().map(|(at, _)| at))
            .any(|at| text.get(at..).is_some_and(|text| matches(rest, text)));
    }
    if let Some(rest) = pattern.strip_prefix('*') {
        let end = text.find('/').unwrap_or(text.len());
        let within = text.char_indices().map(|(at, _)| at).take_while(|at| *at < end);
        return within.chain([end]).any(|at| text.get(at..).is_some_and(|text| matches(rest, text)));
    }
    match (pattern.chars().next(), text.chars().next()) {
        (None, None) => true,
        (Some(letter), Some(same)) if letter == same => {
            let (pattern, text) = (pattern.get(letter.len_utf8()..), text.get(letter.len_utf8()..));
            pattern.zip(text).is_some_and(|(pattern, text)| matches(pattern, text))
        }
        _ => false,
    }
}

impl Word {
    fn slots(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|part| match part {
            WordPart::Slot(slot) => Some(slot.as_str()),
            WordPart::Text(_) => None,
        })
    }
}

impl ServerCapability {
    fn set(self) -> CapabilitySet {
        match self {
            Self::Chown => CapabilitySet::CHOWN,
            Self::DacOverride => CapabilitySet::DAC_OVERRIDE,
            Self::DacReadSearch => CapabilitySet::DAC_READ_SEARCH,
            Self::Fowner => CapabilitySet::FOWNER,
            Self::Fsetid => CapabilitySet::FSETID,
        }
    }
}

impl TryFrom<BTreeMap<MountWord, FuseServer>> for FuseServersTable {
    type Error = FuseGrantError;
    fn try_from(table: BTreeMap<MountWord, FuseServer>) -> Result<Self, FuseGrantError> {
        for (name, server) in &table {
            let within = |source| FuseGrantError::Within { server: name.0.clone(), source: Box::new(source) };
            server.check().map_err(within)?;
        }
        Ok(Self(table.into_iter().map(|(name, server)| (name.0, server)).collect()))
    }
}

impl TryFrom<String> for Word {
    type Error = FuseGrantError;
    fn try_from(word: String) -> Result<Self, FuseGrantError> {
        let mut parts = Vec::new();
        let mut rest = word.as_str();
        while let Some((before, after)) = rest.split_once('{') {
            let Some((slot, after)) = after.split_once('}') else {
                return Err(FuseGrantError::OpenBrace(word));
            };
            if slot.is_empty() || !slot.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c)) {
                return Err(FuseGrantError::SlotName { slot: slot.to_owned(), word: word.clone() });
            }
            parts.push(WordPart::Text(before.to_owned()));
            parts.push(WordPart::Slot(slot.to_owned()));
            rest = after;
        }
        if rest.contains(['}', '\0']) {
            return Err(FuseGrantError::ClosingBrace(word));
        }
        parts.push(WordPart::Text(rest.to_owned()));
        parts.retain(|part| *part != WordPart::Text(String::new()));
        Ok(Self(parts))
    }
}

impl TryFrom<String> for VariableName {
    type Error = FuseGrantError;
    fn try_from(name: String) -> Result<Self, FuseGrantError> {
        // What begins so makes the loader run something else than the program.
        let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if plain && !name.is_empty() && !name.starts_with("LD_") {
            Ok(Self(name))
        } else {
            Err(FuseGrantError::Variable(name))
        }
    }
}

impl TryFrom<String> for Plain {
    type Error = FuseGrantError;
    fn try_from(text: String) -> Result<Self, FuseGrantError> {
        if text.contains('\0') { Err(FuseGrantError::ZeroByte) } else { Ok(Self(text)) }
    }
}

impl TryFrom<String> for ByteSize {
    type Error = FuseGrantError;
    fn try_from(text: String) -> Result<Self, FuseGrantError> {
        match parse_bytes(&text) {
            Ok(bytes) if bytes > 0 => Ok(Self(bytes)),
            Ok(_) => Err(FuseGrantError::NoMemory(text)),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(text: &str) -> Result<FuseServersTable, String> {
        toml::from_str(text).map_err(|error| error.to_string())
    }

    #[test]
    fn patterns_match_whole_texts() {
        for (pattern, text, is) in [
            ("*.example.com", "files.example.com", true),
            ("*.example.com", "files.example.com.evil.org", false),
            ("*.example.com", "a/b.example.com", false),
            ("/srv/*", "/srv/a", true),
            ("/srv/*", "/srv/a/b", false),
            ("/srv/**", "/srv/a/b", true),
            ("/srv/**", "/srv", false),
            ("10.0.0.7", "10.0.0.7", true),
            ("10.0.0.7", "10a0.0.7", false),
            ("*", "", true),
            ("", "x", false),
            ("*é*", "aéb", true),
        ] {
            assert_eq!(matches(pattern, text), is, "{pattern} {text}");
        }
    }

    #[test]
    fn a_helper_is_read_and_its_mistakes_are_named() {
        let whole =
            "[h]\nprogram = \"/bin/x\"\narguments = [\"-o\", \"a={one},b={two}\", \"{mount}\", [\"-p\", \"{port}\"]]\n";
        let read = table(whole).unwrap();
        let server = read.0.get("h").unwrap();
        assert_eq!(server.slots().into_iter().collect::<Vec<_>>(), ["one", "port", "two"]);
        assert_eq!((server.rights().user, server.rights().capabilities), (65534, 0));
        assert!(!server.allows("one", "x"), "a slot that is not named takes no text");
        let read = table(&format!("{whole}files = {{ two = \"user={{name}}\\n\" }}\n")).unwrap();
        let server = read.0.get("h").unwrap();
        assert_eq!(server.slots().into_iter().collect::<Vec<_>>(), ["name", "one", "port"]);
        assert!(server.is_in_a_file("name") && !server.is_in_a_file("one"));
        for (more, words) in [
            ("user = 1000\ncapabilities = [\"chown\"]", "only a FUSE server that is root"),
            ("capabilities = [\"sys-admin\"]", "unknown variant"),
            ("values = { three = [\"*\"] }", "no slot {three}"),
            ("environment = { LD_PRELOAD = \"x\" }", "no variable for a FUSE server"),
            ("memory = \"none\"", "none"),
            ("files = { login = \"{one}\" }", "no slot {login}"),
            ("files = { mount = \"{one}\" }", "no slot {mount}"),
            ("files = { one = \"{two}\", two = \"\" }", "files.one: {two} is the connection or a file"),
            ("files = { one = \"{mount}\" }", "files.one: {mount} is the connection or a file"),
            ("users = 3", "unknown field"),
        ] {
            let error = table(&format!("{whole}{more}\n")).unwrap_err();
            assert!(error.contains(words), "{more}: {error}");
        }
        for (arguments, words) in [
            ("[\"-f\"]", "must occur in them once"),
            ("[\"{mount}\", \"{mount}\"]", "2 times"),
            ("[\"{mount\"]", "did not match any variant"),
            ("[\"{mount}\", \"{a b}\"]", "did not match any variant"),
        ] {
            let error = table(&format!("[h]\nprogram = \"/bin/x\"\narguments = {arguments}\n")).unwrap_err();
            assert!(error.contains(words), "{arguments}: {error}");
        }
        assert!(table("[h]\nprogram = \"x\"\narguments = [\"{mount}\"]\n").unwrap_err().contains("absolute"));
        assert!(table("[\"a/b\"]\nprogram = \"/x\"\narguments = [\"{mount}\"]\n").is_err());
    }
}
