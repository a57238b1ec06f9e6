//! The pod that wants the volume.

use std::fmt;

use crate::backend;

/// The pod that wants the volume. Each getter asks the host; a call's handle can't be kept after the call.
pub struct Pod<'call>(&'call backend::Pod);

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
}

impl fmt::Debug for Pod<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pod({}/{})", self.namespace(), self.name())
    }
}
