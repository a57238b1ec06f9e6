//! What one component exports, found by name once when it is loaded: the required interfaces, and
//! those it has besides. A call loads the functions of its own interface and no others.

use wasmtime::Store;
use wasmtime::component::{Instance, InstancePre};

use crate::bindings::exports::volhost::plugin as contract;
use crate::host::State;

/// A component that is linked, with the places of its exports.
pub(crate) struct Exports {
    pub(crate) pre: InstancePre<State>,
    /// The component imports WASI, and is linked with it.
    pub(crate) imports_wasi: bool,
    pub(crate) plugin: contract::plugin::GuestIndices,
    pub(crate) publisher: contract::publisher::GuestIndices,
    pub(crate) attacher: Option<contract::attacher::GuestIndices>,
    pub(crate) other_nodes: Option<contract::other_nodes::GuestIndices>,
    pub(crate) stager: Option<contract::stager::GuestIndices>,
    pub(crate) block_mapper: Option<contract::block_mapper::GuestIndices>,
    pub(crate) expander: Option<contract::expander::GuestIndices>,
    pub(crate) stats: Option<contract::stats::GuestIndices>,
    pub(crate) controller: Option<contract::controller::GuestIndices>,
    pub(crate) snapshotter: Option<contract::snapshotter::GuestIndices>,
    pub(crate) modifier: Option<contract::modifier::GuestIndices>,
    pub(crate) group_snapshotter: Option<contract::group_snapshotter::GuestIndices>,
}

impl Exports {
    /// Finds what the component exports; `has` says whether it has an interface.
    pub(crate) fn find(
        pre: InstancePre<State>,
        imports_wasi: bool,
        has: impl Fn(&str) -> bool,
    ) -> wasmtime::Result<Self> {
        let attacher = has("attacher").then(|| contract::attacher::GuestIndices::new(&pre)).transpose()?;
        let other_nodes = has("other-nodes").then(|| contract::other_nodes::GuestIndices::new(&pre)).transpose()?;
        let stager = has("stager").then(|| contract::stager::GuestIndices::new(&pre)).transpose()?;
        let block_mapper = has("block-mapper").then(|| contract::block_mapper::GuestIndices::new(&pre)).transpose()?;
        let expander = has("expander").then(|| contract::expander::GuestIndices::new(&pre)).transpose()?;
        let stats = has("stats").then(|| contract::stats::GuestIndices::new(&pre)).transpose()?;
        let controller = has("controller").then(|| contract::controller::GuestIndices::new(&pre)).transpose()?;
        let snapshotter = has("snapshotter").then(|| contract::snapshotter::GuestIndices::new(&pre)).transpose()?;
        let modifier = has("modifier").then(|| contract::modifier::GuestIndices::new(&pre)).transpose()?;
        let group_snapshotter =
            has("group-snapshotter").then(|| contract::group_snapshotter::GuestIndices::new(&pre)).transpose()?;
        Ok(Self {
            plugin: contract::plugin::GuestIndices::new(&pre)?,
            publisher: contract::publisher::GuestIndices::new(&pre)?,
            attacher,
            other_nodes,
            stager,
            block_mapper,
            expander,
            stats,
            controller,
            snapshotter,
            modifier,
            group_snapshotter,
            imports_wasi,
            pre,
        })
    }

    /// Checks the type of every exported function against the contract.
    pub(crate) fn check(&self, store: &mut Store<State>, instance: &Instance) -> wasmtime::Result<()> {
        self.plugin.load(&mut *store, instance)?;
        self.publisher.load(&mut *store, instance)?;
        if let Some(attacher) = &self.attacher {
            attacher.load(&mut *store, instance)?;
        }
        if let Some(other_nodes) = &self.other_nodes {
            other_nodes.load(&mut *store, instance)?;
        }
        if let Some(stager) = &self.stager {
            stager.load(&mut *store, instance)?;
        }
        if let Some(block_mapper) = &self.block_mapper {
            block_mapper.load(&mut *store, instance)?;
        }
        if let Some(expander) = &self.expander {
            expander.load(&mut *store, instance)?;
        }
        if let Some(stats) = &self.stats {
            stats.load(&mut *store, instance)?;
        }
        if let Some(controller) = &self.controller {
            controller.load(&mut *store, instance)?;
        }
        if let Some(snapshotter) = &self.snapshotter {
            snapshotter.load(&mut *store, instance)?;
        }
        if let Some(modifier) = &self.modifier {
            modifier.load(&mut *store, instance)?;
        }
        if let Some(group_snapshotter) = &self.group_snapshotter {
            group_snapshotter.load(&mut *store, instance)?;
        }
        Ok(())
    }
}
