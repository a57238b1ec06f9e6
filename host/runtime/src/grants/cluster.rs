//! Grants and settings that the cluster gives plugins which it installs.
//!
//! The node's operator bounds them: a grant that goes beyond the bound is refused, and no grant of
//! the cluster's changes what the operator's configuration says of a plugin.

use std::collections::BTreeMap;

use thiserror::Error;
use volhost_model::PluginName;

use super::shipped::{is_reserved, vendor};
use super::words::{EVERY_DRIVER, EVERY_REGISTRY};
use super::{Grant, Servers};
use crate::settings::{SettingValue, Values};

/// Why a grant of the cluster's cannot be used.
#[derive(Debug, Error)]
pub enum ClusterGrantError {
    /// The grants cannot be read.
    #[error("spec.grants: {0}")]
    Grants(#[source] serde_json::Error),
    /// The settings cannot be read.
    #[error("spec.settings: {0}")]
    Settings(#[source] serde_json::Error),
    /// The grant names its content itself.
    #[error("spec.grants: sha256 is not for the cluster: spec.digest names the content")]
    Content,
    /// A setting names a file of the node.
    #[error(
        "spec.settings.{0}: a secret's file is a file of the node, which the cluster may not name; set it on the node, under [settings] in the configuration file"
    )]
    SecretFile(String),
    /// The grant goes beyond what the operator lets the cluster grant.
    #[error(
        "the node does not let the cluster grant: {}; its operator may allow it, under [cluster-grants] in the node's configuration file",
        .0.join(", ")
    )]
    Beyond(Vec<String>),
}

/// What the cluster gives one plugin.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ClusterGrant {
    grant: Grant,
    settings: Values,
    /// The contents that may use it: SHA-256 in hex.
    contents: Vec<String>,
}

impl ClusterGrant {
    /// Reads a grant and settings, in JSON with the keys of the tables `[grants]` and `[settings]`.
    ///
    /// # Errors
    /// [`ClusterGrantError`], if they cannot be read or go beyond `bound`.
    pub fn read(grants: &str, settings: &str, bound: &Grant) -> Result<Self, ClusterGrantError> {
        let grant: Grant = serde_json::from_str(grants).map_err(ClusterGrantError::Grants)?;
        let settings: Values = serde_json::from_str(settings).map_err(ClusterGrantError::Settings)?;
        if !grant.sha256.is_empty() {
            return Err(ClusterGrantError::Content);
        }
        if let Some((name, _)) = settings.iter().find(|(_, value)| matches!(value, SettingValue::SecretFile(_))) {
            return Err(ClusterGrantError::SecretFile(name.clone()));
        }
        let beyond = grant.beyond(bound);
        if beyond.is_empty() {
            Ok(Self { grant, settings, contents: Vec::new() })
        } else {
            Err(ClusterGrantError::Beyond(beyond))
        }
    }

    /// Lets these contents use it, and no others.
    #[must_use]
    pub fn for_contents(mut self, contents: Vec<String>) -> Self {
        self.contents = contents;
        self
    }

    pub(super) fn settings(&self) -> &Values {
        &self.settings
    }

    pub(super) fn grant(&self) -> &Grant {
        &self.grant
    }

    /// The grant, if it is for this content.
    pub(super) fn of(&self, digest: &str) -> Option<&Grant> {
        self.contents.iter().any(|content| content == digest).then_some(&self.grant)
    }
}

/// What the cluster gives plugins, by the plugin's name.
pub type ClusterGrants = BTreeMap<PluginName, ClusterGrant>;

/// Returns whether the cluster may never install a plugin of this name: it is for plugins that come
/// with volhost.
#[must_use]
pub fn is_reserved_name(plugin: &PluginName) -> bool {
    is_reserved(vendor(plugin))
}

