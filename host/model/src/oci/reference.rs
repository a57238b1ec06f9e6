//! Names of plugins and images in registries.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use thiserror::Error;

use super::digest::{Digest, DigestError};
use crate::text::printable;

/// The longest name of a repository, of the distribution specification, in bytes.
const NAME_BYTES: usize = 255;
/// The longest tag, likewise.
const TAG_BYTES: usize = 128;

/// The registry of images that name none.
const DOCKER: &str = "docker.io";
/// Where it has its own images.
const LIBRARY: &str = "library";
/// The tag of an image that is named without one.
pub const LATEST: &str = "latest";

/// What a name lacks.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ReferenceError {
    /// The registry is not named.
    #[error("'{0}' names no registry: write HOST/NAME:TAG, such as registry.example.com/acme/archive:1.0")]
    NoHost(String),
    /// The host is none.
    #[error("'{0}' is no host: a name or address, with :PORT if it has one of its own")]
    Host(String),
    /// The repository's name cannot be one.
    #[error(
        "'{0}' is no name of a repository: parts of a-z, 0-9 and single separators . _ - between them, joined by /"
    )]
    Name(String),
    /// The tag cannot be one.
    #[error("'{0}' is no tag: up to 128 letters, digits, _ . -, and neither . nor - comes first")]
    Tag(String),
    /// The digest cannot be one.
    #[error(transparent)]
    Digest(#[from] DigestError),
}

/// A plugin or image in a registry: `HOST[:PORT]/NAME[:TAG][@DIGEST]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    host: String,
    name: String,
    tag: Option<String>,
    digest: Option<Digest>,
}

impl Reference {
    /// The registry: its name or address, and its port if that is written.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The repository.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The repository's last part: the default name of a plugin's file.
    pub fn short_name(&self) -> &str {
        self.name.rsplit('/').next().unwrap_or(&self.name)
    }

    /// The tag, if one is written.
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// The digest of the manifest, if one is written.
    pub fn digest(&self) -> Option<&Digest> {
        self.digest.as_ref()
    }

    /// The same repository, pinned to a manifest.
    #[must_use]
    pub fn pinned(&self, digest: Digest) -> Self {
        Self { digest: Some(digest), ..self.clone() }
    }

    /// Reads the name of an image as container runtimes do: without a host it is one of Docker's
    /// registry, where a name of one part is below `library`; with neither tag nor digest it has the
    /// tag `latest`.
    ///
    /// # Errors
    /// [`ReferenceError`].
    pub fn of_image(text: &str) -> Result<Self, ReferenceError> {
        let is_host = |part: &str| part.contains(['.', ':']) || part == "localhost";
        let read: Self = match text.split_once('/') {
            Some((host, _)) if is_host(host) => text.parse()?,
            Some(_) => format!("{DOCKER}/{text}").parse()?,
            None => format!("{DOCKER}/{LIBRARY}/{text}").parse()?,
        };
        let tag = match (&read.tag, &read.digest) {
            (None, None) => Some(LATEST.to_owned()),
            _ => read.tag.clone(),
        };
        Ok(Self { tag, ..read })
    }

    /// Whether the registry runs on this machine, going by its name.
    pub fn is_of_this_machine(&self) -> bool {
        is_loopback(host_alone(&self.host))
    }
}

/// The host without its port.
pub fn host_alone(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((alone, port)) if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) => alone,
        _ => host,
    }
}

/// Whether a host is this machine, going by its name.
pub fn is_loopback(host: &str) -> bool {
    let host = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

impl fmt::Display for Reference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.host, self.name)?;
        if let Some(tag) = &self.tag {
            write!(formatter, ":{tag}")?;
        }
        self.digest.as_ref().map_or(Ok(()), |digest| write!(formatter, "@{digest}"))
    }
}

impl FromStr for Reference {
    type Err = ReferenceError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (rest, digest) = match text.split_once('@') {
            Some((rest, digest)) => (rest, Some(digest.parse()?)),
            None => (text, None),
        };
        let shown = || printable(text);
        let (host, path) = rest.split_once('/').ok_or_else(|| ReferenceError::NoHost(shown()))?;
        // What docker takes for a part of a name on its own registry is refused: it would silently
        // be another's.
        if !(host.contains(['.', ':']) || host == "localhost") {
            return Err(ReferenceError::NoHost(shown()));
        }
        if !is_host(host) {
            return Err(ReferenceError::Host(printable(host)));
        }
        let (name, tag) = match path.split_once(':') {
            Some((name, tag)) => (name, Some(tag)),
            None => (path, None),
        };
        if name.len() > NAME_BYTES || !name.split('/').all(is_name_part) {
            return Err(ReferenceError::Name(printable(name)));
        }
        if let Some(tag) = tag.filter(|tag| !is_tag(tag)) {
            return Err(ReferenceError::Tag(printable(tag)));
        }
        Ok(Self { host: host.to_owned(), name: name.to_owned(), tag: tag.map(str::to_owned), digest })
    }
}

