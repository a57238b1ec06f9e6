//! open-iscsi's records of portals: `nodes/TARGET/ADDRESS,PORT`, or a folder of that name (with the
//! portal group's number) with a file for each interface. Each line is `name = value`.
//!
//! iscsiadm takes a password only as an argument, which every user of the node could read. So
//! passwords are written here, where open-iscsi itself keeps them, readable for root alone.

use std::fs;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use volhost_model::iscsi::{Chap, ChapUser, IscsiError};
use volhost_model::objects::Bytes;

use crate::error::PortalError;
use crate::places::Places;

/// The setting that marks a session whose units appear only when they are asked for: volhost's.
const SCAN: (&str, &str) = ("node.session.scan", "manual");
/// The interface of a record.
const INTERFACE: &str = "iface.iscsi_ifacename";
/// How long an attempt to log in may take, in seconds, and how many there are: the host tries
/// again itself, and says why meanwhile.
const LOGIN_TIMEOUT: &str = "10";
const LOGIN_ATTEMPTS: &str = "1";
/// The longest name or password that open-iscsi keeps, in bytes.
const CHAP_BYTES: usize = 255;

/// What a record is to say.
pub(crate) struct Settings(Vec<(&'static str, String)>);

impl Settings {
    /// A session that the host begins, that shows no unit by itself and authenticates so.
    ///
    /// # Errors
    /// [`IscsiError::Invalid`] for a name or password that a line cannot contain.
    pub(crate) fn new(chap: Option<&Chap>) -> Result<Self, IscsiError> {
        let mut settings: Vec<(&'static str, String)> = [
            SCAN,
            ("node.startup", "manual"),
            ("node.conn[0].startup", "manual"),
            ("node.session.initial_login_retry_max", LOGIN_ATTEMPTS),
            ("node.conn[0].timeo.login_timeout", LOGIN_TIMEOUT),
        ]
        .map(|(name, value)| (name, value.to_owned()))
        .into();
        if let Some(Chap { node, target }) = chap {
            settings.push(("node.session.auth.authmethod", "CHAP".to_owned()));
            let names = ["node.session.auth.username", "node.session.auth.password"];
            settings.extend(credentials(names, node)?);
            if let Some(target) = target {
                let names = ["node.session.auth.username_in", "node.session.auth.password_in"];
                settings.extend(credentials(names, target)?);
            }
        }
        Ok(Self(settings))
    }

    /// The record with these settings in place of its own.
    fn in_record(&self, record: &str) -> String {
        let set =
            |line: &&str| line.split_once(" = ").is_some_and(|(name, _)| self.0.iter().any(|(set, _)| *set == name));
        let kept: Vec<&str> = record.lines().filter(|line| !set(line)).collect();
        // Its last line is a comment that ends it.
        let at = kept.iter().rposition(|line| line.starts_with('#')).filter(|at| *at > 0).unwrap_or(kept.len());
        let (head, tail) = kept.split_at_checked(at).unwrap_or((&kept, &[]));
        let own = self.0.iter().map(|(name, value)| format!("{name} = {value}"));
        let lines =
            head.iter().map(|line| (*line).to_owned()).chain(own).chain(tail.iter().map(|line| (*line).to_owned()));
        lines.map(|line| line + "\n").collect()
    }
}

/// The lines of one direction.
fn credentials(
    names: [&'static str; 2],
    user: &ChapUser,
) -> Result<impl Iterator<Item = (&'static str, String)> + use<>, IscsiError> {
    let values = [value(names[0], &user.name)?, value(names[1], &user.password)?];
    Ok(names.into_iter().zip(values))
}

/// A text that is one value of a line. The error does not show it.
fn value(name: &str, bytes: &Bytes) -> Result<String, IscsiError> {
    let text = std::str::from_utf8(bytes).ok();
    let fits = |text: &&str| {
        !text.is_empty() && text.len() <= CHAP_BYTES && text.trim() == *text && !text.chars().any(char::is_control)
    };
    text.filter(fits).map(str::to_owned).ok_or_else(|| {
        let why = "open-iscsi takes 1 to 255 bytes, without a line break, and without a blank at the beginning or end";
        IscsiError::Invalid(format!("the secret's value for {name} is no CHAP name or password: {why}"))
    })
}

/// Writes the settings into the records of a portal.
///
/// # Errors
/// [`PortalError::NoRecord`] if there is none.
pub(crate) fn set(
    places: &Places,
    target: &str,
    portal: SocketAddr,
    interface: &str,
    settings: &Settings,
) -> Result<(), PortalError> {
    let files = files(places, target, portal);
    let mut written = false;
    for (base, file) in files {
        let record = fs::read_to_string(&file).map_err(PortalError::file(&file))?;
        if setting(&record, INTERFACE) == Some(interface) {
            replace(base, &file, &settings.in_record(&record)).map_err(PortalError::file(&file))?;
            written = true;
        }
    }
    if written {
        return Ok(());
    }
    let folders: Vec<String> = places.records.iter().map(|folder| folder.display().to_string()).collect();
    Err(PortalError::NoRecord(folders.join(" or ")))
}

/// Returns whether the portal's record says that its units appear only when they are asked for. A
/// session without it belongs to the node's administrator.
pub(crate) fn is_own(places: &Places, target: &str, portal: SocketAddr, interface: &str) -> bool {
    files(places, target, portal).iter().any(|(_, file)| {
        fs::read_to_string(file).is_ok_and(|record| {
            setting(&record, INTERFACE) == Some(interface) && setting(&record, SCAN.0) == Some(SCAN.1)
        })
    })
}

/// The records of a portal, each with the folder of all records.
fn files<'a>(places: &'a Places, target: &str, portal: SocketAddr) -> Vec<(&'a Path, PathBuf)> {
    let plain = format!("{},{}", portal.ip(), portal.port());
    let mut files = Vec::new();
    for base in &places.records {
        for path in entries(&base.join("nodes").join(target)) {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if name != plain && !name.starts_with(&format!("{plain},")) {
                continue;
            }
            if path.is_dir() {
                files.extend(entries(&path).into_iter().map(|file| (base.as_path(), file)));
            } else {
                files.push((base.as_path(), path));
            }
        }
    }
    files
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).map(|entries| entries.flatten().map(|entry| entry.path()).collect()).unwrap_or_default()
}

/// A setting of a record.
fn setting<'a>(record: &'a str, name: &str) -> Option<&'a str> {
    record.lines().filter_map(|line| line.split_once(" = ")).find(|(found, _)| *found == name).map(|(_, value)| value)
}

