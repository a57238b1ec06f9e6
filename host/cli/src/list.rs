//! Objects as the API streams them. `get` and `get -w` are one call: the second continues where the
//! first ends.

use std::path::Path;

use serde::Serialize;
use tonic::Streaming;
use volhost_model::view::{
    ClaimView, DriverView, EventView, OperationView, PersistentVolumeView, PluginView, PodView, VolumeView,
};

use super::client::{ANSWER_TIME, Client};
use super::error::CliError;
use volhost_api::DecodeError;
use volhost_api::pb::watch_update::{Object, Type};
use volhost_api::pb::{Kind, ListEventsRequest, ListRequest, WatchRequest, WatchUpdate};

/// An object of any kind. As JSON and YAML, the view itself.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub(super) enum View {
    /// A pod.
    Pod(PodView),
    /// A volume.
    Volume(Box<VolumeView>),
    /// A plugin.
    Plugin(PluginView),
    /// An external driver.
    Driver(DriverView),
    /// An operation.
    Operation(OperationView),
    /// A claim.
    Claim(ClaimView),
    /// A PersistentVolume.
    PersistentVolume(PersistentVolumeView),
    /// An event.
    Event(EventView),
}

impl View {
    /// The volume that it is, or the pod's volumes.
    pub(super) fn volumes(&mut self) -> &mut [VolumeView] {
        match self {
            Self::Pod(pod) => &mut pod.volumes,
            Self::Volume(volume) => std::slice::from_mut(volume.as_mut()),
            Self::Plugin(_)
            | Self::Driver(_)
            | Self::Operation(_)
            | Self::Claim(_)
            | Self::PersistentVolume(_)
            | Self::Event(_) => &mut [],
        }
    }
}

impl TryFrom<Object> for View {
    type Error = DecodeError;
    fn try_from(object: Object) -> Result<Self, DecodeError> {
        Ok(match object {
            Object::Pod(pod) => Self::Pod(pod.try_into()?),
            Object::Volume(volume) => Self::Volume(Box::new(volume.try_into()?)),
            Object::Plugin(plugin) => Self::Plugin(plugin.try_into()?),
            Object::Driver(driver) => Self::Driver(driver.try_into()?),
            Object::Operation(operation) => Self::Operation(operation.try_into()?),
            Object::Claim(claim) => Self::Claim(claim.into()),
            Object::PersistentVolume(volume) => Self::PersistentVolume(volume.into()),
            Object::Event(event) => Self::Event(event.try_into()?),
        })
    }
}

/// A query.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Query {
    /// The kind.
    pub(super) kind: Kind,
    /// Which pods, volumes, plugins, drivers or operations.
    pub(super) filter: ListRequest,
    /// The object events are about; empty for all.
    pub(super) object: String,
}

impl Query {
    /// All objects of a kind of this namespace and name, where they are given.
    pub(super) fn new(kind: Kind, namespace: Option<&str>, name: Option<&str>) -> Self {
        let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
        let filter = ListRequest { namespace: text(namespace), name: text(name), label_selector: String::new() };
        Self { kind, filter, object: String::new() }
    }

    /// Of these, the objects with these labels.
    pub(super) fn with_labels(mut self, selector: Option<&str>) -> Self {
        self.filter.label_selector = selector.unwrap_or_default().to_owned();
        self
    }

    /// The events about this object; all when it is empty.
    pub(super) fn events(object: String) -> Self {
        Self { kind: Kind::Events, filter: ListRequest::default(), object }
    }
}

/// A list that can be followed.
#[derive(Debug)]
pub(super) struct ListStream {
    stream: Streaming<WatchUpdate>,
}

/// Sends the query. Returns the present objects, and the stream of changes.
///
/// # Errors
/// The daemon's refusal, or that the connection broke.
pub(super) async fn begin(
    client: &mut Client,
    socket: &Path,
    query: Query,
) -> Result<(Vec<View>, ListStream), CliError> {
    let request = WatchRequest {
        kind: query.kind.into(),
        filter: Some(query.filter),
        events: Some(ListEventsRequest { after: 0, object: query.object }),
    };
    let stream = super::client::within(ANSWER_TIME, socket, client.inspect.watch(request)).await?;
    let mut watch = ListStream { stream };
    let mut views = Vec::new();
    while let Some((change, view)) = watch.next(client).await? {
        match view {
            Some(view) => views.push(view),
            None if change == Type::Synced => break,
            None => {}
        }
    }
    Ok((views, watch))
}

/// The present objects, in the list's order.
///
/// # Errors
/// As [`begin`].
pub(super) async fn all(client: &mut Client, socket: &Path, query: Query) -> Result<Vec<View>, CliError> {
    begin(client, socket, query).await.map(|(views, _)| views)
}

impl ListStream {
    /// The next change; none when the daemon has ended the stream.
    ///
    /// # Errors
    /// The daemon's reason to end it, or that the connection broke.
    pub(super) async fn next(&mut self, client: &Client) -> Result<Option<(Type, Option<View>)>, CliError> {
        let Some(update) = self.stream.message().await.map_err(|status| client.failed(&status))? else {
            return Ok(None);
        };
        let change = update.r#type();
        Ok(Some((change, update.object.map(View::try_from).transpose()?)))
    }
}
