//! The keys of objects in namespaces.

use std::fmt;

use kube::Resource;

/// One object of a kind: another one of the same name has another UID.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ObjectKey {
    namespace: String,
    name: String,
    uid: String,
}

impl ObjectKey {
    /// The key of this object.
    pub(crate) fn of(object: &impl Resource) -> Self {
        let meta = object.meta();
        Self::new(meta.namespace.as_deref(), meta.name.as_deref(), meta.uid.as_deref())
    }

    /// The key of the object that is referred to by these.
    pub(crate) fn new(namespace: Option<&str>, name: Option<&str>, uid: Option<&str>) -> Self {
        let text = |value: Option<&str>| value.unwrap_or_default().to_owned();
        Self { namespace: text(namespace), name: text(name), uid: text(uid) }
    }

    /// Its namespace.
    pub(crate) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Its name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Its UID.
    pub(crate) fn uid(&self) -> &str {
        &self.uid
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.namespace, self.name)
    }
}
