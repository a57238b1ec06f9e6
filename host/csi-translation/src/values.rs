//! What a field of a source may contain.

use volhost_model::names::check_dns_subdomain;
use volhost_model::text::shorten;

use crate::error::{TranslationError, TranslationProblem};

/// How much of a refused value a message shows, in characters.
const SHOWN_CHARS: usize = 100;

/// Returns the beginning of a value, for a message.
pub(crate) fn shown(text: &str) -> String {
    shorten(text, SHOWN_CHARS)
}

/// Checks a value that becomes the whole handle of a volume.
pub(crate) fn id<'a>(field: &str, value: &'a str) -> Result<&'a str, TranslationError> {
    if value.is_empty() {
        return Err(TranslationError::new(field, TranslationProblem::Missing));
    }
    without(field, value, char::is_control, "no control character")
}

/// Checks a value that becomes a part of a handle whose parts are separated by this character.
pub(crate) fn part<'a>(
    field: &str,
    value: &'a str,
    separator: char,
    rule: &'static str,
) -> Result<&'a str, TranslationError> {
    let value = id(field, value)?;
    without(field, value, |one| one == separator, rule)
}

/// Checks a value without these characters, which may be empty.
pub(crate) fn without<'a>(
    field: &str,
    value: &'a str,
    is_wrong: impl Fn(char) -> bool,
    rule: &'static str,
) -> Result<&'a str, TranslationError> {
    if value.chars().any(is_wrong) {
        let problem = TranslationProblem::Character { shown: shown(value), rule };
        return Err(TranslationError::new(field, problem));
    }
    Ok(value)
}

/// Checks the name of a Secret.
pub(crate) fn secret_name(field: &str, name: &str) -> Result<(), TranslationError> {
    check_dns_subdomain("Secret name", name).map_err(|error| TranslationError::new(field, error))
}

/// Checks the namespace of a Secret.
pub(crate) fn namespace(field: &str, name: &str) -> Result<(), TranslationError> {
    volhost_model::names::check_dns_label("namespace", name).map_err(|error| TranslationError::new(field, error))
}

/// Returns the text, or none if it is empty: Kubernetes leaves empty fields out.
pub(crate) fn given(text: Option<&String>) -> Option<String> {
    text.filter(|text| !text.is_empty()).cloned()
}
