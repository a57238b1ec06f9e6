//! Which plugin may serve which volume source.

use serde::Deserialize;
use volhost_model::PluginName;

use super::shipped::{is_reserved, vendor};
use super::words::WordError;
use super::{Grant, GrantPolicy};

/// The fields by which Kubernetes' `Volume` and `PersistentVolumeSpec` (core/v1) name a source.
const KUBERNETES: [&str; 31] = [
    "awsElasticBlockStore",
    "azureDisk",
    "azureFile",
    "cephfs",
    "cinder",
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "fc",
    "flexVolume",
    "flocker",
    "gcePersistentDisk",
    "gitRepo",
    "glusterfs",
    "hostPath",
    "image",
    "iscsi",
    "local",
    "nfs",
    "persistentVolumeClaim",
    "photonPersistentDisk",
    "portworxVolume",
    "projected",
    "quobyte",
    "rbd",
    "scaleIO",
    "secret",
    "storageos",
    "vsphereVolume",
];

/// The right of a plugin to serve a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SourceRight {
    /// The operator granted it to this plugin.
    Granted,
    /// The plugin comes with volhost, or has the operator's leave to take the name of one that
    /// does.
    Shipped,
    /// No grant reserves the source: it belongs to the plugin that serves it first.
    Open,
    /// It is Kubernetes' own, or names a driver, and was not granted.
    Reserved,
    /// The operator granted it to several plugins, so none may serve it.
    GrantedToSeveral(Vec<PluginName>),
}

/// A volume source: a field's name, with a driver where the field names one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct SourceName(pub(super) String);

impl TryFrom<String> for SourceName {
    type Error = WordError;
    fn try_from(source: String) -> Result<Self, WordError> {
        if is_source(&source) {
            return Ok(Self(source));
        }
        Err(WordError::Source(source))
    }
}

/// Returns whether the text can be a source: a field's name, or a field's name and a driver.
pub(crate) fn is_source(source: &str) -> bool {
    let (field, driver) = source.split_once(':').map_or((source, None), |(field, driver)| (field, Some(driver)));
    let field_is_good = !field.is_empty() && field.chars().all(|c| c.is_ascii_alphanumeric());
    let driver_is_good = driver.is_none_or(|driver| {
        !driver.is_empty() && driver.chars().all(|c| c.is_ascii_alphanumeric() || "-./_".contains(c))
    });
    field_is_good && driver_is_good
}

impl GrantPolicy {
    /// A plugin that the operator granted this source.
    #[must_use]
    pub fn source_grantee(&self, source: &str) -> Option<&PluginName> {
        self.source_grantees(source).into_iter().next()
    }

    /// The plugins that the operator granted this source; those that the cluster did, if the
    /// operator granted it to none.
    fn source_grantees(&self, source: &str) -> Vec<&PluginName> {
        let grants = |grant: &Grant| grant.sources.contains(&SourceName(source.to_owned()));
        let own: Vec<&PluginName> =
            self.grants.iter().filter(|(_, grant)| grants(grant)).map(|(name, _)| name).collect();
        if !own.is_empty() {
            return own;
        }
        self.cluster.iter().filter(|(_, cluster)| grants(cluster.grant())).map(|(name, _)| name).collect()
    }

    /// The right of a plugin, which may use its name, to serve this source.
    #[must_use]
    pub fn source_right(&self, source: &str, plugin: &PluginName) -> SourceRight {
        let granted = self.source_grantees(source);
        if granted.contains(&plugin) {
            return match granted.as_slice() {
                [_] => SourceRight::Granted,
                _ => SourceRight::GrantedToSeveral(granted.into_iter().cloned().collect()),
            };
        }
        let field = source.split_once(':').map_or(source, |(field, _)| field);
        if is_reserved(vendor(plugin)) {
            SourceRight::Shipped
        } else if KUBERNETES.contains(&field) {
            SourceRight::Reserved
        } else {
            SourceRight::Open
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> PluginName {
        PluginName::new(text).unwrap()
    }

    #[test]
    fn kubernetes_own_sources_are_for_shipped_and_granted_plugins() {
        let policy: GrantPolicy = toml::from_str(
            "[\"a.b/c\"]\nsources = [\"nfs\", \"csi:c.a.b\", \"both\"]\n[\"a.b/d\"]\nsources = [\"both\"]\n",
        )
        .unwrap();
        for (source, plugin, right) in [
            ("emptyDir", "kubernetes.io/empty-dir", SourceRight::Shipped),
            ("emptyDir", "a.b/c", SourceRight::Reserved),
            ("csi", "a.b/c", SourceRight::Reserved),
            ("csi:ebs.csi.aws.com", "a.b/c", SourceRight::Reserved),
            ("flexVolume:a.b/c", "a.b/c", SourceRight::Reserved),
            ("nfs", "a.b/c", SourceRight::Granted),
            ("nfs", "a.b/d", SourceRight::Reserved),
            ("csi:c.a.b", "a.b/c", SourceRight::Granted),
            ("archive", "a.b/c", SourceRight::Open),
            ("both", "a.b/c", SourceRight::GrantedToSeveral(vec![name("a.b/c"), name("a.b/d")])),
        ] {
            assert_eq!(policy.source_right(source, &name(plugin)), right, "{source} of {plugin}");
        }
        assert!(toml::from_str::<GrantPolicy>("[\"a/b\"]\nsources = [\"../etc\"]").is_err());
    }
}
