//! The options as the daemon uses them, with defaults.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

use volhost_model::PluginName;
use volhost_model::names::check_dns_subdomain;
use volhost_runtime::{Grant, GrantPolicy, PluginSettings, ShippedPlugins};

use super::environment::EnvironmentVariables;
use super::error::ConfigError;
use super::file;
use super::otlp::OtlpEndpoint;
use super::pod_scope::PodScope;
use super::settings::Settings;
use super::socket::DEFAULT_SOCKET;
use super::values::{LogFilter, LogFormat, StatusPage};
use volhost_flex_drivers::DriverPolicies;
use volhost_model::duration::HumanDuration;

const DEFAULT_ROOT_DIR: &str = "/var/lib/volhost";
const DEFAULT_PLUGIN_DIR: &str = "/usr/local/lib/volhost/plugins";
const DEFAULT_CACHE_DIR: &str = "/var/cache/volhost";
/// As long as the kubelet lets a pod wait for its volumes, about.
const DEFAULT_OPERATION_DEADLINE: Duration = Duration::from_secs(120);
/// An honest plugin computes for microseconds.
const DEFAULT_PLUGIN_CPU_TIME: Duration = Duration::from_secs(5);
/// The kernel reports vanished storage to its users: this is for volumes that are not in use at the
/// moment.
const DEFAULT_VERIFY_ATTACHED: Duration = Duration::from_secs(60);
/// Long enough to notice that the manifest folder lacks a file, and to put it back.
const DEFAULT_RECLAIM_GRACE: Duration = Duration::from_secs(60 * 60);
/// As the kubelet, which looks at each pod about once a minute.
const DEFAULT_REFRESH_PERIOD: Duration = Duration::from_secs(60);
/// Operations of one plugin for each processor, one thread each: enough that a few hung ones leave
/// room, and so few that plugins that compute all the time leave processors to everything else.
const OPERATIONS_PER_PROCESSOR: usize = 8;
/// The least and the most of it. More operations at once help no disk.
const LEAST_OPERATIONS: NonZeroUsize = NonZeroUsize::MIN.saturating_add(15);
const MOST_OPERATIONS: NonZeroUsize = NonZeroUsize::MIN.saturating_add(63);

/// The shortest life that tokens can be bound to: renewing one takes milliseconds, and clocks
/// differ by seconds.
const SHORTEST_LIFETIME: Duration = Duration::from_secs(10);

/// How tokens of service accounts are issued.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenSigning {
    /// The file with the private key; absolute.
    pub key: PathBuf,
    /// Their issuer.
    pub issuer: String,
    /// The longest that one lives, in whole seconds.
    pub max_lifetime: Option<Duration>,
}

/// The node agent that the daemon runs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KubernetesOptions {
    /// Its kubeconfig file, absolute; none: the service account's, or that of `KUBECONFIG`.
    pub kubeconfig: Option<PathBuf>,
    /// Which pods of the node it brings.
    pub scope: PodScope,
}

