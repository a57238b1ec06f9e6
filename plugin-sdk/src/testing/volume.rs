//! Volumes made up for a test.

use std::collections::BTreeMap;

use crate::field_kind::FieldKind;

/// A volume made up for a test; [`crate::Volume::builder`] begins one.
///
/// ```
/// use volhost_plugin_sdk::prelude::*;
///
/// let cache = Volume::builder("emptyDir").field("medium", "Memory").read_only();
/// assert_eq!(cache.handle().string("medium").as_deref(), Some("Memory"));
/// ```
#[derive(Debug, Clone)]
pub struct TestVolume(Volume);

/// The handle's own data.
#[derive(Debug, Clone, Default)]
pub(crate) struct Volume {
    spec_name: String,
    source: String,
    fields: BTreeMap<String, String>,
    read_only: bool,
    as_device: bool,
    persistent_volume: Option<String>,
    claim: Option<String>,
    capacity: Option<u64>,
    access_modes: Vec<String>,
    mount_options: Vec<String>,
    selinux_label: Option<String>,
    mount_group: Option<u32>,
    annotations: BTreeMap<String, String>,
}

impl TestVolume {
    /// A writable volume `volume` of a pod's own, with this source and no field.
    #[must_use]
    pub fn new(source: &str) -> Self {
        Self(Volume { spec_name: "volume".to_owned(), source: source.to_owned(), ..Volume::default() })
    }

    /// Names it in the pod's folder.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        name.clone_into(&mut self.0.spec_name);
        self
    }

    /// Sets a field of the source by its path, such as `sizeLimit` or `items.0.key`; numbers and
    /// booleans become JSON's spelling.
    #[must_use]
    pub fn field(mut self, path: &str, value: impl ToString) -> Self {
        self.0.fields.insert(path.to_owned(), value.to_string());
        self
    }

    /// Removes a field again, with all below it.
    ///
    /// ```
    /// use volhost_plugin_sdk::prelude::*;
    /// # let _host = volhost_plugin_sdk::testing::TestHost::new();
    /// let whole = Volume::builder("share").field("server", "s1").field("path", "/a");
    /// let lacking = whole.without("path");
    /// assert_eq!(lacking.handle().fields(), ["server"]);
    /// ```
    #[must_use]
    pub fn without(mut self, path: &str) -> Self {
        let below = format!("{path}.");
        self.0.fields.retain(|field, _| field != path && !field.starts_with(&below));
        self
    }

    /// Makes it read-only.
    #[must_use]
    pub fn read_only(mut self) -> Self {
        self.0.read_only = true;
        self
    }

    /// Makes it a device.
    #[must_use]
    pub fn as_device(mut self) -> Self {
        self.0.as_device = true;
        self
    }

    /// Makes it come from this PersistentVolume, which also names it in the pod's folder.
    #[must_use]
    pub fn persistent_volume(mut self, name: &str) -> Self {
        self.0.persistent_volume = Some(name.to_owned());
        self.named(name)
    }

    /// Makes it come from this claim (`namespace/name`).
    #[must_use]
    pub fn claim(mut self, claim: &str) -> Self {
        self.0.claim = Some(claim.to_owned());
        self
    }

    /// Gives the PersistentVolume a capacity in bytes.
    #[must_use]
    pub fn capacity(mut self, bytes: u64) -> Self {
        self.0.capacity = Some(bytes);
        self
    }

    /// Adds an access mode of the PersistentVolume.
    #[must_use]
    pub fn access_mode(mut self, mode: &str) -> Self {
        self.0.access_modes.push(mode.to_owned());
        self
    }

    /// Adds a mount option of the PersistentVolume.
    #[must_use]
    pub fn mount_option(mut self, option: &str) -> Self {
        self.0.mount_options.push(option.to_owned());
        self
    }

    /// Gives the volume an SELinux label.
    #[must_use]
    pub fn selinux_label(mut self, label: &str) -> Self {
        self.0.selinux_label = Some(label.to_owned());
        self
    }

    /// Makes the volume be mounted for a pod with this group.
    #[must_use]
    pub fn mount_group(mut self, group: u32) -> Self {
        self.0.mount_group = Some(group);
        self
    }

    pub(crate) fn for_group(mut self, group: Option<u32>) -> Self {
        self.0.mount_group = group.or(self.0.mount_group);
        self
    }

    /// Annotates the PersistentVolume.
    #[must_use]
    pub fn annotation(mut self, key: &str, value: &str) -> Self {
        self.0.annotations.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Its name in the pod's folder.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.spec_name
    }

    /// The handle a plugin gets.
    #[must_use]
    pub fn handle(&self) -> crate::volume::Volume<'_> {
        crate::volume::Volume::new(&self.0)
    }
}

