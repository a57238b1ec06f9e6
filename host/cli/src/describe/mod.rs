//! `volhost describe`: one pod, volume, plugin or driver in full.

mod pod;
mod volume;

use std::path::Path;

use volhost_model::view::APPROVAL;
use volhost_model::view::{DriverView, PluginView, VolumeView};

use super::arguments::{DescribeArguments, DescribeKind};
use super::client::Client;
use super::error::CliError;
use super::list::{self, Query, View};
use super::output::Output;
use super::text::Text;
use super::usage;
use volhost_api::pb::{Kind, ListRequest};

/// Describes the named object; all of them, if the name matches several.
pub(super) async fn run(arguments: &DescribeArguments, socket: &Path, output: &mut Output) -> Result<(), CliError> {
    let (kind, what) = match arguments.kind {
        DescribeKind::Pod => (Kind::Pods, "pod"),
        DescribeKind::Volume => (Kind::Volumes, "volume"),
        DescribeKind::Plugin => (Kind::Plugins, "plugin"),
        DescribeKind::Driver => (Kind::Drivers, "driver"),
    };
    let mut client = Client::connect(socket).await?;
    let query = Query::new(kind, arguments.namespace.as_deref(), Some(&arguments.name));
    let filter = query.filter.clone();
    let mut found = list::all(&mut client, socket, query).await?;
    if found.is_empty() {
        if kind == Kind::Pods
            && let Some(text) = gone_pod(&arguments.name, output, &mut client, socket).await?
        {
            return output.write(&text);
        }
        return Err(CliError::Failed(format!("no {what} {} found; `volhost get {what}s` lists all", arguments.name)));
    }
    let volumes = found.iter_mut().flat_map(View::volumes);
    match kind {
        Kind::Volumes => usage::fill(volumes, filter, &mut client, socket).await?,
        Kind::Pods => usage::fill(volumes, ListRequest::default(), &mut client, socket).await?,
        _ => {}
    }
    for (at, view) in found.iter().enumerate() {
        if at > 0 {
            output.line("")?;
        }
        let mut text = Text::new(output.colour());
        match view {
            View::Pod(pod) => pod::describe(&mut text, pod, &mut client, socket).await?,
            View::Volume(volume) => describe_volume(&mut text, volume, &mut client, socket).await?,
            View::Plugin(plugin) => describe_plugin(&mut text, plugin, &mut client, socket).await?,
            View::Driver(driver) => describe_driver(&mut text, driver, &mut client, socket).await?,
            View::Operation(_) | View::Claim(_) | View::PersistentVolume(_) | View::Event(_) => {}
        }
        output.write(&text.finish())?;
    }
    Ok(())
}

/// A pod that is no longer known, as far as events mention it: its folder may still exist. `name`
/// is its name or its uid.
async fn gone_pod(name: &str, output: &Output, client: &mut Client, socket: &Path) -> Result<Option<String>, CliError> {
    let mut events = list::all(client, socket, Query::events(format!("pod {name}"))).await?;
    if events.is_empty() && !name.contains('/') {
        events = list::all(client, socket, Query::events(format!("pod default/{name}"))).await?;
    }
    if events.is_empty() {
        return Ok(None);
    }
    let mut text = Text::new(output.colour());
    text.field("Name", name);
    text.field("Status", "Gone: no source names it, and no volume of it is known");
    text.table("Events", Kind::Events, &events);
    Ok(Some(text.finish()))
}

