//! The daemon loads another component while it runs.

use volhost_api::pb::Kind;
use volhost_plugin_build::publish::{self, Written};

use super::builder::Component;
use crate::client::Client;
use crate::error::CliError;
use crate::list::{self, Query, View};
use crate::plugin::scratch_daemon::ScratchDaemon;
use volhost_model::text::error_chain;

/// The component's name in the daemon's folder of plugins.
const NAME: &str = "plugin";
/// The reasons of the daemon's events.
const LOADED: &str = "PluginLoaded";
const NOT_LOADED: &str = "PluginNotLoaded";

/// What the daemon did with a component.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Swapped {
    /// It serves volumes from now on.
    Serves,
    /// It does not, for this reason. The component before it, if there was one, still does.
    Refused(String),
}

/// Puts the component into the folder that the daemon watches, and waits until the daemon has
/// loaded or refused it.
///
/// # Errors
/// The file cannot be written, or the daemon has ended.
pub(super) async fn swap(component: &Component, daemon: &ScratchDaemon) -> Result<Swapped, CliError> {
    let socket = daemon.socket();
    let mut client = Client::connect(&socket).await?;
    // Before the file changes, so that what follows is about it.
    let (_, mut events) = list::begin(&mut client, &socket, Query::events(String::new())).await?;
    let put = publish::write(&daemon.plugins(), NAME, &component.wasm);
    let (file, written) = put.map_err(|error| CliError::Failed(error_chain(&error)))?;
    let object = format!("file {}", file.display());
    let plugins = Query::new(Kind::Plugins, None, None);
    if written == Written::Unchanged {
        return Ok(of_views(&list::all(&mut client, &socket, plugins).await?, component));
    }
    while let Some((_, view)) = events.next(&client).await? {
        let Some(View::Event(event)) = view else { continue };
        if event.reason == NOT_LOADED && event.object == object {
            return Ok(Swapped::Refused(event.message));
        }
        if event.reason == LOADED {
            let views = list::all(&mut client, &socket, plugins.clone()).await?;
            if of_views(&views, component) == Swapped::Serves {
                return Ok(Swapped::Serves);
            }
        }
    }
    Err(CliError::Lost { socket, why: "it is ending".to_owned() })
}

/// What the daemon says of the component.
fn of_views(views: &[View], component: &Component) -> Swapped {
    let mut plugins = views.iter().filter_map(|view| match view {
        View::Plugin(plugin) => Some(plugin),
        _ => None,
    });
    if plugins.clone().any(|plugin| plugin.digest == component.digest && plugin.error.is_empty()) {
        return Swapped::Serves;
    }
    Swapped::Refused(
        plugins.find(|plugin| !plugin.error.is_empty()).map(|plugin| plugin.error.clone()).unwrap_or_default(),
    )
}
