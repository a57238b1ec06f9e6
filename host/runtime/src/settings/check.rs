//! Whether the operator's values are those that a plugin declares.

use thiserror::Error;
use volhost_model::PluginName;

use super::Values;
use super::declared::{DeclaredSetting, SettingKind};

/// A value that does not fit, or is missing.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SettingProblem {
    /// The plugin has no such setting.
    #[error("{name}: the plugin has no such setting; {}", has(.known))]
    Unknown {
        /// Its name in the configuration file.
        name: String,
        /// The settings that there are.
        known: Vec<String>,
    },
    /// The value has another type.
    #[error("{name}: it must be a {wanted}, and is a {given}{}", way_out(*.wanted, *.given))]
    Kind {
        /// The setting.
        name: String,
        /// Its type.
        wanted: SettingKind,
        /// The value's.
        given: SettingKind,
    },
    /// A value that the plugin requires is missing.
    #[error("{name}: it is required, and missing ({kind}: {help})")]
    Missing {
        /// The setting.
        name: String,
        /// Its type.
        kind: SettingKind,
        /// What it is for.
        help: String,
    },
}

fn has(known: &[String]) -> String {
    if known.is_empty() { "it has none".to_owned() } else { format!("it has: {}", known.join(", ")) }
}

fn way_out(wanted: SettingKind, given: SettingKind) -> &'static str {
    match (wanted, given) {
        (SettingKind::Secret, _) => "; put it into a file, and write { file = \"/PATH\" }",
        _ => "",
    }
}

/// Every problem of the values of a plugin that declares these settings.
pub(crate) fn check(declared: &[DeclaredSetting], values: &Values) -> Vec<SettingProblem> {
    let given = values.iter().filter_map(|(name, value)| {
        let Some(setting) = declared.iter().find(|setting| setting.name == *name) else {
            let known = declared.iter().map(|setting| setting.name.clone()).collect();
            return Some(SettingProblem::Unknown { name: name.clone(), known });
        };
        let (wanted, given) = (setting.kind, value.kind());
        (wanted != given).then(|| SettingProblem::Kind { name: name.clone(), wanted, given })
    });
    let missing = declared.iter().filter(|setting| setting.is_required && !values.contains_key(&setting.name));
    let missing = missing.map(|setting| SettingProblem::Missing {
        name: setting.name.clone(),
        kind: setting.kind,
        help: setting.help.clone(),
    });
    given.chain(missing).collect()
}

/// A plugin whose settings do not fit.
#[derive(Debug, Error)]
#[error(
    "the settings of plugin {plugin} do not fit, in the configuration file below [settings.\"{plugin}\"]: {}",
    .problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
)]
pub struct BadSettings {
    /// The plugin's name.
    pub plugin: PluginName,
    /// What is wrong.
    pub problems: Vec<SettingProblem>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(toml: &str) -> Values {
        toml::from_str(toml).unwrap()
    }

    fn declared() -> Vec<DeclaredSetting> {
        let setting = |name: &str, kind, is_required| DeclaredSetting {
            name: name.to_owned(),
            kind,
            is_required,
            help: format!("the {name}"),
        };
        vec![
            setting("server", SettingKind::Text, true),
            setting("retries", SettingKind::Number, false),
            setting("compress", SettingKind::Boolean, false),
            setting("mirrors", SettingKind::Texts, false),
            setting("password", SettingKind::Secret, false),
        ]
    }

    fn problems(toml: &str) -> Vec<String> {
        check(&declared(), &values(toml)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn values_of_the_declared_types_fit() {
        let all = "server = 'a'\nretries = 1.5\ncompress = false\nmirrors = ['b', 'c']\npassword = { file = '/p' }";
        assert_eq!(problems(all), Vec::<String>::new());
        assert_eq!(problems("server = ''"), Vec::<String>::new());
        let text = |name: &str| values(all)[name].text();
        assert_eq!(text("retries").as_deref(), Some("1.5"));
        assert_eq!(text("compress").as_deref(), Some("false"));
        assert_eq!((text("mirrors"), text("password")), (None, None));
        assert_eq!(values(all)["mirrors"].texts(), ["b", "c"]);
        let shown: Vec<String> = values(all).values().map(ToString::to_string).collect();
        assert_eq!(shown, ["false", r#"["b", "c"]"#, r#"{ file = "/p" }"#, "1.5", r#""a""#]);
    }

    #[test]
    fn each_problem_names_the_setting_and_the_way_out() {
        assert_eq!(problems(""), ["server: it is required, and missing (text: the server)"]);
        assert_eq!(
            problems("server = 1\nserevr = 'a'\npassword = 'hunter2'"),
            [
                "password: it must be a secret, and is a text; put it into a file, and write { file = \"/PATH\" }",
                "serevr: the plugin has no such setting; it has: server, retries, compress, mirrors, password",
                "server: it must be a text, and is a number",
            ]
        );
    }

    #[test]
    fn what_is_no_value_is_refused_when_the_file_is_read() {
        for (toml, words) in [
            ("a = [1]", "expected a string"),
            ("a = { path = '/p' }", "unknown field `path`"),
            ("a = {}", "missing field `file`"),
            ("a = { file = 'p' }", "not an absolute path"),
            ("a = nan", "finite"),
            ("a = 1979-05-27", "a date is no value; write it as a text"),
            (&format!("a = '{}'", "x".repeat(4097)), "at most 4096 bytes"),
        ] {
            let error = toml::from_str::<Values>(toml).unwrap_err().to_string();
            assert!(error.contains(words), "{toml}: {error}");
        }
    }
}