/// The daemon's options.
#[derive(Debug, Clone, PartialEq)]
pub struct RunConfig {
    /// The folder of the pods' volumes; absolute.
    pub root_dir: PathBuf,
    /// The folder of plugins; absolute.
    pub plugin_dir: PathBuf,
    /// The folder of manifests, if there is one; absolute.
    pub manifests: Option<PathBuf>,
    /// The folder of registration sockets, if CSI drivers may register.
    pub plugin_registry: Option<PathBuf>,
    /// Pods that vanish from the manifest folder are kept this long.
    pub manifest_grace: Duration,
    /// The unix socket; absolute.
    pub socket: PathBuf,
    /// The group whose members may use the socket, if there is one.
    pub socket_group: Option<String>,
    /// This node's name.
    pub node_name: String,
    /// This node's labels. `kubernetes.io/hostname` is always among them.
    pub node_labels: BTreeMap<String, String>,
    /// The folder for compiled plugins; absolute.
    pub cache_dir: PathBuf,
    /// How log lines are written.
    pub log_format: LogFormat,
    /// What is logged.
    pub log_level: LogFilter,
    /// Where metrics are served over HTTP, if they are.
    pub metrics_listen: Option<SocketAddr>,
    /// Where the status page is served.
    pub status_page: StatusPage,
    /// The collector of traces, if there is one.
    pub otlp_endpoint: Option<OtlpEndpoint>,
    /// After this long an operation is reported as overdue.
    pub operation_deadline: Duration,
    /// A plugin's own code may run this long in one call.
    pub plugin_cpu_time: Duration,
    /// How many operations of one plugin may run at once.
    pub max_operations: NonZeroUsize,
    /// A controller attaches volumes, not the host.
    pub controller_attaches: bool,
    /// The cluster from which the node agent brings pods, if the daemon is to run one.
    pub kubernetes: Option<KubernetesOptions>,
    /// The plugins whose volumes a controller attaches in any case.
    pub controller_attaches_for: BTreeSet<PluginName>,
    /// How often plugins are asked which volumes are attached.
    pub verify_attached: Duration,
    /// How often volumes are republished whose driver requires it.
    pub refresh_period: Duration,
    /// Nodes that are out of service, by the storage's names for them.
    pub nodes_out_of_service: BTreeSet<String>,
    /// How many volumes of a plugin may be attached at once.
    pub attach_limits: BTreeMap<PluginName, u32>,
    /// The folder of FlexVolume drivers, if they are looked for; absolute.
    pub flex_driver_dir: Option<PathBuf>,
    /// What bounds FlexVolume drivers.
    pub flex_drivers: DriverPolicies,
    /// How tokens of service accounts are issued, if they are.
    pub token_signing: Option<TokenSigning>,
    /// The file that gets the line `ready` when requests are served.
    pub ready_file: Option<PathBuf>,
    /// What plugins are allowed: what the plugins that come with volhost need, overridden by the
    /// file's `[grants]`, and the values of its `[settings]`.
    pub grants: GrantPolicy,
    /// The folder of trusted keys, if there is one; absolute.
    pub trusted_keys: Option<PathBuf>,
    /// Only plugins that a trusted key has signed, or whose content a grant names, are loaded.
    pub require_signature: bool,
    /// Volumes are provisioned for claims that name a StorageClass.
    pub provision: bool,
    /// The volume of a claim that is missing and was not deleted is kept this long.
    pub reclaim_grace: Duration,
    /// The most that the cluster may grant the plugins that it installs; none if it may install
    /// none.
    pub cluster_plugins: Option<Grant>,
    /// The file that was read; its grants are read again when it changes.
    pub file: Option<PathBuf>,
}

