//! The pod that wants the volume.

use std::fmt;

use crate::backend;
use crate::error::Result;

/// The pod that wants the volume. Each getter asks the host; a call's handle can't be kept after
/// the call.
///
/// ```
/// use volhost_plugin_sdk::prelude::*;
/// /// Lists the facts of a pod that a volume may depend on.
/// fn describe(pod: &Pod) -> String {
///     format!(
///         "{}/{} ({}) runs as {}; team {:?}, tier {:?}; memory {:?}, disk {:?}; group {:?}, user {:?}; inside: {:?}",
///         pod.namespace(), pod.name(), pod.uid(), pod.service_account(),
///         pod.label("team"), pod.annotation("example.com/tier"),
///         pod.memory_limit(), pod.ephemeral_storage_limit(),
///         pod.fs_group(), pod.fs_user(), pod.nested_mounts("data"),
///     )
/// }
///
/// # let _host = volhost_plugin_sdk::testing::TestHost::new();
/// let pod = Pod::builder().named("shop", "web-1").label("team", "a").memory_limit(1 << 30).huge_pages(2 << 20, 4 << 20);
/// assert!(describe(&pod.handle()).starts_with("shop/web-1"));
/// assert_eq!(pod.handle().field("metadata.name")?, "web-1");
/// assert_eq!(pod.handle().huge_page_sizes(), [2 << 20]);
/// assert_eq!(pod.handle().huge_page_limit(2 << 20), Some(4 << 20));
/// let pod = Pod::builder().resource_value("main", "limits.cpu", "1m", "500");
/// assert_eq!(pod.handle().resource_value("main", "limits.cpu", Some("1m"))?, "500");
/// # Ok::<(), Error>(())
/// ```
pub struct Pod<'call>(pub(crate) &'call backend::Pod);

impl<'call> Pod<'call> {
    pub(crate) fn new(handle: &'call backend::Pod) -> Self {
        Self(handle)
    }

    /// A pod for a test.
    #[cfg(not(target_family = "wasm"))]
    #[must_use]
    pub fn builder() -> crate::testing::TestPod {
        crate::testing::TestPod::new()
    }

    /// The pod's uid.
    #[must_use]
    pub fn uid(&self) -> String {
        self.0.uid()
    }

    /// Its namespace.
    #[must_use]
    pub fn namespace(&self) -> String {
        self.0.namespace()
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> String {
        self.0.name()
    }

    /// The service account it runs as.
    #[must_use]
    pub fn service_account(&self) -> String {
        self.0.service_account()
    }

    /// One label.
    #[must_use]
    pub fn label(&self, key: &str) -> Option<String> {
        self.0.label(key)
    }

    /// One annotation.
    #[must_use]
    pub fn annotation(&self, key: &str) -> Option<String> {
        self.0.annotation(key)
    }

    /// The sum of its containers' memory limits in bytes; none when a container has no limit.
    #[must_use]
    pub fn memory_limit(&self) -> Option<u64> {
        self.0.memory_limit()
    }

    /// The sum of its containers' limits of `ephemeral-storage`, in bytes; none when none of them
    /// has a limit.
    #[must_use]
    pub fn ephemeral_storage_limit(&self) -> Option<u64> {
        self.0.ephemeral_storage_limit()
    }

    /// `securityContext.fsGroup`: the group that must be able to use the volume's files.
    #[must_use]
    pub fn fs_group(&self) -> Option<u32> {
        self.0.fs_group()
    }

    /// `runAsUser`, when all containers share one.
    #[must_use]
    pub fn fs_user(&self) -> Option<u32> {
        self.0.fs_user()
    }

    /// A field as text, by the paths that `downwardAPI` volumes use, such as `metadata.name` or
    /// `metadata.labels['KEY']`.
    ///
    /// # Errors
    /// [`InvalidArgument`](crate::Error::InvalidArgument) for an unknown path.
    pub fn field(&self, path: &str) -> Result<String> {
        self.0.field(path).map_err(backend::error_in)
    }

    /// A container's `limits.NAME` or `requests.NAME` divided by `divisor`, rounded up. A missing
    /// limit is what the node gives to pods.
    ///
    /// # Errors
    /// [`InvalidArgument`](crate::Error::InvalidArgument) for an unknown container or name, or a
    /// divisor that Kubernetes does not allow for it.
    pub fn resource_value(&self, container: &str, name: &str, divisor: Option<&str>) -> Result<String> {
        self.0.resource_value(container, name, divisor).map_err(backend::error_in)
    }

    /// The sizes, in bytes, of the huge pages that the pod or a container of it requests,
    /// ascending.
    #[must_use]
    pub fn huge_page_sizes(&self) -> Vec<u64> {
        self.0.huge_page_sizes()
    }

    /// How many bytes in huge pages of this size the pod may have; none when it requests none of
    /// them.
    #[must_use]
    pub fn huge_page_limit(&self, size: u64) -> Option<u64> {
        self.0.huge_page_limit(size)
    }

    /// The folders in the pod's volume of this name on which its containers mount other volumes, as
    /// relative paths.
    #[must_use]
    pub fn nested_mounts(&self, volume: &str) -> Vec<String> {
        self.0.nested_mounts(volume)
    }

    pub(crate) fn handle(&self) -> &'call backend::Pod {
        self.0
    }
}

impl fmt::Debug for Pod<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pod({}/{})", self.namespace(), self.name())
    }
}
