//! The options as they are given, before defaults: one layer.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::Args;
use serde::Deserialize;
use volhost_model::PluginName;
use volhost_runtime::{Grant, GrantPolicy, PluginSettings};

use super::otlp::OtlpEndpoint;
use super::pod_scope::PodScope;
use super::values::{Label, LogFilter, LogFormat, StatusPage};
use volhost_flex_drivers::DriverPolicies;
use volhost_model::duration::HumanDuration;

/// One layer of options. The next layer supplies what is not given.
#[derive(Debug, Clone, Default, PartialEq, Args, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Settings {
    /// Folder of the pods' volumes, like the kubelet's root folder [default: /var/lib/volhost]
    #[arg(long, value_name = "DIR")]
    pub root_dir: Option<PathBuf>,
    /// Folder of plugins: each *.wasm in it is loaded, replaced when it changes and retired when it
    /// is removed [default: /usr/local/lib/volhost/plugins]
    #[arg(long, value_name = "DIR")]
    pub plugin_dir: Option<PathBuf>,
    /// Folder of Kubernetes manifests whose pods get their volumes here; watched [default: none,
    /// pods come through the API]
    #[arg(long, value_name = "DIR")]
    pub manifests: Option<PathBuf>,
    /// Folder in which CSI drivers' registrars create their sockets, like the kubelet's
    /// plugins_registry; watched [default: none, no drivers register]
    #[arg(long, value_name = "DIR")]
    pub plugin_registry: Option<PathBuf>,
    /// How long objects that vanish from the manifest folder are kept, as 30s, in case they are put
    /// back [default: 0s]
    #[arg(long, value_name = "DURATION")]
    pub manifest_grace: Option<HumanDuration>,
    /// The unix socket. On the command line it is the global option `--socket`.
    #[arg(skip)]
    pub socket: Option<PathBuf>,
    /// Group whose members may use the socket, by name or number: they can do what root can with
    /// volumes [default: none, root alone]
    #[arg(long, value_name = "GROUP")]
    pub socket_group: Option<String>,
    /// This node's name, for node affinity and spec.nodeName [default: the host name]
    #[arg(long, value_name = "NAME")]
    pub node_name: Option<String>,
    /// A label of this node, for node affinity; give it several times or separate with commas
    #[arg(long, value_name = "KEY=VALUE", value_delimiter = ',')]
    pub node_label: Option<Vec<Label>>,
    /// Folder for compiled plugins; only root may write there [default: /var/cache/volhost]
    #[arg(long, value_name = "DIR")]
    pub cache_dir: Option<PathBuf>,
    /// Format of the log lines on standard error: text or json [default: text]
    #[arg(long, value_name = "FORMAT")]
    pub log_format: Option<LogFormat>,
    /// What is logged: error, warn, info, debug, trace, or levels by module such as
    /// info,volhost=debug [default: info]
    #[arg(long, value_name = "LEVEL")]
    pub log_level: Option<LogFilter>,
    /// Address and port where metrics are served over HTTP, for Prometheus, as 127.0.0.1:9810; the
    /// path is /metrics [default: none]
    #[arg(long, value_name = "ADDRESS")]
    pub metrics_listen: Option<SocketAddr>,
    /// Where the metrics' listener serves the node's status page: `off`, `loopback` (if its address
    /// is one), `everywhere` [default: loopback]
    #[arg(long, value_name = "WHERE", hide_possible_values = true)]
    pub status_page: Option<StatusPage>,
    /// Collector that gets a trace of each operation over OTLP/gRPC: http://127.0.0.1:4317 or
    /// unix:/run/collector.sock [default: none]
    #[arg(long, value_name = "ENDPOINT")]
    pub otlp_endpoint: Option<OtlpEndpoint>,
    /// How long an operation on a volume may take before it is reported as overdue, as 2m or 30s
    /// [default: 2m]
    #[arg(long, value_name = "DURATION")]
    pub operation_deadline: Option<HumanDuration>,
    /// How long a plugin's own code may run in one call, system calls not counted, before it is
    /// stopped [default: 5s]
    #[arg(long, value_name = "DURATION")]
    pub plugin_cpu_time: Option<HumanDuration>,
    /// How many operations of one plugin may run at once; one that hangs keeps its slot [default:
    /// 64]
    #[arg(long, value_name = "NUMBER")]
    pub max_operations: Option<NonZeroUsize>,
    /// A controller attaches volumes to this node and reports it through the API, as in Kubernetes;
    /// otherwise volhost attaches them itself
    #[arg(long, value_name = "true|false", num_args = 0..=1, default_missing_value = "true")]
    pub controller_attaches: Option<bool>,
    /// Take the pods of this node from a Kubernetes cluster: the daemon starts the node agent beside
    /// itself, starts it again when it ends, and ends it first; --controller-attaches is then the
    /// default
    #[arg(long, value_name = "true|false", num_args = 0..=1, default_missing_value = "true")]
    pub kubernetes: Option<bool>,
    /// The kubeconfig file; goes with --kubernetes [default: the service account, or KUBECONFIG]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Which pods of the node are volhost's: node for all, label:SELECTOR, annotation:KEY=VALUE or
    /// runtime-class:NAME; goes with --kubernetes [default: node]
    #[arg(long, value_name = "SCOPE")]
    pub scope: Option<PodScope>,
    /// File with the private key (PKCS#8 PEM: Ed25519, P-256 or RSA) that signs service account
    /// tokens; only its owner may read it [default: none; in a cluster, node-agent has them issued]
    #[arg(long, value_name = "FILE")]
    pub token_signing_key: Option<PathBuf>,
    /// The issuer that the tokens name, usually an https URL; goes with --token-signing-key
    #[arg(long, value_name = "URL")]
    pub token_issuer: Option<String>,
    /// The longest lifetime of a token, whatever a pod requests; goes with --token-signing-key
    /// [default: as requested]
    #[arg(long, value_name = "DURATION")]
    pub token_max_lifetime: Option<HumanDuration>,
    /// File to which the line "ready" is written once requests are served: a file, a FIFO, or
    /// /dev/fd/N [default: none]
    #[arg(long, value_name = "FILE")]
    pub ready_file: Option<PathBuf>,
    /// How often plugins verify that their volumes are still attached, as 1m or 10s [default: 1m]
    #[arg(long, value_name = "DURATION")]
    pub verify_attached: Option<HumanDuration>,
    /// How often volumes are republished whose driver requires it (requiresRepublish), as 1m or 10s
    /// [default: 1m]
    #[arg(long, value_name = "DURATION")]
    pub refresh_period: Option<HumanDuration>,
    /// Plugins whose volumes a controller attaches in any case; in the file only.
    #[arg(skip)]
    pub controller_attaches_for: Option<BTreeSet<PluginName>>,
    /// Folder of FlexVolume drivers, watched: VENDOR~DRIVER/DRIVER in it is run for volumes that
    /// name it [default: none, no drivers]
    #[arg(long, value_name = "DIR")]
    pub flex_driver_dir: Option<PathBuf>,
    /// Limits of FlexVolume drivers, by the driver's name; in the file only.
    #[arg(skip)]
    pub flex_drivers: Option<DriverPolicies>,
    /// Nodes that are out of service, by the storage's names for them: volumes attached there are
    /// detached when this node needs them; in the file only.
    #[arg(skip)]
    pub nodes_out_of_service: Option<BTreeSet<String>>,
    /// Folder of public keys (*.pub, as minisign and cosign write them): a plugin with a signature
    /// beside it must be signed by one [default: none, signatures are not checked]
    #[arg(long, value_name = "DIR")]
    pub trusted_keys: Option<PathBuf>,
    /// Load only plugins that a trusted key has signed (FILE.wasm.minisig, FILE.wasm.sig), or whose
    /// content a grant names (sha256); goes with --trusted-keys
    #[arg(long, value_name = "true|false", num_args = 0..=1, default_missing_value = "true")]
    pub require_signature: Option<bool>,
    /// List of the plugins that come with volhost, by the SHA-256 of their files; the build writes
    /// it [default: ../lib/volhost/shipped-plugins.sha256 or ../shipped-plugins.sha256, seen from
    /// the program's folder]
    #[arg(long, value_name = "FILE")]
    pub shipped_plugins: Option<PathBuf>,
    /// Provision volumes for claims whose StorageClass names a registered CSI driver or a plugin
    /// that provisions volumes, and delete them by its reclaim policy. Only if no cluster does it
    #[arg(long, value_name = "true|false", num_args = 0..=1, default_missing_value = "true")]
    pub provision: Option<bool>,
    /// How long the volume that was provisioned for a claim is kept if the claim is missing but was
    /// not deleted, as 30m; goes with --provision [default: 1h]
    #[arg(long, value_name = "DURATION")]
    pub reclaim_grace: Option<HumanDuration>,
    /// How many volumes of a plugin may be attached to this node at once, by the plugin's name; in
    /// the file only.
    #[arg(skip)]
    pub attach_limits: Option<BTreeMap<PluginName, u32>>,
    /// Let the cluster install plugins on this node, by VolumePlugin objects that the node agent
    /// reads; they are checked as those of the plugin folder are, and granted no more than
    /// [cluster-grants] in the file allows [default: false]
    #[arg(long, value_name = "true|false", num_args = 0..=1, default_missing_value = "true")]
    pub cluster_plugins: Option<bool>,
    /// The most that the cluster may grant the plugins that it installs; in the file only.
    #[arg(skip)]
    pub cluster_grants: Option<Grant>,
    /// Grants of plugins; in the file only.
    #[arg(skip)]
    pub grants: Option<GrantPolicy>,
    /// Values for plugins; in the file only.
    #[arg(skip)]
    pub settings: Option<PluginSettings>,
}

