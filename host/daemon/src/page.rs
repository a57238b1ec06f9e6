//! What the status page shows: the node's lists.

use std::time::{SystemTime, UNIX_EPOCH};

use volhost_config::StatusPage as Setting;
use volhost_metrics_listener::site::{PageAccess, StatusPage};
use volhost_node::event_loop::NodeHandle;
use volhost_node::event_loop::requests::RequestError;
use volhost_page::{NodeState, PAGE, PageQuery, policy};

/// The page, unless it is turned off.
pub(super) fn page(setting: Setting, node: NodeHandle) -> Option<StatusPage> {
    let access = match setting {
        Setting::Off => return None,
        Setting::Loopback => PageAccess::Loopback,
        Setting::Everywhere => PageAccess::Everywhere,
    };
    StatusPage::new(PAGE, &policy(), access, move |mut query| {
        let node = node.clone();
        let query = PageQuery { pod: query.take("pod"), find: query.take("find").unwrap_or_default() };
        async move {
            let state = state(&node).await?;
            Ok(state.document(&query, now_us()))
        }
    })
}

async fn state(node: &NodeHandle) -> Result<NodeState, RequestError> {
    let status = node.status().await?;
    let snapshot = node.snapshot().await?;
    let claims = node.claims().await?;
    Ok(NodeState {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        root: status.root,
        is_drained: status.draining,
        is_synced: status.synced,
        manifest_problems: status
            .manifest_problems
            .into_iter()
            .map(|problem| (problem.file, problem.messages))
            .collect(),
        pods: snapshot.pods,
        unused_volumes: snapshot.unused_volumes,
        plugins: node.plugins().await?,
        operations: node.operations().await?,
        claims: claims.claims,
        persistent_volumes: claims.volumes,
        events: node.events(0).await?,
        past: node.history().await?,
    })
}

fn now_us() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
}
