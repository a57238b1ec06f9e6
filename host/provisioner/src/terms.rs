//! The parameters that a StorageClass gives its volumes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::secret_names::{SecretName, TemplateError, TemplateValues};

/// Parameters with this prefix are for the provisioner, and do not reach the driver.
const RESERVED: &str = "csi.storage.k8s.io/";
/// The file system.
const FS_TYPE: &str = "fstype";
/// The secrets by the beginnings of their two parameters.
const SECRETS: [&str; 6] = [
    "provisioner-secret",
    "controller-publish-secret",
    "node-stage-secret",
    "node-publish-secret",
    "controller-expand-secret",
    "node-expand-secret",
];

/// The fate of a volume whose claim is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reclaim {
    /// It is deleted.
    Delete,
    /// It stays.
    Retain,
}

/// The secrets for the calls of a volume.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SecretNames {
    /// To create and delete it.
    pub provision: Option<SecretName>,
    /// To attach it.
    pub publish: Option<SecretName>,
    /// To stage it.
    pub node_stage: Option<SecretName>,
    /// To publish it to a pod.
    pub node_publish: Option<SecretName>,
    /// To expand it.
    pub expand: Option<SecretName>,
    /// To expand it on the node.
    pub node_expand: Option<SecretName>,
}

/// The parameters of a class, with its templates filled in for one claim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Terms {
    /// The class's name.
    pub class: String,
    /// The driver that creates the volume.
    pub provisioner: String,
    /// The driver's own parameters.
    pub parameters: BTreeMap<String, String>,
    /// The file system; none: the driver's choice.
    pub fs_type: Option<String>,
    /// Its fate without its claim.
    pub reclaim: Reclaim,
    /// Mount options.
    pub mount_options: Vec<String>,
    /// Allowed topologies; empty: any.
    pub places: Vec<BTreeMap<String, Vec<String>>>,
    /// Its secrets.
    pub secrets: SecretNames,
}

/// A parameter of a class that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TermsError {
    /// It is unknown.
    #[error(
        "parameters.{key}: no such parameter; those that begin with {RESERVED} are fixed, the driver's own begin otherwise"
    )]
    Unknown {
        /// Its key.
        key: String,
    },
    /// A secret has a name and no namespace, or the other way round.
    #[error("parameters.{missing}: is missing, and goes with {given}")]
    Half {
        /// What is there.
        given: String,
        /// What is not.
        missing: String,
    },
    /// A template cannot be filled in.
    #[error("parameters.{key}: {source}")]
    Template {
        /// Its key.
        key: String,
        /// Why.
        source: TemplateError,
    },
}

/// The parameters of a class, by their recipient.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClassParameters {
    /// The driver's own.
    pub own: BTreeMap<String, String>,
    /// The file system.
    pub fs_type: Option<String>,
    /// Secrets, with their templates: name and namespace.
    secrets: BTreeMap<&'static str, (String, String)>,
}

impl ClassParameters {
    /// Reads and checks the keys.
    ///
    /// # Errors
    /// [`TermsError::Unknown`], [`TermsError::Half`].
    pub fn read(all: &BTreeMap<String, String>) -> Result<Self, TermsError> {
        let mut read = Self::default();
        for (key, value) in all {
            match key.strip_prefix(RESERVED) {
                None => drop(read.own.insert(key.clone(), value.clone())),
                Some(FS_TYPE) => read.fs_type = Some(value.clone()).filter(|text| !text.is_empty()),
                Some(rest) => {
                    let known = SECRETS.iter().any(|secret| {
                        rest.strip_prefix(secret).is_some_and(|rest| matches!(rest, "-name" | "-namespace"))
                    });
                    if !known {
                        return Err(TermsError::Unknown { key: key.clone() });
                    }
                }
            }
        }
        for secret in SECRETS {
            let [name, namespace] = ["name", "namespace"].map(|part| format!("{RESERVED}{secret}-{part}"));
            match (all.get(&name), all.get(&namespace)) {
                (Some(name), Some(namespace)) => {
                    drop(read.secrets.insert(secret, (name.clone(), namespace.clone())));
                }
                (Some(_), None) => return Err(TermsError::Half { given: name, missing: namespace }),
                (None, Some(_)) => return Err(TermsError::Half { given: namespace, missing: name }),
                (None, None) => {}
            }
        }
        Ok(read)
    }

    /// The secrets of one volume.
    ///
    /// # Errors
    /// [`TermsError::Template`].
    pub fn secrets(&self, here: &TemplateValues<'_>) -> Result<SecretNames, TermsError> {
        let one = |secret: &str| {
            let Some((name, namespace)) = self.secrets.get(secret) else { return Ok(None) };
            let fill_in = |part: &str, template: &str| {
                let filled = here.fill_in(template);
                filled.map_err(|source| TermsError::Template { key: format!("{RESERVED}{secret}-{part}"), source })
            };
            Ok(Some(SecretName { namespace: fill_in("namespace", namespace)?, name: fill_in("name", name)? }))
        };
        Ok(SecretNames {
            provision: one("provisioner-secret")?,
            publish: one("controller-publish-secret")?,
            node_stage: one("node-stage-secret")?,
            node_publish: one("node-publish-secret")?,
            expand: one("controller-expand-secret")?,
            node_expand: one("node-expand-secret")?,
        })
    }
}
