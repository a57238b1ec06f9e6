//! The names of the files of objects that were added by request.

use std::ffi::{OsStr, OsString};

use volhost_model::names::PodUid;

use volhost_objects::{Kind, ObjectKey};

/// The longest uid that is part of a file's name, in bytes: the name, with the stem and what a
/// write adds, has 255 at most.
const MAX_UID_BYTES: usize = 200;

/// Returns the name of the file that stores an object. The uid is part of it for pods only.
pub(super) fn of(key: &ObjectKey, uid: &str) -> OsString {
    let stem = key.file_stem();
    let name = match key.kind {
        Kind::Pod => format!("{stem}.pod.{}.json", if uid.len() > MAX_UID_BYTES { "" } else { uid }),
        Kind::Secret => format!("{stem}.secret"),
        _ => format!("{stem}.json"),
    };
    name.into()
}

/// The parts of a file's name.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FileName<'a> {
    pub(super) stem: &'a str,
    pub(super) is_pod: bool,
    pub(super) is_secret: bool,
    /// A pod's uid, unless it is too long.
    pub(super) uid: Option<PodUid>,
}

impl<'a> FileName<'a> {
    pub(super) fn read(name: &'a OsStr) -> Option<Self> {
        let (stem, rest) = name.to_str()?.split_once('.')?;
        let of = |is_pod, is_secret, uid| Some(Self { stem, is_pod, is_secret, uid });
        match rest.strip_prefix("pod.").and_then(|rest| rest.strip_suffix(".json")) {
            Some(uid) => of(true, false, PodUid::new(uid).ok()),
            None if rest == "json" => of(false, false, None),
            None if rest == "secret" => of(false, true, None),
            None => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_name_has_the_kind_and_the_uid() {
        let read = |name: &'static str| FileName::read(OsStr::new(name));
        let pod = read("0a.pod.uid.with.dots.json").unwrap();
        assert_eq!((pod.stem, pod.is_pod, pod.uid), ("0a", true, PodUid::new("uid.with.dots").ok()));
        assert_eq!(read("0a.pod..json").unwrap().uid, None);
        assert!(read("0a.secret").unwrap().is_secret);
        assert!(!read("0a.json").unwrap().is_pod);
        for other in ["0a", "0a.txt", "json", ".json.new"] {
            assert_eq!(read(other), None, "{other}");
        }
    }

    #[test]
    fn the_name_of_a_pod_whose_uid_is_too_long_lacks_the_uid() {
        let key = ObjectKey::new(Kind::Pod, "default", "a");
        let name = of(&key, &"x".repeat(MAX_UID_BYTES + 1));
        let read = FileName::read(&name).unwrap();
        assert_eq!((read.stem, read.is_pod, read.uid), (key.file_stem().as_str(), true, None));
    }
}