/// Merges the layers: `flags`, then the environment, then the file, then the defaults.
///
/// `file` is the command line's `--config`; the environment's `VOLHOST_CONFIG` counts when it is
/// not given.
///
/// # Errors
/// [`ConfigError`] names the place, the option and what would be right. No folder is looked at.
pub fn load(
    flags: Settings,
    file: Option<PathBuf>,
    environment: &EnvironmentVariables,
) -> Result<RunConfig, ConfigError> {
    let file = file.or_else(|| environment.get("config").map(PathBuf::from));
    let from_file = file.as_deref().map(file::settings).transpose()?.unwrap_or_default();
    let given = flags.over(environment.settings()?).over(from_file);

    let shipped = shipped(given.shipped_plugins.as_deref())?;
    let node_name = match given.node_name {
        Some(name) => name,
        None => host_name()?,
    };
    check_dns_subdomain("the node's name", &node_name)
        .map_err(|error| ConfigError::Value { option: "node-name", message: error.to_string() })?;
    let mut node_labels = BTreeMap::from([("kubernetes.io/hostname".to_owned(), node_name.clone())]);
    node_labels.extend(given.node_label.unwrap_or_default().into_iter().map(|label| (label.key, label.value)));
    let kubernetes = kubernetes(given.kubernetes.unwrap_or_default(), given.kubeconfig, given.scope)?;
    let or_default = |path: Option<PathBuf>, default: &str| path.unwrap_or_else(|| PathBuf::from(default));

    Ok(RunConfig {
        root_dir: absolute("root-dir", &or_default(given.root_dir, DEFAULT_ROOT_DIR))?,
        plugin_dir: absolute("plugin-dir", &or_default(given.plugin_dir, DEFAULT_PLUGIN_DIR))?,
        manifests: given.manifests.map(|folder| absolute("manifests", &folder)).transpose()?,
        plugin_registry: given.plugin_registry.map(|folder| absolute("plugin-registry", &folder)).transpose()?,
        manifest_grace: given.manifest_grace.map_or(Duration::ZERO, |HumanDuration(time)| time),
        reclaim_grace: given.reclaim_grace.map_or(DEFAULT_RECLAIM_GRACE, |HumanDuration(time)| time),
        socket: absolute("socket", &or_default(given.socket, DEFAULT_SOCKET))?,
        socket_group: given.socket_group,
        node_name,
        node_labels,
        cache_dir: absolute("cache-dir", &or_default(given.cache_dir, DEFAULT_CACHE_DIR))?,
        log_format: given.log_format.unwrap_or_default(),
        log_level: given.log_level.unwrap_or_default(),
        metrics_listen: given.metrics_listen,
        status_page: given.status_page.unwrap_or_default(),
        otlp_endpoint: given.otlp_endpoint,
        operation_deadline: positive("operation-deadline", given.operation_deadline, DEFAULT_OPERATION_DEADLINE)?,
        plugin_cpu_time: positive("plugin-cpu-time", given.plugin_cpu_time, DEFAULT_PLUGIN_CPU_TIME)?,
        max_operations: given.max_operations.unwrap_or_else(|| {
            default_max_operations(std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN))
        }),
        // In a cluster a controller does.
        controller_attaches: given.controller_attaches.unwrap_or(kubernetes.is_some()),
        kubernetes,
        controller_attaches_for: given.controller_attaches_for.unwrap_or_default(),
        verify_attached: positive("verify-attached", given.verify_attached, DEFAULT_VERIFY_ATTACHED)?,
        refresh_period: positive("refresh-period", given.refresh_period, DEFAULT_REFRESH_PERIOD)?,
        nodes_out_of_service: given.nodes_out_of_service.unwrap_or_default(),
        attach_limits: given.attach_limits.unwrap_or_default(),
        flex_driver_dir: given.flex_driver_dir.map(|folder| absolute("flex-driver-dir", &folder)).transpose()?,
        flex_drivers: given.flex_drivers.unwrap_or_default(),
        token_signing: token_signing(given.token_signing_key, given.token_issuer, given.token_max_lifetime)?,
        ready_file: given.ready_file,
        grants: policy(shipped, given.grants, given.settings),
        trusted_keys: given.trusted_keys.map(|folder| absolute("trusted-keys", &folder)).transpose()?,
        require_signature: given.require_signature.unwrap_or_default(),
        provision: given.provision.unwrap_or_default(),
        cluster_plugins: given.cluster_plugins.unwrap_or_default().then(|| given.cluster_grants.unwrap_or_default()),
        file: file.map(|file| absolute("config", &file)).transpose()?,
    })
}

/// The options of the node agent, if there is to be one.
fn kubernetes(
    is_wanted: bool,
    kubeconfig: Option<PathBuf>,
    scope: Option<PodScope>,
) -> Result<Option<KubernetesOptions>, ConfigError> {
    if is_wanted {
        let kubeconfig = kubeconfig.map(|file| absolute("kubeconfig", &file)).transpose()?;
        return Ok(Some(KubernetesOptions { kubeconfig, scope: scope.unwrap_or_default() }));
    }
    let given = [("kubeconfig", kubeconfig.is_some()), ("scope", scope.is_some())];
    match given.into_iter().find(|(_, is_given)| *is_given) {
        Some((option, _)) => {
            let message = "it goes with kubernetes, which is not given".to_owned();
            Err(ConfigError::Value { option, message })
        }
        None => Ok(None),
    }
}

/// How many operations of one plugin run at once on a node of so many processors.
fn default_max_operations(processors: NonZeroUsize) -> NonZeroUsize {
    let wanted = processors.get().saturating_mul(OPERATIONS_PER_PROCESSOR);
    NonZeroUsize::new(wanted).unwrap_or(MOST_OPERATIONS).clamp(LEAST_OPERATIONS, MOST_OPERATIONS)
}

fn policy(shipped: ShippedPlugins, grants: Option<GrantPolicy>, settings: Option<PluginSettings>) -> GrantPolicy {
    let own = grants.unwrap_or_default().with_settings(settings.unwrap_or_default());
    GrantPolicy::builtin(shipped).overridden_by(own)
}

/// What plugins are allowed, by this file's `[grants]` over what the plugins that come with volhost
/// need, and the values of its `[settings]`.
///
/// # Errors
/// [`ConfigError`] names the file, the option and what would be right.
pub fn grants(file: Option<&Path>) -> Result<GrantPolicy, ConfigError> {
    let from_file = file.map(file::settings).transpose()?.unwrap_or_default();
    let shipped = shipped(from_file.shipped_plugins.as_deref())?;
    Ok(policy(shipped, from_file.grants, from_file.settings))
}

