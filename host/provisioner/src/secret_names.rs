//! Names of secrets in a StorageClass, which may have templates: `${pv.name}`, `${pvc.name}`,
//! `${pvc.namespace}`, `${pvc.annotations['KEY']}`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A secret, by name. Its content is never kept here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SecretName {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// Why a template cannot be filled in.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TemplateError {
    /// A brace is not closed.
    #[error("{template:?} has a ${{ without its }}")]
    Unclosed {
        /// The template.
        template: String,
    },
    /// A name that is not known.
    #[error(
        "{template:?} names ${{{word}}}, which is not known; there are ${{pv.name}}, ${{pvc.name}}, ${{pvc.namespace}} and ${{pvc.annotations['KEY']}}"
    )]
    Unknown {
        /// The template.
        template: String,
        /// The name.
        word: String,
    },
}

/// The values that templates can name.
#[derive(Debug, Clone, Copy)]
pub struct TemplateValues<'a> {
    /// The volume's name.
    pub volume: &'a str,
    /// The claim's namespace.
    pub namespace: &'a str,
    /// The claim's name.
    pub claim: &'a str,
    /// The claim's annotations.
    pub annotations: &'a BTreeMap<String, String>,
}

impl TemplateValues<'_> {
    /// The text with each template replaced.
    ///
    /// # Errors
    /// [`TemplateError`].
    pub fn fill_in(&self, template: &str) -> Result<String, TemplateError> {
        let mut filled = String::new();
        let mut rest = template;
        while let Some((before, after)) = rest.split_once("${") {
            let (word, after) =
                after.split_once('}').ok_or_else(|| TemplateError::Unclosed { template: template.to_owned() })?;
            filled.push_str(before);
            let value = self.value(word);
            filled.push_str(value.ok_or_else(|| {
                let (template, word) = (template.to_owned(), word.to_owned());
                TemplateError::Unknown { template, word }
            })?);
            rest = after;
        }
        filled.push_str(rest);
        Ok(filled)
    }

    fn value(&self, word: &str) -> Option<&str> {
        match word {
            "pv.name" => Some(self.volume),
            "pvc.name" => Some(self.claim),
            "pvc.namespace" => Some(self.namespace),
            _ => {
                let key = word.strip_prefix("pvc.annotations['")?.strip_suffix("']")?;
                self.annotations.get(key).map(String::as_str)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]

    use super::*;

    #[test]
    fn templates_are_filled_in_and_unknown_ones_refused() {
        let annotations = BTreeMap::from([("team/key".to_owned(), "blue".to_owned())]);
        let here = TemplateValues { volume: "pvc-1", namespace: "shop", claim: "data", annotations: &annotations };
        assert_eq!(here.fill_in("plain").unwrap(), "plain");
        assert_eq!(here.fill_in("${pvc.namespace}-${pvc.name}.x").unwrap(), "shop-data.x");
        assert_eq!(here.fill_in("${pv.name}${pvc.annotations['team/key']}").unwrap(), "pvc-1blue");
        for bad in ["${pvc.uid}", "${pvc.name", "${pvc.annotations['none']}", "${}"] {
            assert!(here.fill_in(bad).unwrap_err().to_string().contains("${"), "{bad}");
        }
    }
}