fn is_host(host: &str) -> bool {
    let alone = host_alone(host);
    if let Some(address) = alone.strip_prefix('[') {
        return address.strip_suffix(']').is_some_and(|address| address.parse::<std::net::Ipv6Addr>().is_ok());
    }
    let label = |label: &str| {
        !label.is_empty()
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let port = host.get(alone.len() + 1..).unwrap_or("443");
    alone.split('.').all(label) && port.parse::<u16>().is_ok_and(|port| port != 0)
}

/// `[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*`
fn is_name_part(part: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let separator =
        |run: &str| matches!(run, "." | "_" | "__") || (!run.is_empty() && run.bytes().all(|byte| byte == b'-'));
    let ends_plain = |part: &str| part.bytes().next().is_some_and(plain) && part.bytes().next_back().is_some_and(plain);
    let separators = part.split(|character: char| character.is_ascii() && plain(character as u8));
    ends_plain(part) && separators.filter(|run| !run.is_empty()).all(separator)
}

fn is_tag(tag: &str) -> bool {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    tag.len() <= TAG_BYTES
        && tag.bytes().next().is_some_and(word)
        && tag.bytes().all(|byte| word(byte) || byte == b'.' || byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Reference, ReferenceError> {
        text.parse()
    }

    #[test]
    fn a_whole_reference_is_taken_apart_and_put_together() {
        let digest = Digest::of(b"x");
        for (text, host, name, tag, pinned) in [
            ("registry.example.com/acme/archive:1.0", "registry.example.com", "acme/archive", Some("1.0"), false),
            ("localhost:5000/a", "localhost:5000", "a", None, false),
            ("[::1]:5000/a__b/c--d:_x", "[::1]:5000", "a__b/c--d", Some("_x"), false),
            (&format!("r.example/a:1@{digest}"), "r.example", "a", Some("1"), true),
        ] {
            let reference = parse(text).unwrap();
            assert_eq!((reference.host(), reference.name(), reference.tag()), (host, name, tag), "{text}");
            assert_eq!(reference.digest().is_some(), pinned);
            assert_eq!(reference.to_string(), text);
        }
        assert_eq!(parse("r.example/acme/archive:1").unwrap().short_name(), "archive");
    }

    #[test]
    fn what_could_be_another_place_is_refused() {
        for text in ["archive", "acme/archive:1", "archive:1"] {
            assert!(matches!(parse(text), Err(ReferenceError::NoHost(_))), "{text}");
        }
        for text in ["r.example:0/a", "user@r.example/a", "r.example:99999/a", "-r.example/a", "r..example/a", "[::1/a"]
        {
            assert!(parse(text).is_err(), "{text}");
        }
        for text in [
            "r.example/",
            "r.example/A",
            "r.example/a//b",
            "r.example/a..b",
            "r.example/../b",
            "r.example/a/",
            "r.example/a?b",
            "r.example/é",
        ] {
            assert!(matches!(parse(text), Err(ReferenceError::Name(_))), "{text}");
        }
        for text in ["r.example/a:", "r.example/a:.x", "r.example/a:x/y", "r.example/a:x y"] {
            assert!(matches!(parse(text), Err(ReferenceError::Tag(_))), "{text}");
        }
        assert!(matches!(parse("r.example/a@sha256:00"), Err(ReferenceError::Digest(_))));
        assert!(parse(&format!("r.example/{}", "a".repeat(256))).is_err());
    }

    #[test]
    fn an_image_is_named_as_container_runtimes_read_it() {
        let pinned = format!("r.example/a@{}", Digest::of(b"x"));
        for (text, full) in [
            ("nginx", "docker.io/library/nginx:latest"),
            ("acme/nginx:1", "docker.io/acme/nginx:1"),
            ("localhost/a", "localhost/a:latest"),
            ("r.example:5000/a/b:2", "r.example:5000/a/b:2"),
            (&pinned, &pinned),
        ] {
            assert_eq!(Reference::of_image(text).unwrap().to_string(), full);
        }
        for text in ["", "Nginx", "a b", "nginx:", "../a", "nginx@sha256:00", "r.example/"] {
            assert!(Reference::of_image(text).is_err(), "{text}");
        }
    }

    #[test]
    fn this_machine_goes_by_its_own_names_alone() {
        for (host, here) in [
            ("localhost", true),
            ("127.0.0.1:5000", true),
            ("[::1]:5000", true),
            ("127.0.0.1.evil.example", false),
            ("10.0.0.1:80", false),
        ] {
            assert_eq!(parse(&format!("{host}/a")).unwrap().is_of_this_machine(), here, "{host}");
        }
    }
}
