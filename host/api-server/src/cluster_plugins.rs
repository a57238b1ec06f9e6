//! The `ClusterPlugins` service: what the node agent asks for, decided by the daemon.

use std::collections::BTreeSet;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use tokio_stream::StreamExt as _;
use tonic::{Request, Response, Status, Streaming};
use volhost_api::pb;
use volhost_api::pb::cluster_plugins_server::ClusterPlugins;
use volhost_api::pb::install_cluster_plugin_request::Part;
use volhost_model::PluginName;
use volhost_model::text::error_chain;
use volhost_node::event_loop::NodeHandle;
use volhost_plugin_folder::{ClusterContent, ClusterInstall, ClusterPluginError, InstalledState, PluginRegistry};
use volhost_runtime::{ArtifactSignature, ArtifactSignatures, ClusterGrantError, Limits};

use super::status::refused;

/// The most volumes that a refusal names.
const NAMED: usize = 5;

/// Installs and removes plugins for the cluster, if the operator lets it.
#[derive(Debug)]
pub(super) struct ClusterPluginsService {
    node: NodeHandle,
    /// None: the cluster may install nothing.
    plugins: Option<Arc<PluginRegistry>>,
}

impl ClusterPluginsService {
    pub(super) fn new(node: NodeHandle, plugins: Option<Arc<PluginRegistry>>) -> Self {
        Self { node, plugins }
    }

    fn plugins(&self) -> Result<Arc<PluginRegistry>, Status> {
        self.plugins.clone().ok_or_else(off)
    }

    /// The volumes of the plugin, each by its pod and name.
    async fn users(&self, plugin: &PluginName) -> Result<BTreeSet<String>, Status> {
        let snapshot = self.node.snapshot().await.map_err(|error| refused(&error))?;
        let of_pods = snapshot
            .pods
            .iter()
            .flat_map(|pod| &pod.volumes)
            .map(|volume| (volume.plugin.as_str(), format!("volume {} of pod {}", volume.name, volume.pod)));
        let unused = snapshot
            .unused_volumes
            .iter()
            .map(|volume| (volume.plugin.as_str(), format!("volume {}, which is being unmounted", volume.unique_name)));
        let all = of_pods.chain(unused);
        Ok(all.filter(|(owner, _)| *owner == plugin.as_str()).map(|(_, words)| words).collect())
    }
}

#[tonic::async_trait]
impl ClusterPlugins for ClusterPluginsService {
    async fn list_cluster_plugins(
        &self,
        _: Request<pb::ListClusterPluginsRequest>,
    ) -> Result<Response<pb::ListClusterPluginsResponse>, Status> {
        let installed = self.plugins()?.installed_by_cluster().ok_or_else(off)?;
        let plugins = installed.into_iter().map(|installed| {
            let (state, missing) = state(installed.state);
            pb::InstalledClusterPlugin {
                plugin: installed.plugin.to_string(),
                revision: installed.record.revision,
                image: installed.record.image,
                digest: installed.record.digest,
                sha256: installed.record.sha256,
                file: installed.file.display().to_string(),
                state: state.into(),
                message: installed.message,
                missing,
            }
        });
        Ok(Response::new(pb::ListClusterPluginsResponse { plugins: plugins.collect() }))
    }

    async fn install_cluster_plugin(
        &self,
        request: Request<Streaming<pb::InstallClusterPluginRequest>>,
    ) -> Result<Response<pb::InstallClusterPluginResponse>, Status> {
        let plugins = self.plugins()?;
        let (plugin, component) = received(request.into_inner()).await?;
        let name = plugin_name(&plugin.plugin)?;
        let install = install(plugin, component);
        // It writes to the disk.
        let installing = move || plugins.install_for_cluster(&name, install);
        match tokio::task::spawn_blocking(installing).await {
            Ok(Some(outcome)) => outcome.map_err(|error| status(&error))?,
            Ok(None) => return Err(off()),
            Err(_) => return Err(Status::unavailable("volhost is ending")),
        }
        Ok(Response::new(pb::InstallClusterPluginResponse {}))
    }