impl Grant {
    /// What it grants beyond another one: each word with its key.
    fn beyond(&self, bound: &Self) -> Vec<String> {
        let mut beyond = Beyond::default();
        let within = |root: &super::Root, bound: &[super::Root]| bound.iter().any(|outer| root.0.starts_with(&outer.0));
        let path = |root: &super::Root| root.0.display().to_string();
        beyond.add("interfaces", &self.interfaces, |one| bound.covers(&one.0), |one| one.0.clone());
        beyond.add("host-paths", &self.host_paths, |one| within(one, &bound.host_paths), path);
        beyond.add("loop-files", &self.loop_files, |one| within(one, &bound.loop_files), path);
        beyond.add("image-files", &self.image_files, |one| within(one, &bound.image_files), path);
        beyond.add("image-layouts", &self.image_layouts, |one| within(one, &bound.image_layouts), path);
        beyond.add("block-devices", &self.block_devices, |one| within(one, &bound.block_devices), path);
        beyond.add(
            "network-servers",
            &self.network_servers,
            |one| bound.network_servers.iter().any(|outer| outer.covers(one)),
            Servers::to_string,
        );
        beyond.add(
            "iscsi-portals",
            &self.iscsi_portals,
            |one| bound.iscsi_portals.iter().any(|outer| outer.covers(one)),
            ToString::to_string,
        );
        beyond.add(
            "fc-targets",
            &self.fc_targets,
            |one| bound.fc_targets.iter().any(|outer| outer.covers(one)),
            ToString::to_string,
        );
        let named = |word: &str, every: &str, outer: &str| outer == word || outer == every;
        beyond.add(
            "image-registries",
            &self.image_registries,
            |one| bound.image_registries.iter().any(|outer| named(&one.0, EVERY_REGISTRY, &outer.0)),
            |one| one.0.clone(),
        );
        beyond.add(
            "csi-drivers",
            &self.csi_drivers,
            |one| bound.csi_drivers.iter().any(|outer| named(&one.0, EVERY_DRIVER, &outer.0)),
            |one| one.0.clone(),
        );
        beyond.add(
            "flex-drivers",
            &self.flex_drivers,
            |one| bound.flex_drivers.iter().any(|outer| named(&one.0, super::EVERY_FLEX_DRIVER, &outer.0)),
            |one| one.0.clone(),
        );
        beyond.add(
            "fuse-servers",
            &self.fuse_servers.0,
            |(name, server)| bound.fuse_servers.0.get(*name) == Some(*server),
            |(name, _)| (*name).clone(),
        );
        beyond.add("sources", &self.sources, |one| bound.sources.contains(*one), |one| one.0.clone());
        for (key, own, outer) in [
            ("filesystems", &self.filesystems, &bound.filesystems),
            ("mount-options", &self.mount_options, &bound.mount_options),
        ] {
            match (own, outer) {
                (_, None) => {}
                // Mounts are bounded only where there is something to mount.
                (None, Some(_)) if self.mounts() => beyond.add_word(key, "all of them"),
                (None, Some(_)) => {}
                (Some(own), Some(outer)) => beyond.add(key, own, |one| outer.contains(*one), |one| one.0.clone()),
            }
        }
        let most = |own: Option<u64>, outer: Option<u64>| own.is_none_or(|own| outer.is_some_and(|outer| own <= outer));
        let size = |count: Option<usize>| count.map(|count| u64::try_from(count).unwrap_or(u64::MAX));
        // What is unlimited without a limit must have one if the bound has.
        for (key, interface, own, outer) in [
            ("image-size", "oci-images", self.image_size.map(|bytes| bytes.0), bound.image_size.map(|bytes| bytes.0)),
            ("loop-devices", "loop-devices", size(self.loop_devices), size(bound.loop_devices)),
        ] {
            let is_needed = outer.is_some() && self.covers(interface);
            if is_needed && own.is_none() || own.is_some() && outer.is_some() && !most(own, outer) {
                beyond.add_word(key, &own.map_or("no limit".to_owned(), |own| own.to_string()));
            }
        }
        // What raises a limit must be allowed.
        let milliseconds =
            |grant: &Self| grant.call_time.map(|time| u64::try_from(time.0.as_millis()).unwrap_or(u64::MAX));
        for (key, own, outer) in [
            ("memory", size(self.memory.map(|memory| memory.0)), size(bound.memory.map(|memory| memory.0))),
            ("call-time", milliseconds(self), milliseconds(bound)),
            (
                "concurrency",
                size(self.concurrency.map(std::num::NonZeroUsize::get)),
                size(bound.concurrency.map(std::num::NonZeroUsize::get)),
            ),
        ] {
            if !most(own, outer) {
                beyond.add_word(key, &own.map(|own| own.to_string()).unwrap_or_default());
            }
        }
        beyond.0
    }

