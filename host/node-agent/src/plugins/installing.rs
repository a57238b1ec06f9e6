//! One plugin, from the registry to the daemon.

use std::time::Duration;

use tonic::{Code, Status};
use volhost_api::pb;
use volhost_cluster_client::plugins::{PluginState, StoredRevision};
use volhost_model::text::error_chain;
use volhost_registry::pull::PullError;
use volhost_registry::{Access, Credentials, Digest, PulledPlugin, Reference, pull};

use crate::daemon::Daemon;

/// The largest component that is pulled, in bytes: what the daemon takes.
const COMPONENT_BYTES: u64 = 64 << 20;
/// How long a pull may take.
const PULL_TIME: Duration = Duration::from_secs(300);

/// Why a plugin is not installed. It is tried again.
#[derive(Debug, Clone)]
pub(super) enum Refusal {
    /// It may pass: the registry does not answer, or has the plugin not yet.
    NotPulled(String),
    /// The cluster grants more than the node's operator lets it.
    NotAllowed(String),
    /// A plugin of the node's operator has the name.
    NotOurs(String),
    /// The content or the request is wrong.
    Bad(&'static str, String),
    /// The daemon is lost.
    Lost(Status),
}

impl Refusal {
    /// The state that the node reports, and the reason in a word.
    pub(super) fn state(&self) -> (PluginState, &'static str) {
        match self {
            Self::NotPulled(_) => (PluginState::Loading, "NotPulled"),
            Self::NotAllowed(_) => (PluginState::GrantNeeded, "NotAllowed"),
            Self::NotOurs(_) => (PluginState::Failed, "NotOurs"),
            Self::Bad(reason, _) => (PluginState::Failed, reason),
            Self::Lost(_) => (PluginState::Loading, "NoDaemon"),
        }
    }

    /// Why, for people.
    pub(super) fn message(&self) -> &str {
        match self {
            Self::NotPulled(message) | Self::NotAllowed(message) | Self::NotOurs(message) | Self::Bad(_, message) => {
                message
            }
            Self::Lost(status) => status.message(),
        }
    }
}

/// Pulls the plugin, unless the daemon has the content of its digest, and has the daemon install it.
pub(super) async fn install(daemon: &Daemon, revision: &StoredRevision, has_content: bool) -> Result<(), Refusal> {
    let content = &revision.content;
    let json = |map: &serde_json::Map<String, serde_json::Value>| serde_json::Value::Object(map.clone()).to_string();
    let plugin = pb::ClusterPlugin {
        plugin: content.plugin.clone(),
        revision: revision.revision.clone(),
        image: content.image.clone(),
        digest: content.digest.clone(),
        grants: json(&content.grants),
        settings: json(&content.settings),
        ..pb::ClusterPlugin::default()
    };
    if has_content {
        match daemon.install_plugin(plugin.clone(), None).await {
            Err(status) if status.code() == Code::NotFound => {}
            answer => return answer.map_err(refused),
        }
    }
    let PulledPlugin { component, signature, manifest, cosign, .. } = pulled(&content.image, &content.digest).await?;
    let cosign = cosign.into_iter().map(|one| pb::CosignSignature { payload: one.payload, signature: one.signature });
    let plugin =
        pb::ClusterPlugin { manifest, minisign: signature.unwrap_or_default(), cosign: cosign.collect(), ..plugin };
    daemon.install_plugin(plugin, Some(component)).await.map_err(refused)
}

async fn pulled(image: &str, digest: &str) -> Result<PulledPlugin, Refusal> {
    let bad = |error: &dyn std::error::Error| Refusal::Bad("BadReference", error_chain(error));
    let reference: Reference = image.parse().map_err(|error| bad(&error))?;
    let digest: Digest = digest.parse().map_err(|error| bad(&error))?;
    let reference = reference.pinned(digest);
    // It asks a credential helper, perhaps.
    let host = reference.host().to_owned();
    let finding = move || Credentials::find(&host, |name| std::env::var_os(name));
    let credentials = match tokio::task::spawn_blocking(finding).await {
        Ok(found) => found.map_err(|error| Refusal::NotPulled(error_chain(&error)))?,
        Err(error) => return Err(Refusal::NotPulled(error_chain(&error))),
    };
    let access = Access { credentials, plain_http: reference.is_of_this_machine(), ..Access::default() };
    let pulling = pull(&access, &reference, COMPONENT_BYTES, &|_| {});
    match tokio::time::timeout(PULL_TIME, pulling).await {
        Ok(Ok(pulled)) => Ok(pulled),
        Ok(Err(error)) => Err(not_pulled(&error)),
        Err(_) => Err(Refusal::NotPulled(format!("{reference}: not pulled after {} s", PULL_TIME.as_secs()))),
    }
}

/// What another try may change, and what not.
fn not_pulled(error: &PullError) -> Refusal {
    let message = error_chain(error);
    match error {
        PullError::NoPlugin { .. } | PullError::OtherType { .. } | PullError::TooLarge { .. } => {
            Refusal::Bad("NoPlugin", message)
        }
        _ => Refusal::NotPulled(message),
    }
}

fn refused(status: Status) -> Refusal {
    let message = status.message().to_owned();
    match status.code() {
        Code::PermissionDenied => Refusal::NotAllowed(message),
        Code::AlreadyExists => Refusal::NotOurs(message),
        Code::DataLoss => Refusal::Bad("WrongContent", message),
        Code::InvalidArgument | Code::NotFound | Code::ResourceExhausted | Code::FailedPrecondition => {
            Refusal::Bad("Refused", message)
        }
        _ => Refusal::Lost(status),
    }
}