async fn describe_volume(
    text: &mut Text,
    volume: &VolumeView,
    client: &mut Client,
    socket: &Path,
) -> Result<(), CliError> {
    text.field("Name", if volume.name.is_empty() { &volume.spec_name } else { &volume.name });
    volume::fields(text, volume);
    if !volume.unique_name.is_empty() {
        let query = Query::new(Kind::Operations, None, Some(&volume.unique_name));
        let operations = list::all(client, socket, query).await?;
        // Of a volume that pods share, those of this pod and those of the volume alone.
        let ours = |view: &View| matches!(view, View::Operation(operation) if operation.pod.is_empty() || operation.pod == volume.pod);
        let operations: Vec<View> = operations.into_iter().filter(ours).collect();
        volume::running(text, &operations);
        text.table("Operations", Kind::Operations, &operations);
    }
    let mut events = Vec::new();
    if !volume.unique_name.is_empty() {
        events = list::all(client, socket, Query::events(format!("volume {}", volume.unique_name))).await?;
    }
    if !volume.pod.is_empty() {
        let of_pod = list::all(client, socket, Query::events(format!("pod {}", volume.pod))).await?;
        // Events name a volume as the pod does, as its folder does (a claim's volume by its
        // PersistentVolume), or by its unique name.
        let names = [format!("{:?}", volume.name), format!("{:?}", volume.spec_name), volume.unique_name.clone()];
        let named =
            |message: &str| names.iter().any(|name| !matches!(name.as_str(), "" | "\"\"") && message.contains(name));
        let about = |view: &View| matches!(view, View::Event(event) if named(&event.message));
        events.extend(of_pod.into_iter().filter(about));
    }
    text.table("Events", Kind::Events, &events);
    Ok(())
}

async fn describe_plugin(
    text: &mut Text,
    plugin: &PluginView,
    client: &mut Client,
    socket: &Path,
) -> Result<(), CliError> {
    text.field("Name", &plugin.name);
    text.field("Version", &plugin.version);
    text.field("State", &plugin.state);
    if !plugin.error.is_empty() {
        text.field("Error", &plugin.error);
    }
    if !plugin.waits_for.is_empty() {
        text.field("Waits for", &waits_for(&plugin.waits_for));
    }
    if !plugin.pending_digest.is_empty() {
        text.field("To approve", &format!("sha256:{}", plugin.pending_digest));
    }
    text.field("Contract", &plugin.abi);
    text.field("File", &plugin.file);
    text.field("Digest", &format!("sha256:{}", plugin.digest));
    text.field("Serves", &plugin.sources.join(", "));
    text.field("Exports", &plugin.exports.join(", "));
    text.field("Imports", &plugin.imports.join(", "));
    text.field("Volumes", &plugin.volumes.to_string());
    let volumes = list::all(client, socket, Query::new(Kind::Volumes, None, None)).await?;
    let ours = |view: &View| matches!(view, View::Volume(volume) if volume.plugin == plugin.name);
    text.table("Used by", Kind::Volumes, &volumes.into_iter().filter(ours).collect::<Vec<_>>());
    let events = list::all(client, socket, Query::events(format!("plugin {}", plugin.name))).await?;
    text.table("Events", Kind::Events, &events);
    Ok(())
}

async fn describe_driver(
    text: &mut Text,
    driver: &DriverView,
    client: &mut Client,
    socket: &Path,
) -> Result<(), CliError> {
    text.field("Name", &driver.name);
    text.field("Kind", driver.kind.as_str());
    text.field("Version", &driver.version);
    text.field("State", driver.state.as_str());
    if !driver.error.is_empty() {
        text.field("Error", &driver.error);
    }
    text.field("Since", &super::format::age(driver.since, text.now_us));
    text.field("Plugin", if driver.plugin.is_empty() { "none is loaded for it" } else { &driver.plugin });
    text.field("Location", &driver.location);
    if !driver.node_id.is_empty() {
        text.field("Node id", &driver.node_id);
    }
    if let Some(limit) = driver.volume_limit {
        text.field("Volume limit", &limit.to_string());
    }
    if !driver.topology.is_empty() {
        text.field("Topology", &super::columns::topology(driver, ", "));
    }
    text.field("Capabilities", &driver.capabilities.join(", "));
    let events = list::all(client, socket, Query::events(format!("driver {}", driver.name))).await?;
    text.table("Events", Kind::Events, &events);
    Ok(())
}
/// What a plugin waits for, as part of a sentence.
fn waits_for(what: &[String]) -> String {
    let (approval, granted): (Vec<&String>, Vec<&String>) = what.iter().partition(|word| *word == APPROVAL);
    let granted: Vec<&str> = granted.into_iter().map(String::as_str).collect();
    match (granted.is_empty(), approval.is_empty()) {
        (true, _) => "approval of its content".to_owned(),
        (false, true) => format!("the grant of {}", granted.join(", ")),
        (false, false) => format!("the grant of {}, and approval of its content", granted.join(", ")),
    }
}
