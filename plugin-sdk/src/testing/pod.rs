//! Pods made up for a test.

use std::collections::BTreeMap;

use crate::error::{Error, Result};

/// A pod made up for a test; [`crate::Pod::builder`] begins one.
///
/// ```
/// use volhost_plugin_sdk::prelude::*;
/// use volhost_plugin_sdk::testing::TestPod;
///
/// # let _host = volhost_plugin_sdk::testing::TestHost::new();
/// let pod = TestPod::new().with_uid("uid-1").service_account("builder").annotation("a", "b").fs_user(1000)
///     .ephemeral_storage_limit(1 << 30).nested_mount("data", "a/b");
/// assert_eq!(pod.uid(), "uid-1");
/// assert_eq!(pod.handle().nested_mounts("data"), ["a/b"]);
/// ```
#[derive(Debug, Clone)]
pub struct TestPod(Pod);

/// The handle's own data.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pod {
    uid: String,
    namespace: String,
    name: String,
    service_account: String,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
    memory_limit: Option<u64>,
    ephemeral_storage_limit: Option<u64>,
    fs_group: Option<u32>,
    fs_user: Option<u32>,
    /// By container, name and divisor.
    resources: BTreeMap<(String, String, String), String>,
    nested_mounts: BTreeMap<String, Vec<String>>,
    /// By size of page.
    huge_pages: BTreeMap<u64, u64>,
}

impl TestPod {
    /// The pod `default/pod` with uid `uid-1`, service account `default`, and nothing else set.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "it is a certain pod, not an empty one")]
    pub fn new() -> Self {
        Self(Pod {
            uid: "uid-1".to_owned(),
            namespace: "default".to_owned(),
            name: "pod".to_owned(),
            service_account: "default".to_owned(),
            ..Pod::default()
        })
    }

    /// Makes it another pod.
    #[must_use]
    pub fn with_uid(mut self, uid: &str) -> Self {
        uid.clone_into(&mut self.0.uid);
        self
    }

    /// Names it.
    #[must_use]
    pub fn named(mut self, namespace: &str, name: &str) -> Self {
        namespace.clone_into(&mut self.0.namespace);
        name.clone_into(&mut self.0.name);
        self
    }

    /// Sets its service account.
    #[must_use]
    pub fn service_account(mut self, name: &str) -> Self {
        name.clone_into(&mut self.0.service_account);
        self
    }

    /// Adds a label.
    #[must_use]
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.0.labels.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Adds an annotation.
    #[must_use]
    pub fn annotation(mut self, key: &str, value: &str) -> Self {
        self.0.annotations.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Limits its memory, in bytes.
    #[must_use]
    pub fn memory_limit(mut self, bytes: u64) -> Self {
        self.0.memory_limit = Some(bytes);
        self
    }

    /// Limits what it may put on the node's disk, in bytes.
    #[must_use]
    pub fn ephemeral_storage_limit(mut self, bytes: u64) -> Self {
        self.0.ephemeral_storage_limit = Some(bytes);
        self
    }

    /// Sets `fsGroup`.
    #[must_use]
    pub fn fs_group(mut self, group: u32) -> Self {
        self.0.fs_group = Some(group);
        self
    }

    pub(crate) fn group(&self) -> Option<u32> {
        self.0.fs_group
    }

    /// Sets the `runAsUser` that all its containers share.
    #[must_use]
    pub fn fs_user(mut self, user: u32) -> Self {
        self.0.fs_user = Some(user);
        self
    }

    /// Sets the value of a container's resource (`limits.cpu`), divided by this divisor. The double
    /// does not compute it.
    #[must_use]
    pub fn resource_value(mut self, container: &str, name: &str, divisor: &str, value: &str) -> Self {
        let key = (container.to_owned(), name.to_owned(), divisor.to_owned());
        self.0.resources.insert(key, value.to_owned());
        self
    }

    /// Makes its containers mount another volume on a folder in the volume of this name.
    #[must_use]
    pub fn nested_mount(mut self, volume: &str, folder: &str) -> Self {
        self.0.nested_mounts.entry(volume.to_owned()).or_default().push(folder.to_owned());
        self
    }

    /// Lets it have this many bytes in huge pages of this size.
    #[must_use]
    pub fn huge_pages(mut self, size: u64, bytes: u64) -> Self {
        self.0.huge_pages.insert(size, bytes);
        self
    }

    /// Its uid.
    #[must_use]
    pub fn uid(&self) -> &str {
        &self.0.uid
    }

    /// The handle a plugin gets.
    #[must_use]
    pub fn handle(&self) -> crate::pod::Pod<'_> {
        crate::pod::Pod::new(&self.0)
    }
}

impl Pod {
    pub(crate) fn uid(&self) -> String {
        self.uid.clone()
    }

    pub(crate) fn namespace(&self) -> String {
        self.namespace.clone()
    }

    pub(crate) fn name(&self) -> String {
        self.name.clone()
    }

    pub(crate) fn service_account(&self) -> String {
        self.service_account.clone()
    }

    pub(crate) fn label(&self, key: &str) -> Option<String> {
        self.labels.get(key).cloned()
    }

    pub(crate) fn annotation(&self, key: &str) -> Option<String> {
        self.annotations.get(key).cloned()
    }

    pub(crate) fn memory_limit(&self) -> Option<u64> {
        self.memory_limit
    }

    pub(crate) fn ephemeral_storage_limit(&self) -> Option<u64> {
        self.ephemeral_storage_limit
    }

    pub(crate) fn fs_group(&self) -> Option<u32> {
        self.fs_group
    }

    pub(crate) fn fs_user(&self) -> Option<u32> {
        self.fs_user
    }

    pub(crate) fn field(&self, path: &str) -> Result<String> {
        let of = |map: &BTreeMap<String, String>| {
            map.iter().map(|(key, value)| format!("{key}={value:?}")).collect::<Vec<_>>().join("\n")
        };
        let one = |kind: &str, map: &BTreeMap<String, String>| {
            let key = path.strip_prefix(kind)?.strip_prefix("['")?.strip_suffix("']")?;
            Some(map.get(key).cloned().unwrap_or_default())
        };
        match path {
            "metadata.name" => Ok(self.name.clone()),
            "metadata.namespace" => Ok(self.namespace.clone()),
            "metadata.uid" => Ok(self.uid.clone()),
            "metadata.labels" => Ok(of(&self.labels)),
            "metadata.annotations" => Ok(of(&self.annotations)),
            _ => one("metadata.labels", &self.labels)
                .or_else(|| one("metadata.annotations", &self.annotations))
                .ok_or_else(|| Error::invalid_argument(format!("{path:?} is not a field that a volume can contain"))),
        }
    }

    pub(crate) fn resource_value(&self, container: &str, name: &str, divisor: Option<&str>) -> Result<String> {
        let key = (container.to_owned(), name.to_owned(), divisor.unwrap_or("1").to_owned());
        let found = self.resources.get(&key).cloned();
        found.ok_or_else(|| Error::invalid_argument(format!("{name:?} of container {container:?} is not known")))
    }

    pub(crate) fn nested_mounts(&self, volume: &str) -> Vec<String> {
        self.nested_mounts.get(volume).cloned().unwrap_or_default()
    }

    pub(crate) fn huge_page_sizes(&self) -> Vec<u64> {
        self.huge_pages.keys().copied().collect()
    }

    pub(crate) fn huge_page_limit(&self, size: u64) -> Option<u64> {
        self.huge_pages.get(&size).copied()
    }
}
