//! Registries and OCI images of the double. The node keeps what was pulled.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::host::TestHost;
use super::mount::{DetachedMount, TestMount};
use super::world::current;
use crate::error::{Error, Result};

/// The registries, their images, and those that the node has.
#[derive(Debug, Default)]
pub(crate) struct OciImages {
    granted: Vec<String>,
    there: BTreeMap<String, u64>,
    on_node: BTreeSet<String>,
}

impl TestHost {
    /// Grants the plugin a registry, or with a path a folder of image layouts.
    pub fn grant_image_registry(&self, registry: &str) -> &Self {
        self.change(|world| world.oci.granted.push(registry.to_owned()))
    }

    /// Puts an image of this size in bytes into a registry or layout.
    pub fn registry_image(&self, reference: &str, size: u64) -> &Self {
        self.change(|world| {
            world.oci.there.insert(reference.to_owned(), size);
        })
    }
}

/// An image that the node has.
pub(crate) struct Image {
    reference: String,
    size: u64,
}

impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Image").field(&self.reference).finish()
    }
}

impl Image {
    pub(crate) fn digest(&self) -> String {
        format!("sha256:{:064x}", self.size)
    }

    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    pub(crate) fn mount(&self) -> Result<DetachedMount> {
        let world = current();
        world.borrow_mut().called("image.mount")?;
        let mut mount = TestMount::of_type("overlay");
        mount.source = Some(self.reference.clone());
        mount.flags.insert("ro".to_owned());
        Ok(DetachedMount::new(&world, mount))
    }
}

pub(crate) mod oci_images {
    use super::{Error, Image, Result, current};
    use crate::testing::pod::Pod;

    /// Checks what the host checks of a reference, as far as the double knows it.
    fn check(reference: &str) -> Result<()> {
        let (place, rest) = reference.split_once('/').unwrap_or((reference, ""));
        let is_odd = |c: char| c.is_whitespace() || c.is_control();
        if rest.is_empty() || reference.contains(is_odd) || reference.ends_with(':') {
            return Err(Error::invalid_argument(format!("{reference:?} is no reference of an image")));
        }
        let granted =
            |granted: &String| granted == place || (place == "oci:" && format!("/{rest}").starts_with(granted));
        if current().borrow().oci.granted.iter().any(granted) {
            return Ok(());
        }
        Err(Error::permission_denied(format!("the registry {place} is not granted to this plugin")))
    }

    pub(crate) fn find(reference: &str, _pod: &Pod) -> Result<Option<Image>> {
        check(reference)?;
        let world = current();
        world.borrow_mut().called("oci-images.find")?;
        let world = world.borrow();
        let has = world.oci.on_node.contains(reference);
        Ok(has.then(|| Image {
            reference: reference.to_owned(),
            size: world.oci.there.get(reference).copied().unwrap_or_default(),
        }))
    }

    pub(crate) fn pull(reference: &str, _pod: &Pod) -> Result<Image> {
        check(reference)?;
        let world = current();
        world.borrow_mut().called("oci-images.pull")?;
        let size = world.borrow().oci.there.get(reference).copied();
        let size = size.ok_or_else(|| Error::not_found(format!("{reference} is not there")))?;
        world.borrow_mut().oci.on_node.insert(reference.to_owned());
        Ok(Image { reference: reference.to_owned(), size })
    }

    pub(crate) fn is_latest(reference: &str) -> Result<bool> {
        check(reference)?;
        let name = reference.rsplit('/').next().unwrap_or_default();
        Ok(!name.contains('@') && name.split_once(':').is_none_or(|(_, tag)| tag == "latest"))
    }
}
