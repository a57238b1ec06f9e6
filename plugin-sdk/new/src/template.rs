//! The files of each template. In their texts `@word@` is replaced by what differs from plugin to
//! plugin.

use std::path::PathBuf;

use crate::{File, Name};

/// The starting points of a new plugin. Each is a complete plugin, with tests and an example
/// volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Template {
    /// A mount for each pod.
    Minimal,
    /// A block device of the node: attached, formatted, staged, mapped as a device, expanded.
    Block,
    /// A FUSE file system, served by a program without privilege.
    Fuse,
    /// A folder of a server, with keys from a secret.
    Network,
}

/// The origin of the SDK for a new crate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sdk {
    /// The folder of its crate, in a checkout of volhost.
    Folder(PathBuf),
    /// crates.io, in this version.
    Version(String),
}

impl Sdk {
    /// The value of `volhost-plugin-sdk` in a Cargo.toml.
    fn dependency(&self) -> String {
        match self {
            // A path in TOML is a string of its own rules, and those of JSON are a part of them.
            Self::Folder(folder) => format!("{{ path = {} }}", serde_json::Value::from(folder.display().to_string())),
            Self::Version(version) => format!("\"{version}\""),
        }
    }
}

const CARGO: (&str, &str) = ("Cargo.toml", include_str!("../templates/Cargo.toml.in"));
const IGNORE: (&str, &str) = (".gitignore", "/target\n");
/// The width of the templates' own lines.
const FORMAT: (&str, &str) = ("rustfmt.toml", "max_width = 120\nuse_small_heuristics = \"Max\"\n");

const MINIMAL: &[(&str, &str)] = &[
    CARGO,
    IGNORE,
    FORMAT,
    ("README.md", include_str!("../templates/minimal/README.md")),
    ("volume.yaml", include_str!("../templates/minimal/volume.yaml")),
    ("conformance.yaml", include_str!("../templates/minimal/conformance.yaml")),
    ("src/lib.rs", include_str!("../templates/minimal/src/lib.rs.in")),
    ("src/tests.rs", include_str!("../templates/minimal/src/tests.rs.in")),
];

const BLOCK: &[(&str, &str)] = &[
    CARGO,
    IGNORE,
    FORMAT,
    ("README.md", include_str!("../templates/block/README.md")),
    ("volume.yaml", include_str!("../templates/block/volume.yaml")),
    ("conformance.yaml", include_str!("../templates/block/conformance.yaml")),
    ("volhost.toml", include_str!("../templates/block/volhost.toml")),
    ("src/lib.rs", include_str!("../templates/block/src/lib.rs.in")),
    ("src/tests.rs", include_str!("../templates/block/src/tests.rs.in")),
];

const FUSE: &[(&str, &str)] = &[
    CARGO,
    IGNORE,
    FORMAT,
    ("README.md", include_str!("../templates/fuse/README.md")),
    ("volume.yaml", include_str!("../templates/fuse/volume.yaml")),
    ("conformance.yaml", include_str!("../templates/fuse/conformance.yaml")),
    ("volhost.toml", include_str!("../templates/fuse/volhost.toml")),
    ("src/lib.rs", include_str!("../templates/fuse/src/lib.rs.in")),
    ("src/tests.rs", include_str!("../templates/fuse/src/tests.rs.in")),
];

const NETWORK: &[(&str, &str)] = &[
    CARGO,
    IGNORE,
    FORMAT,
    ("README.md", include_str!("../templates/network/README.md")),
    ("volume.yaml", include_str!("../templates/network/volume.yaml")),
    ("conformance.yaml", include_str!("../templates/network/conformance.yaml")),
    ("volhost.toml", include_str!("../templates/network/volhost.toml")),
    ("src/lib.rs", include_str!("../templates/network/src/lib.rs.in")),
    ("src/tests.rs", include_str!("../templates/network/src/tests.rs.in")),
];

impl Template {
    /// The files of a plugin of this name.
    #[must_use]
    pub fn files(self, name: &Name, sdk: &Sdk) -> Vec<File> {
        let (files, description) = match self {
            Self::Minimal => (MINIMAL, "A volume in memory"),
            Self::Block => (BLOCK, "A block volume in a file"),
            Self::Fuse => (FUSE, "A folder with changes of its own"),
            Self::Network => (NETWORK, "A folder of a server"),
        };
        filled(files, &words(name, sdk, description))
    }
}

/// The values of the words of every template.
pub(crate) fn words(name: &Name, sdk: &Sdk, description: &str) -> Vec<(&'static str, String)> {
    vec![
        ("@plugin@", name.to_string()),
        ("@crate@", name.crate_name().to_owned()),
        ("@vendor@", name.vendor().to_owned()),
        ("@type@", name.type_name()),
        ("@field@", name.field()),
        ("@sdk@", sdk.dependency()),
        ("@description@", description.to_owned()),
    ]
}

/// `files`, with their words filled in.
pub(crate) fn filled(files: &[(&str, &str)], words: &[(&'static str, String)]) -> Vec<File> {
    let fill = |(path, text): &(&str, &str)| {
        let text = words.iter().fold((*text).to_owned(), |text, (word, value)| text.replace(word, value));
        File { path: PathBuf::from(path), text }
    };
    files.iter().map(fill).collect()
}

/// The files that every new crate has.
pub(crate) const COMMON: [(&str, &str); 3] = [CARGO, IGNORE, FORMAT];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_word_of_a_template_is_left_open() {
        let name = "acme.org/block-store".parse().unwrap();
        for template in [Template::Minimal, Template::Block, Template::Fuse, Template::Network] {
            for file in template.files(&name, &Sdk::Version("1.2.3".to_owned())) {
                let between: Vec<&str> = file.text.split('@').skip(1).collect();
                let open = between.iter().rev().skip(1).find(|text| text.chars().all(|c| c.is_ascii_lowercase()));
                assert_eq!(open, None, "{}: {}", file.path.display(), file.text);
            }
        }
    }

    #[test]
    fn the_dependency_names_the_chosen_sdk() {
        let folder = Sdk::Folder("/a \"b\"".into());
        assert_eq!(folder.dependency(), r#"{ path = "/a \"b\"" }"#);
        assert_eq!(Sdk::Version("1.2.3".to_owned()).dependency(), "\"1.2.3\"");
    }
}