/// The trusted signers of plugins, from one configuration file.
#[derive(Debug, Default)]
pub struct TrustedSigners {
    /// Folder of public keys.
    pub trusted_keys: Option<PathBuf>,
    /// Whether plugins need a signature.
    pub require_signature: bool,
}

/// The signers of plugins that the configuration file trusts, as `volhost run` reads them.
///
/// # Errors
/// [`ConfigError`] names the file, the option and what would be right.
pub fn trusted_signers(file: Option<&Path>) -> Result<TrustedSigners, ConfigError> {
    let given = file.map(file::settings).transpose()?.unwrap_or_default();
    Ok(TrustedSigners {
        trusted_keys: given.trusted_keys.map(|folder| absolute("trusted-keys", &folder)).transpose()?,
        require_signature: given.require_signature.unwrap_or_default(),
    })
}

/// The list of the plugins that come with volhost: the one that is named, or the one beside the
/// program.
fn shipped(named: Option<&Path>) -> Result<ShippedPlugins, ConfigError> {
    let list = match named {
        Some(list) => ShippedPlugins::Listed(vec![absolute("shipped-plugins", list)?]),
        None => ShippedPlugins::beside_program(),
    };
    list.check().map_err(|error| ConfigError::Value { option: "shipped-plugins", message: error.to_string() })?;
    Ok(list)
}

/// Whether this text can be the configuration file `file`.
///
/// # Errors
/// [`ConfigError`], with line and key.
pub fn check(file: &Path, text: &str) -> Result<(), ConfigError> {
    file::parse(file, text).map(drop)
}

/// Both or none: a token without an issuer is of no use.
fn token_signing(
    key: Option<PathBuf>,
    issuer: Option<String>,
    longest: Option<HumanDuration>,
) -> Result<Option<TokenSigning>, ConfigError> {
    let max_lifetime = longest.map(|given| max_lifetime(given.0)).transpose()?;
    match (key, issuer.filter(|issuer| !issuer.is_empty())) {
        (Some(key), Some(issuer)) => {
            Ok(Some(TokenSigning { key: absolute("token-signing-key", &key)?, issuer, max_lifetime }))
        }
        (None, None) if max_lifetime.is_some() => Err(ConfigError::Value {
            option: "token-max-lifetime",
            message: "it goes with token-signing-key and token-issuer, which are not given".to_owned(),
        }),
        (None, None) => Ok(None),
        (Some(_), None) => Err(ConfigError::Value {
            option: "token-issuer",
            message: "it is not given, and goes with token-signing-key; name who issues the tokens, such as https://node.example.com".to_owned(),
        }),
        (None, Some(_)) => Err(ConfigError::Value {
            option: "token-signing-key",
            message: "it is not given, and goes with token-issuer; name the file of a private key".to_owned(),
        }),
    }
}

/// Tokens count in seconds, and one that lives shorter than it takes to renew it is of no use.
fn max_lifetime(given: Duration) -> Result<Duration, ConfigError> {
    if given >= SHORTEST_LIFETIME {
        return Ok(Duration::from_secs(given.as_secs()));
    }
    Err(ConfigError::Value {
        option: "token-max-lifetime",
        message: format!(
            "it must be {} s at least, so that tokens can be renewed in time",
            SHORTEST_LIFETIME.as_secs()
        ),
    })
}

/// Absolute, so that it means the same after the daemon has changed its folder, and in messages.
fn absolute(option: &'static str, path: &Path) -> Result<PathBuf, ConfigError> {
    std::path::absolute(path)
        .map_err(|error| ConfigError::Value { option, message: format!("{path:?} is no usable path: {error}") })
}

fn positive(option: &'static str, given: Option<HumanDuration>, default: Duration) -> Result<Duration, ConfigError> {
    match given {
        Some(HumanDuration(Duration::ZERO)) => {
            Err(ConfigError::Value { option, message: "it must be longer than 0".to_owned() })
        }
        Some(HumanDuration(duration)) => Ok(duration),
        None => Ok(default),
    }
}

/// The host's name, in lower case as Kubernetes names nodes.
///
/// # Errors
/// [`ConfigError::Value`] when it cannot be read.
pub fn host_name() -> Result<String, ConfigError> {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").map_err(|error| ConfigError::Value {
        option: "node-name",
        message: format!("it is not given, and the host's name cannot be read: {error}; give --node-name"),
    })?;
    Ok(name.trim().to_lowercase())
}

#[cfg(test)]
mod tests;
