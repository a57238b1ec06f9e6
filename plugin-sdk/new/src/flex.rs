//! A skeleton that replaces a FlexVolume driver: a plugin that serves the driver's volumes, does
//! the kubelet's part, and refuses every call that only the driver can do as not ported yet.

use serde_json::{Map, Value};

use crate::template::{COMMON, Sdk, filled, words};
use crate::{File, Name};

/// The capabilities that the kubelet assumes when a driver does not report them.
const DEFAULTS: [(&str, bool); 3] = [("attach", true), ("fsGroup", true), ("requiresFSResize", true)];
/// A line of a template that begins with this names the drivers that the lines up to the next one
/// are for.
const ONLY: &str = "//? ";
/// Words in a script, and their replacement in a plugin.
const MOVES: &[(&str, &str)] = &[
    ("tmpfs", "`Tmpfs::new().size(...).create()`"),
    ("--bind", "`host_paths::open(...)?.bind(...)`, with the grant `host-paths`"),
    ("-o bind", "`host_paths::open(...)?.bind(...)`, with the grant `host-paths`"),
    ("losetup", "`loop_devices::create` and `loop_devices::remove`, with the grant `loop-files`"),
    ("mkfs", "`filesystems::format`, which never formats a device with data"),
    ("overlay", "`overlays`, with the grant of that name"),
    ("/dev/", "`block_devices::open`, with the grant `block-devices`"),
    ("kubernetes.io/secret", "`secrets`: the host writes a secret's values, and the plugin never sees them"),
];

/// A driver, and its answer to `init`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Driver {
    name: String,
    attach: bool,
    fs_group: bool,
    resize: bool,
    moves: Vec<&'static str>,
}

/// The reasons for which no skeleton can be made for a driver.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DriverError {
    /// Its name is not valid.
    #[error("\"{0}\" is not a name of a FlexVolume driver: write VENDOR/DRIVER, or DRIVER")]
    Name(String),
    /// A field of its answer is of another type.
    #[error("init: capabilities.{field}: {found} is neither true nor false")]
    Capability {
        /// The field.
        field: &'static str,
        /// The field's value, in JSON.
        found: String,
    },
}

impl Driver {
    /// The driver of this name, with its answer to `init`, and the text of its program if it is a
    /// script.
    ///
    /// # Errors
    /// For a name that is not valid, and an answer with a capability that is not a boolean.
    pub fn read(name: &str, answer: &Map<String, Value>, script: Option<&str>) -> Result<Self, DriverError> {
        let plain = |part: &str| {
            !part.is_empty() && part.chars().all(|one| one.is_ascii_alphanumeric() || matches!(one, '.' | '-' | '_'))
        };
        if name.split('/').count() > 2 || !name.split('/').all(plain) {
            return Err(DriverError::Name(name.to_owned()));
        }
        let said = answer.get("capabilities").and_then(Value::as_object);
        let can = |(field, default): (&'static str, bool)| match said.and_then(|said| said.get(field)) {
            None | Some(Value::Null) => Ok(default),
            Some(Value::Bool(can)) => Ok(*can),
            Some(other) => Err(DriverError::Capability { field, found: other.to_string() }),
        };
        let [attach, fs_group, resize] = DEFAULTS;
        let script = script.unwrap_or_default();
        let mut moves: Vec<&str> =
            MOVES.iter().filter(|(word, _)| script.contains(word)).map(|(_, instead)| *instead).collect();
        moves.dedup();
        Ok(Self { name: name.to_owned(), attach: can(attach)?, fs_group: can(fs_group)?, resize: can(resize)?, moves })
    }

    /// The plugin's default name: the driver's, in the letters that a plugin's name may have.
    #[must_use]
    pub fn plugin_name(&self) -> String {
        let part = |part: &str| part.to_ascii_lowercase().replace('_', "-");
        match self.name.split_once('/') {
            Some((vendor, driver)) => format!("{}/{}", part(vendor), part(driver)),
            None => part(&self.name),
        }
    }

    /// The files of a skeleton of this name.
    #[must_use]
    pub fn files(&self, name: &Name, sdk: &Sdk) -> Vec<File> {
        let mut words = words(name, sdk, "Volumes of a FlexVolume driver, without its program");
        words.push(("@driver@", self.name.clone()));
        words.push(("@traits@", self.traits()));
        words.push(("@moves@", self.moves_text()));
        let texts = [
            ("README.md", include_str!("../templates/flex/README.md")),
            ("src/lib.rs", include_str!("../templates/flex/src/lib.rs.in")),
            ("src/tests.rs", include_str!("../templates/flex/src/tests.rs.in")),
        ]
        .map(|(path, text)| (path, self.chosen(text)));
        let files: Vec<(&str, &str)> =
            COMMON.into_iter().chain(texts.iter().map(|(path, text)| (*path, text.as_str()))).collect();
        filled(&files, &words)
    }