/// Replaces a file as a whole, readable for its owner alone. The new one is made where open-iscsi
/// looks for no records.
fn replace(folder: &Path, file: &Path, text: &str) -> io::Result<()> {
    let mut new = tempfile::Builder::new().prefix(".volhost-").tempfile_in(folder)?;
    new.write_all(text.as_bytes())?;
    new.persist(file).map(drop).map_err(|error| error.error)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORD: &str = "# BEGIN RECORD 2.1.8\nnode.name = iqn.a:b\nnode.startup = automatic\n\
                          iface.iscsi_ifacename = default\nnode.session.scan = auto\n# END RECORD\n";

    fn bytes(text: &str) -> Bytes {
        text.as_bytes().into()
    }

    fn chap(name: &str, password: &str) -> Chap {
        Chap { node: ChapUser { name: bytes(name), password: bytes(password) }, target: None }
    }

    #[test]
    fn settings_replace_those_of_the_record_before_its_end() {
        let settings = Settings::new(Some(&chap("node", "secret = 12"))).unwrap();
        let record = settings.in_record(RECORD);
        assert!(record.starts_with("# BEGIN RECORD 2.1.8\nnode.name = iqn.a:b\niface."), "{record}");
        assert!(record.ends_with("node.session.auth.password = secret = 12\n# END RECORD\n"), "{record}");
        assert_eq!(record.matches("node.startup").count(), 1, "{record}");
        assert_eq!(setting(&record, "node.session.scan"), Some("manual"));
        assert_eq!(settings.in_record(&record), record, "once more changes nothing");
    }

    #[test]
    fn a_password_that_would_be_another_line_is_refused_and_not_shown() {
        for bad in ["", "a\nnode.startup = automatic", " a", "a ", "a\0", &"a".repeat(256)] {
            let Err(error) = Settings::new(Some(&chap("node", bad))) else { panic!("{bad:?} is taken") };
            let text = error.to_string();
            assert!(text.contains("node.session.auth.password"), "{text}");
            assert!(bad.is_empty() || !text.contains(bad.trim()) || bad.trim().len() == 1, "{text}");
        }
    }

    #[test]
    fn records_of_both_layouts_are_written_for_their_owner_alone() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("nodes/iqn.a:b");
        fs::create_dir_all(target.join("192.0.2.1,3260,1")).unwrap();
        let (plain, grouped) = (target.join("::1,3260"), target.join("192.0.2.1,3260,1/default"));
        let other = target.join("192.0.2.1,3260,1/other");
        for file in [&plain, &grouped] {
            fs::write(file, RECORD).unwrap();
        }
        fs::write(&other, RECORD.replace("= default", "= other")).unwrap();
        let places = Places { records: vec![folder.path().to_owned()], ..Places::default() };
        for portal in ["[::1]:3260", "192.0.2.1:3260"] {
            let portal = portal.parse().unwrap();
            assert!(!is_own(&places, "iqn.a:b", portal, "default"));
            set(&places, "iqn.a:b", portal, "default", &Settings::new(None).unwrap()).unwrap();
            assert!(is_own(&places, "iqn.a:b", portal, "default"));
        }
        assert!(!fs::read_to_string(&other).unwrap().contains("manual"));
        assert_eq!(fs::metadata(&plain).unwrap().permissions().mode() & 0o777, 0o600);
        let missing =
            set(&places, "iqn.a:b", "192.0.2.1:860".parse().unwrap(), "default", &Settings::new(None).unwrap());
        assert!(matches!(missing, Err(PortalError::NoRecord(_))), "{missing:?}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no new file is left");
    }
}
