//! VolumeAttributesClasses: parameters of a volume that can change.

use std::collections::BTreeMap;

use thiserror::Error;

use crate::caches::Caches;

/// Why a class cannot be used.
#[derive(Debug, Error)]
pub(crate) enum AttributesError {
    /// It is not there, or not known yet.
    #[error("volumeattributesclass {0:?} not found")]
    NoClass(String),
    /// It is for other volumes.
    #[error("VolumeAttributesClass {class:?} is of the driver {driver:?}")]
    OtherDriver {
        /// The class.
        class: String,
        /// Its driver.
        driver: String,
    },
}

/// The parameters of the class with this name.
///
/// # Errors
/// [`AttributesError`].
pub(crate) fn attributes(
    caches: &Caches,
    driver: &str,
    class: &str,
) -> Result<BTreeMap<String, String>, AttributesError> {
    let found = caches.attributes_class(class).ok_or_else(|| AttributesError::NoClass(class.to_owned()))?;
    if found.driver_name != driver {
        return Err(AttributesError::OtherDriver { class: class.to_owned(), driver: found.driver_name.clone() });
    }
    Ok(found.parameters.clone().unwrap_or_default())
}