    /// The capabilities in `export_plugin!`.
    fn traits(&self) -> String {
        match (self.attach, self.resize) {
            (true, true) => ", Attacher, Stager, Expander".to_owned(),
            (true, false) => ", Attacher, Stager".to_owned(),
            (false, _) => String::new(),
        }
    }

    fn moves_text(&self) -> String {
        if self.moves.is_empty() {
            return "`docs/flexvolume.md` of volhost lists the primitives that replace the driver's commands."
                .to_owned();
        }
        let lines: Vec<String> = self.moves.iter().map(|instead| format!("- {instead}")).collect();
        format!("Its program uses these; a plugin has:\n\n{}", lines.join("\n"))
    }

    /// A template's lines that are for this driver.
    fn chosen(&self, template: &str) -> String {
        let mut taken = true;
        let mut text = String::new();
        for line in template.lines() {
            match line.trim_start().strip_prefix(ONLY) {
                Some(whom) => {
                    taken = match whom {
                        "attach" => self.attach,
                        "no attach" => !self.attach,
                        "resize" => self.attach && self.resize,
                        "fsGroup" => self.fs_group,
                        "no fsGroup" => !self.fs_group,
                        _ => true,
                    }
                }
                None if taken => {
                    text.push_str(line);
                    text.push('\n');
                }
                None => {}
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(json: &str) -> Map<String, Value> {
        serde_json::from_str(json).unwrap()
    }

    fn driver(json: &str) -> Driver {
        Driver::read("Acme.org/my_lun", &answer(json), None).unwrap()
    }

    fn lib(driver: &Driver) -> String {
        let name = driver.plugin_name().parse().unwrap();
        let files = driver.files(&name, &Sdk::Version("1.2.3".to_owned()));
        for file in &files {
            assert!(!file.text.contains('@') && !file.text.contains(ONLY), "{}", file.text);
        }
        files.into_iter().find(|file| file.path.ends_with("lib.rs")).unwrap().text
    }

    #[test]
    fn a_skeleton_has_the_drivers_capabilities() {
        let all = lib(&driver(r#"{"status":"Success"}"#));
        assert!(all.contains(r#"serves("flexVolume:Acme.org/my_lun")"#) && all.contains(r#"name("acme.org/my-lun")"#));
        assert!(all.contains("export_plugin!(MyLunVolumes, Attacher, Stager, Expander);"));
        assert!(all.contains("apply_fs_group"));

        let plain = lib(&driver(r#"{"status":"Success","capabilities":{"attach":false,"fsGroup":false}}"#));
        assert!(plain.contains("export_plugin!(MyLunVolumes);"));
        assert!(!plain.contains("apply_fs_group") && !plain.contains("Attacher"));

        let fixed = lib(&driver(r#"{"capabilities":{"requiresFSResize":false}}"#));
        assert!(fixed.contains("export_plugin!(MyLunVolumes, Attacher, Stager);") && !fixed.contains("Expander"));
    }

    #[test]
    fn the_readme_lists_the_replacements_of_a_scripts_commands() {
        let script = "mount -t tmpfs x $2; device=$(losetup -f)";
        let driver = Driver::read("a/b", &Map::new(), Some(script)).unwrap();
        let files = driver.files(&"a/b".parse().unwrap(), &Sdk::Version("1".to_owned()));
        let readme = &files.iter().find(|file| file.path.ends_with("README.md")).unwrap().text;
        assert!(readme.contains("Tmpfs::new()") && readme.contains("loop_devices") && !readme.contains("overlays"));
    }

    #[test]
    fn an_invalid_driver_is_refused() {
        for name in ["", "a/b/c", "a/", "/b", "a\"b", "a b", "a/b\n"] {
            assert_eq!(Driver::read(name, &Map::new(), None), Err(DriverError::Name(name.to_owned())));
        }
        let error = Driver::read("a/b", &answer(r#"{"capabilities":{"attach":"no"}}"#), None).unwrap_err();
        assert_eq!(error.to_string(), "init: capabilities.attach: \"no\" is neither true nor false");
    }
}