impl Volume {
    pub(crate) fn as_device(&self) -> bool {
        self.as_device
    }

    pub(crate) fn spec_name(&self) -> String {
        self.spec_name.clone()
    }

    pub(crate) fn source(&self) -> String {
        self.source.clone()
    }

    pub(crate) fn parameter(&self, path: &str) -> Option<String> {
        self.fields.get(path).cloned()
    }

    pub(crate) fn parameters(&self) -> Vec<String> {
        let mut names: Vec<String> =
            self.fields.keys().filter_map(|path| path.split('.').next()).map(str::to_owned).collect();
        names.sort();
        names.dedup();
        names
    }

    pub(crate) fn read_only(&self) -> bool {
        self.read_only
    }

    pub(crate) fn persistent_volume(&self) -> Option<String> {
        self.persistent_volume.clone()
    }

    pub(crate) fn claim(&self) -> Option<String> {
        self.claim.clone()
    }

    pub(crate) fn capacity(&self) -> Option<u64> {
        self.capacity
    }

    pub(crate) fn access_modes(&self) -> Vec<String> {
        self.access_modes.clone()
    }

    pub(crate) fn mount_options(&self) -> Vec<String> {
        self.mount_options.clone()
    }

    pub(crate) fn selinux_label(&self) -> Option<String> {
        self.selinux_label.clone()
    }

    pub(crate) fn mount_group(&self) -> Option<u32> {
        self.mount_group
    }

    pub(crate) fn annotation(&self, key: &str) -> Option<String> {
        self.annotations.get(key).filter(|_| key.starts_with("volhost.io/")).cloned()
    }

    /// A field that only has fields below it is a list when all of them are numbers, else a map.
    pub(crate) fn kind(&self, path: &str) -> Option<FieldKind> {
        let below = Volume::fields(self, path);
        let kind = match self.fields.get(path).map(String::as_str) {
            _ if !below.is_empty() => {
                if below.iter().all(|name| name.parse::<usize>().is_ok()) {
                    FieldKind::List
                } else {
                    FieldKind::Map
                }
            }
            None => return None,
            Some("{}") => FieldKind::Map,
            Some("[]") => FieldKind::List,
            Some("true" | "false") => FieldKind::Boolean,
            Some(text) if text.parse::<f64>().is_ok() => FieldKind::Number,
            Some(_) => FieldKind::Text,
        };
        Some(kind)
    }

    pub(crate) fn fields(&self, path: &str) -> Vec<String> {
        let prefix = if path.is_empty() { String::new() } else { format!("{path}.") };
        let below = self.fields.keys().filter_map(|field| field.strip_prefix(&prefix));
        let mut names: Vec<String> = below.filter_map(|rest| rest.split('.').next()).map(str::to_owned).collect();
        names.sort_by_key(|name| (name.parse::<usize>().ok(), name.clone()));
        names.dedup();
        names
    }

    pub(crate) fn names(&self, text: &str) -> bool {
        self.fields.values().any(|value| value == text)
    }
}