impl Settings {
    /// This layer, completed by the layer `below`.
    #[must_use]
    pub fn over(self, below: Self) -> Self {
        Self {
            root_dir: self.root_dir.or(below.root_dir),
            plugin_dir: self.plugin_dir.or(below.plugin_dir),
            manifests: self.manifests.or(below.manifests),
            plugin_registry: self.plugin_registry.or(below.plugin_registry),
            manifest_grace: self.manifest_grace.or(below.manifest_grace),
            socket: self.socket.or(below.socket),
            socket_group: self.socket_group.or(below.socket_group),
            node_name: self.node_name.or(below.node_name),
            node_label: self.node_label.or(below.node_label),
            cache_dir: self.cache_dir.or(below.cache_dir),
            log_format: self.log_format.or(below.log_format),
            log_level: self.log_level.or(below.log_level),
            metrics_listen: self.metrics_listen.or(below.metrics_listen),
            status_page: self.status_page.or(below.status_page),
            otlp_endpoint: self.otlp_endpoint.or(below.otlp_endpoint),
            operation_deadline: self.operation_deadline.or(below.operation_deadline),
            plugin_cpu_time: self.plugin_cpu_time.or(below.plugin_cpu_time),
            max_operations: self.max_operations.or(below.max_operations),
            token_signing_key: self.token_signing_key.or(below.token_signing_key),
            token_issuer: self.token_issuer.or(below.token_issuer),
            token_max_lifetime: self.token_max_lifetime.or(below.token_max_lifetime),
            ready_file: self.ready_file.or(below.ready_file),
            controller_attaches: self.controller_attaches.or(below.controller_attaches),
            kubernetes: self.kubernetes.or(below.kubernetes),
            kubeconfig: self.kubeconfig.or(below.kubeconfig),
            scope: self.scope.or(below.scope),
            controller_attaches_for: self.controller_attaches_for.or(below.controller_attaches_for),
            verify_attached: self.verify_attached.or(below.verify_attached),
            refresh_period: self.refresh_period.or(below.refresh_period),
            flex_driver_dir: self.flex_driver_dir.or(below.flex_driver_dir),
            flex_drivers: self.flex_drivers.or(below.flex_drivers),
            nodes_out_of_service: self.nodes_out_of_service.or(below.nodes_out_of_service),
            trusted_keys: self.trusted_keys.or(below.trusted_keys),
            require_signature: self.require_signature.or(below.require_signature),
            shipped_plugins: self.shipped_plugins.or(below.shipped_plugins),
            provision: self.provision.or(below.provision),
            reclaim_grace: self.reclaim_grace.or(below.reclaim_grace),
            attach_limits: self.attach_limits.or(below.attach_limits),
            cluster_plugins: self.cluster_plugins.or(below.cluster_plugins),
            cluster_grants: self.cluster_grants.or(below.cluster_grants),
            grants: self.grants.or(below.grants),
            settings: self.settings.or(below.settings),
        }
    }
}
