//! The parameters of a StorageClass, checked.

use volhost_plugin_sdk::prelude::*;

use crate::folder::Folder;
use crate::handle::Share;
use crate::source::{checked_path, checked_server};

const SERVER: &str = "server";
const SHARE: &str = "share";
const PATH_PATTERN: &str = "pathPattern";
const ON_DELETE: &str = "onDelete";
const MODE: &str = "mode";
const KNOWN: &[&str] = &[MODE, ON_DELETE, PATH_PATTERN, SERVER, SHARE];
/// The prefix of parameters that belong to the caller.
const CALLERS: &str = "csi.storage.k8s.io/";
const CLAIM_NAMESPACE: &str = "csi.storage.k8s.io/pvc/namespace";
const CLAIM_NAME: &str = "csi.storage.k8s.io/pvc/name";
/// Every process can write to a new folder: the server decides who owns the files, and `fsGroup` is
/// not applied.
const DEFAULT_MODE: u32 = 0o777;
/// Permissions, setuid, setgid and sticky.
const MODES: u32 = 0o7777;
/// The words of a pattern, in the spelling of this host's StorageClasses and in that of
/// nfs-subdir-external-provisioner.
const WORDS: &[(&str, Word)] = &[
    ("pvc.namespace", Word::ClaimNamespace),
    (".PVC.namespace", Word::ClaimNamespace),
    ("pvc.name", Word::ClaimName),
    (".PVC.name", Word::ClaimName),
    ("pv.name", Word::VolumeName),
    (".PV.name", Word::VolumeName),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Word {
    ClaimNamespace,
    ClaimName,
    VolumeName,
}

/// What becomes of the folder of a volume that is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnDelete {
    /// It is removed.
    Delete,
    /// It stays, and the next volume of this path gets it.
    Retain,
    /// It is renamed to `archived-...`.
    Archive,
}

/// The words for them.
pub(crate) const ON_DELETES: &[(&str, OnDelete)] =
    &[("delete", OnDelete::Delete), ("retain", OnDelete::Retain), ("archive", OnDelete::Archive)];

impl OnDelete {
    pub(crate) fn read(word: &str) -> Option<Self> {
        ON_DELETES.iter().find(|(known, _)| *known == word).map(|(_, found)| *found)
    }

    pub(crate) fn word(self) -> &'static str {
        ON_DELETES.iter().find(|(_, known)| *known == self).map_or("", |(word, _)| word)
    }
}

/// Checked parameters of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Parameters {
    pub(crate) share: Share,
    pub(crate) folder: Folder,
    pub(crate) on_delete: OnDelete,
    pub(crate) mode: u32,
}

impl Parameters {
    /// Reads and checks every parameter.
    ///
    /// # Errors
    /// `invalid-argument` naming the parameter.
    pub(crate) fn read(request: &VolumeRequest) -> Result<Self> {
        let known = |key: &String| key.starts_with(CALLERS) || KNOWN.contains(&key.as_str());
        if let Some(unknown) = request.parameters().into_iter().find(|key| !known(key)) {
            return Err(wrong(&unknown, format!("no such parameter; there are {}", KNOWN.join(", "))));
        }
        let required = |key: &str| match request.parameter(key) {
            Some(value) if !value.is_empty() => Ok(value),
            Some(_) => Err(wrong(key, "must not be empty".to_owned())),
            None => Err(wrong(key, "is missing".to_owned())),
        };
        let server = checked_server(&required(SERVER)?).map_err(|why| wrong(SERVER, why))?;
        let path = checked_path(&required(SHARE)?).map_err(|why| wrong(SHARE, why))?;
        let on_delete = match request.parameter(ON_DELETE) {
            None => OnDelete::Delete,
            Some(word) => OnDelete::read(&word).ok_or_else(|| {
                wrong(ON_DELETE, format!("{} is neither `delete`, `retain` nor `archive`", quoted(&word)))
            })?,
        };
        Ok(Self { share: Share { server, path }, folder: folder(request)?, on_delete, mode: mode(request)? })
    }
}

fn wrong(key: &str, why: String) -> Error {
    Error::invalid_argument(format!("parameters.{key}: {why}"))
}

fn mode(request: &VolumeRequest) -> Result<u32> {
    let Some(text) = request.parameter(MODE) else { return Ok(DEFAULT_MODE) };
    let digits = !text.is_empty() && text.chars().all(|c| c.is_digit(8));
    let mode = u32::from_str_radix(&text, 8).ok().filter(|mode| digits && *mode <= MODES);
    mode.ok_or_else(|| wrong(MODE, format!("{} must be octal, 7777 at most", quoted(&text))))
}

/// The folder of the request's volume.
fn folder(request: &VolumeRequest) -> Result<Folder> {
    let name = request.name();
    let claim = (request.parameter(CLAIM_NAMESPACE), request.parameter(CLAIM_NAME));
    let path = match (request.parameter(PATH_PATTERN), &claim) {
        (Some(pattern), _) => filled(&pattern, request)?,
        (None, (Some(namespace), Some(claim))) => format!("{namespace}-{claim}-{name}"),
        (None, _) => name,
    };
    Folder::read(&path).map_err(|why| wrong(PATH_PATTERN, why))
}

/// Puts names in the place of the pattern's words.
fn filled(pattern: &str, request: &VolumeRequest) -> Result<String> {
    let mut path = String::new();
    let mut rest = pattern;
    while let Some((before, after)) = rest.split_once("${") {
        path.push_str(before);
        let (word, after) = after
            .split_once('}')
            .ok_or_else(|| wrong(PATH_PATTERN, format!("{} has a `${{` without `}}`", quoted(pattern))))?;
        let known = WORDS.iter().find(|(known, _)| *known == word).map(|(_, found)| *found);
        let value = match known {
            Some(Word::ClaimNamespace) => request.parameter(CLAIM_NAMESPACE),
            Some(Word::ClaimName) => request.parameter(CLAIM_NAME),
            Some(Word::VolumeName) => Some(request.name()),
            None => {
                let known: Vec<String> = WORDS.iter().map(|(known, _)| format!("${{{known}}}")).collect();
                let why = format!("{} is not known; there are {}", quoted(&format!("${{{word}}}")), known.join(", "));
                return Err(wrong(PATH_PATTERN, why));
            }
        };
        let value = value.ok_or_else(|| {
            let why = format!(
                "${{{word}}} is not known: the caller does not pass names of claims; \
                 start the provisioner with --extra-create-metadata"
            );
            wrong(PATH_PATTERN, why)
        })?;
        path.push_str(&value);
        rest = after;
    }
    path.push_str(rest);
    Ok(path)
}
