//! Reads objects of the API server. What the user may not read is known as that: a chain of objects
//! is explained as far as it can be read.

use std::fmt::Debug;

use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope};
use kube::api::ListParams;
use kube::config::KubeConfigOptions;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use volhost_cluster_client::{Connection, configuration_of_user, connect};

use crate::arguments::ConnectionArguments;
use crate::error::PluginError;

/// Objects in one answer: a list of many comes in parts.
const PART: u32 = 500;

/// What a read gave.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Read<T> {
    /// The object.
    Found(T),
    /// There is none.
    Missing,
    /// It could not be read, in the API server's words.
    Refused(String),
}

impl<T> Read<T> {
    /// The object, if it could be read.
    pub(crate) fn found(&self) -> Option<&T> {
        match self {
            Self::Found(object) => Some(object),
            Self::Missing | Self::Refused(_) => None,
        }
    }
}

/// A cluster, as its user sees it.
pub(crate) struct Cluster {
    client: Client,
    namespace: String,
}

impl Cluster {
    /// A client for the cluster of these arguments. Nothing is asked yet.
    ///
    /// # Errors
    /// [`PluginError::Connection`].
    pub(crate) async fn connect(arguments: &ConnectionArguments) -> Result<Self, PluginError> {
        let options = KubeConfigOptions { context: arguments.context.clone(), ..KubeConfigOptions::default() };
        let config = configuration_of_user(arguments.kubeconfig.as_deref(), &options).await?;
        let namespace = arguments.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
        let agent = concat!("kubectl-volhost/", env!("CARGO_PKG_VERSION"));
        let Connection { requests: client, .. } = connect(config, agent)?;
        Ok(Self { client, namespace })
    }

    /// The namespace that is meant where none is written.
    pub(crate) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// An object of a namespace.
    pub(crate) async fn read_in<K>(&self, namespace: &str, name: &str) -> Read<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        read(Api::namespaced(self.client.clone(), namespace), name).await
    }

    /// An object of the cluster.
    pub(crate) async fn read<K>(&self, name: &str) -> Read<K>
    where
        K: Resource<DynamicType = (), Scope = ClusterResourceScope> + Clone + Debug + DeserializeOwned,
    {
        read(Api::all(self.client.clone()), name).await
    }

    /// All objects of a kind, of one namespace or of all.
    ///
    /// # Errors
    /// [`PluginError::List`].
    pub(crate) async fn list_in<K>(&self, namespace: Option<&str>, fields: &str) -> Result<Vec<K>, PluginError>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        let client = self.client.clone();
        let api = namespace.map_or_else(|| Api::all(client.clone()), |name| Api::namespaced(client.clone(), name));
        list(api, fields).await
    }

    /// All objects of a kind of the cluster.
    ///
    /// # Errors
    /// [`PluginError::List`].
    pub(crate) async fn list<K>(&self) -> Result<Vec<K>, PluginError>
    where
        K: Resource<DynamicType = (), Scope = ClusterResourceScope> + Clone + Debug + DeserializeOwned,
    {
        list(Api::all(self.client.clone()), "").await
    }
}

async fn read<K>(api: Api<K>, name: &str) -> Read<K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    match api.get_opt(name).await {
        Ok(Some(object)) => Read::Found(object),
        Ok(None) => Read::Missing,
        Err(error) => Read::Refused(words(&error)),
    }
}

async fn list<K>(api: Api<K>, fields: &str) -> Result<Vec<K>, PluginError>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let mut objects = Vec::new();
    let mut parameters = ListParams::default().fields(fields).limit(PART);
    loop {
        let part = api
            .list(&parameters)
            .await
            .map_err(|error| PluginError::List { kind: K::plural(&()).into_owned(), reason: words(&error) })?;
        objects.extend(part.items);
        match part.metadata.continue_.filter(|next| !next.is_empty()) {
            Some(next) => parameters = parameters.continue_token(&next),
            None => return Ok(objects),
        }
    }
}

/// The API server's words, without the client's.
fn words(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => {
            let mut text = other.to_string();
            let mut cause = std::error::Error::source(other);
            while let Some(next) = cause {
                if !text.contains(&next.to_string()) {
                    text = format!("{text}: {next}");
                }
                cause = next.source();
            }
            text
        }
    }
}