    /// Returns whether a plugin with it can mount file systems or make images.
    fn mounts(&self) -> bool {
        ["loop-devices", "image-files", "network-mounts", "block-devices", "iscsi-sessions", "fc-devices", "oci-images"]
            .iter()
            .any(|interface| self.covers(interface))
    }
}

/// Words that go beyond a bound.
#[derive(Default)]
struct Beyond(Vec<String>);

impl Beyond {
    fn add<T>(
        &mut self,
        key: &str,
        words: impl IntoIterator<Item = T>,
        is_within: impl Fn(&T) -> bool,
        text: impl Fn(T) -> String,
    ) {
        for word in words {
            if !is_within(&word) {
                let word = text(word);
                self.add_word(key, &word);
            }
        }
    }

    fn add_word(&mut self, key: &str, word: &str) {
        self.0.push(format!("{key} {word}"));
    }
}

#[cfg(test)]
mod tests {
    use super::super::{GrantPolicy, Granted, ShippedPlugins, SourceRight};
    use super::*;

    fn bound() -> Grant {
        toml::from_str(
            "interfaces = ['secrets']\nhost-paths = ['/srv']\nnetwork-servers = ['192.0.2.0/24', 'nas.example.com']\n\
             csi-drivers = ['*']\nimage-registries = ['r.example']\nfilesystems = ['ext4', 'nfs']\nmemory = '128Mi'\n\
             loop-files = ['/srv/images']\nloop-devices = 4\nsources = ['archive']\n\
             fuse-servers.cow = { program = '/usr/bin/cow', arguments = ['{mount}'] }\n",
        )
        .unwrap()
    }

    fn beyond(grants: &str) -> Vec<String> {
        match ClusterGrant::read(grants, "{}", &bound()) {
            Ok(_) => Vec::new(),
            Err(ClusterGrantError::Beyond(words)) => words,
            Err(error) => panic!("{grants}: {error}"),
        }
    }

    #[test]
    fn a_grant_within_the_bound_is_taken() {
        for grants in [
            "{}",
            r#"{"host-paths":["/srv","/srv/a/b"],"interfaces":["secrets","host-paths"]}"#,
            r#"{"network-servers":["192.0.2.7","192.0.2.128/25","nas.example.com"],"filesystems":["nfs"]}"#,
            r#"{"csi-drivers":["a.example","*"],"memory":"64Mi","sources":["archive"]}"#,
            r#"{"loop-files":["/srv/images"],"loop-devices":4,"filesystems":["ext4"]}"#,
            r#"{"fuse-servers":{"cow":{"program":"/usr/bin/cow","arguments":["{mount}"]}}}"#,
        ] {
            assert_eq!(beyond(grants), [""; 0], "{grants}");
        }
    }