    async fn remove_cluster_plugin(
        &self,
        request: Request<pb::RemoveClusterPluginRequest>,
    ) -> Result<Response<pb::RemoveClusterPluginResponse>, Status> {
        let plugins = self.plugins()?;
        let name = plugin_name(&request.into_inner().plugin)?;
        let users = self.users(&name).await?;
        if !users.is_empty() {
            let some: Vec<&str> = users.iter().take(NAMED).map(String::as_str).collect();
            let rest = users.len().saturating_sub(NAMED);
            let more = if rest == 0 { String::new() } else { format!(" and {rest} more") };
            return Err(Status::failed_precondition(format!("plugin {name} is in use: {}{more}", some.join(", "))));
        }
        match tokio::task::spawn_blocking(move || plugins.remove_for_cluster(&name)).await {
            Ok(Some(outcome)) => outcome.map_err(|error| status(&error))?,
            Ok(None) => return Err(off()),
            Err(_) => return Err(Status::unavailable("volhost is ending")),
        }
        Ok(Response::new(pb::RemoveClusterPluginResponse {}))
    }
}

fn state(state: InstalledState) -> (pb::ClusterPluginState, Vec<String>) {
    match state {
        InstalledState::Loading => (pb::ClusterPluginState::Loading, Vec::new()),
        InstalledState::Ready => (pb::ClusterPluginState::Ready, Vec::new()),
        InstalledState::GrantNeeded(missing) => (pb::ClusterPluginState::GrantNeeded, missing),
        InstalledState::Failed => (pb::ClusterPluginState::Failed, Vec::new()),
    }
}

/// What is sent: the plugin, and its component if there is one.
async fn received(
    mut parts: Streaming<pb::InstallClusterPluginRequest>,
) -> Result<(pb::ClusterPlugin, Option<Vec<u8>>), Status> {
    let first = parts.next().await.transpose()?.and_then(|request| request.part);
    let Some(Part::Plugin(plugin)) = first else {
        return Err(Status::invalid_argument("the first part must be the plugin"));
    };
    let limit = Limits::default().file_bytes;
    let mut component: Option<Vec<u8>> = None;
    while let Some(request) = parts.next().await.transpose()? {
        let Some(Part::Component(part)) = request.part else {
            return Err(Status::invalid_argument("after the plugin come parts of its component"));
        };
        let component = component.get_or_insert_default();
        let size = u64::try_from(component.len().saturating_add(part.len())).unwrap_or(u64::MAX);
        if size > limit {
            return Err(Status::resource_exhausted(format!("the component has more than {limit} bytes")));
        }
        component.extend_from_slice(&part);
    }
    Ok((plugin, component))
}

fn install(plugin: pb::ClusterPlugin, component: Option<Vec<u8>>) -> ClusterInstall {
    let pb::ClusterPlugin { plugin: _, revision, image, digest, manifest, grants, settings, minisign, cosign } = plugin;
    let signatures = cosign
        .into_iter()
        .map(|one| ArtifactSignature { payload: BASE64.encode(&one.payload), signature: one.signature });
    let signatures: Vec<ArtifactSignature> = signatures.collect();
    let content = component.map(|component| ClusterContent {
        component,
        minisign: (!minisign.is_empty()).then_some(minisign),
        cosign: (!signatures.is_empty()).then(|| ArtifactSignatures { manifest: BASE64.encode(&manifest), signatures }),
        manifest,
    });
    ClusterInstall { revision, image, digest, grants, settings, content }
}

fn plugin_name(name: &str) -> Result<PluginName, Status> {
    PluginName::new(name).map_err(|error| Status::invalid_argument(error.to_string()))
}

/// The operator lets the cluster install nothing.
fn off() -> Status {
    Status::failed_precondition(
        "the cluster may not install plugins on this node; its operator may allow it: cluster-plugins = true in the daemon's configuration file",
    )
}

/// The code for the agent, the text for people.
fn status(error: &ClusterPluginError) -> Status {
    let text = error_chain(error);
    match error {
        ClusterPluginError::Grant {
            source: ClusterGrantError::Beyond(_) | ClusterGrantError::SecretFile(_), ..
        } => Status::permission_denied(text),
        ClusterPluginError::Grant { .. } | ClusterPluginError::Reserved(_) => Status::invalid_argument(text),
        ClusterPluginError::NotOurs { .. } => Status::already_exists(text),
        ClusterPluginError::Content { .. } => Status::data_loss(text),
        ClusterPluginError::NoContent(_) => Status::not_found(text),
        ClusterPluginError::Kernel(_) | ClusterPluginError::Record { .. } => Status::unavailable(text),
    }
}