    #[test]
    fn each_word_beyond_the_bound_is_named() {
        for (grants, words) in [
            (r#"{"host-paths":["/srv","/","/srvx"]}"#, vec!["host-paths /", "host-paths /srvx"]),
            (r#"{"interfaces":["id-maps"]}"#, vec!["interfaces id-maps"]),
            (r#"{"network-servers":["192.0.0.0/16"],"filesystems":["nfs"]}"#, vec!["network-servers 192.0.0.0/16"]),
            (r#"{"network-servers":["*"],"filesystems":["nfs"]}"#, vec!["network-servers *"]),
            (r#"{"network-servers":["nas.example.com"]}"#, vec!["filesystems all of them"]),
            (r#"{"image-registries":["*"],"filesystems":[],"loop-devices":1}"#, vec!["image-registries *"]),
            (r#"{"filesystems":["xfs"]}"#, vec!["filesystems xfs"]),
            (r#"{"loop-files":["/srv/images"],"filesystems":[]}"#, vec!["loop-devices no limit"]),
            (r#"{"memory":"256Mi"}"#, vec!["memory 268435456"]),
            (r#"{"call-time":"10s"}"#, vec!["call-time 10000"]),
            (r#"{"sources":["nfs"]}"#, vec!["sources nfs"]),
            (r#"{"fuse-servers":{"cow":{"program":"/bin/sh","arguments":["{mount}"]}}}"#, vec!["fuse-servers cow"]),
        ] {
            let found = beyond(grants);
            for word in &words {
                assert!(found.contains(&(*word).to_owned()), "{grants}: {found:?}");
            }
            assert_eq!(found.len(), words.len(), "{grants}: {found:?}");
        }
    }

    #[test]
    fn what_only_the_node_may_say_is_refused() {
        let read = |grants, settings| ClusterGrant::read(grants, settings, &bound()).unwrap_err().to_string();
        assert!(read("{\"host_paths\":[\"/srv\"]}", "{}").contains("unknown field"));
        assert!(read("{\"host-paths\":[\"srv\"]}", "{}").contains("not an absolute path"));
        let pinned = format!("{{\"sha256\":[{:?}]}}", "a".repeat(64));
        assert!(read(&pinned, "{}").contains("spec.digest"));
        let secret = read("{}", "{\"password\":{\"file\":\"/etc/shadow\"}}");
        assert!(secret.contains("spec.settings.password"), "{secret}");
    }

    #[test]
    fn the_clusters_grant_is_for_its_content_and_never_against_the_operator() {
        let name = |text: &str| PluginName::new(text).unwrap();
        let (own, other) = ("a".repeat(64), "b".repeat(64));
        let grant =
            ClusterGrant::read("{\"host-paths\":[\"/srv\"],\"sources\":[\"archive\"]}", "{\"level\":3}", &bound());
        let grant = grant.unwrap().for_contents(vec![own.clone()]);
        let cluster: ClusterGrants =
            [name("a/b"), name("volhost.io/loop")].into_iter().map(|name| (name, grant.clone())).collect();
        let policy = |text: &str| {
            let operator: GrantPolicy = toml::from_str(text).unwrap();
            GrantPolicy::builtin(ShippedPlugins::default()).overridden_by(operator).with_cluster(cluster.clone())
        };
        let open = policy("");
        assert!(matches!(open.of(&name("a/b"), &own), Granted::To(grant) if grant.covers("host-paths")));
        assert!(matches!(open.of(&name("a/b"), &other), Granted::Nothing));
        assert!(!open.binds(&name("a/b")) && open.settings_of(&name("a/b")).contains_key("level"));
        assert!(matches!(open.of(&name("volhost.io/loop"), &own), Granted::NotItsName(_)));
        assert!(!open.vouches_for(&own), "a signature is required of it as of any other");
        assert_eq!(open.source_right("archive", &name("a/b")), SourceRight::Granted);

        let named = policy("[\"a/b\"]\ninterfaces = ['secrets']\n[\"c/d\"]\nsources = ['archive']\n");
        assert!(matches!(named.of(&name("a/b"), &own), Granted::To(grant) if !grant.covers("host-paths")));
        assert!(named.settings_of(&name("a/b")).is_empty() && named.is_named(&name("a/b")));
        assert_eq!(named.source_right("archive", &name("c/d")), SourceRight::Granted, "the operator's source stays");
        assert_eq!(open.changed_since(&policy("[\"a/b\"]\n")), [name("a/b")]);
        assert_eq!(open.changed_since(&GrantPolicy::builtin(ShippedPlugins::default())), [name("a/b")]);
    }
}
