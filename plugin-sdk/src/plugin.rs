//! The trait of a plugin, and the macro that exports it.

use crate::describe::{Description, Identity};
use crate::error::Result;
use crate::mounts::MountTarget;
use crate::pod::Pod;
use crate::volume::Volume;

/// A volume plugin: describes volumes, and publishes them to pods.
///
/// The functions have no `self`, because a plugin keeps no state: each call runs in a sandbox of
/// its own, which ends with the call. Anything that must last is in the kernel (the mount) or in
/// the storage.
///
/// # Replay
/// The host may call [`publish`](Self::publish) and [`unpublish`](Self::unpublish) again at any
/// time: after a crash, a time-out, an uncertain answer, or only to be sure. `publish` on a volume
/// that is published, and `unpublish` on one that is not, must succeed and change nothing. Checking
/// [`MountTarget::state`] first is usually enough.
///
/// # One at a time
/// The host never runs two calls for one volume of one pod at once. Other volumes run in parallel.
///
/// # Panics
/// A panic ends the sandbox and nothing else: its text goes to the host's log, and the volume
/// counts as uncertain. Return an [`Error`](crate::Error) instead: the host can act on its case.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a volume plugin",
    label = "there is no `impl VolumePlugin for {Self}`",
    note = "a volume plugin has the functions `describe`, `identify`, `publish` and `unpublish` of the trait `VolumePlugin`"
)]
pub trait VolumePlugin {
    /// Describes this plugin. The host calls it when it loads the plugin and at any later time; the
    /// answer is always the same.
    ///
    /// It has to call at least [`Description::name`] and one [`Description::serves`].
    fn describe(about: &mut Description<'_>);

    /// Checks the volume's source, every field of it, and names the volume if it has a name of its
    /// own. Changes nothing.
    ///
    /// # Errors
    /// [`InvalidArgument`](crate::Error::InvalidArgument) naming the field, what is wrong with it
    /// and what would be right; [`Volume`]'s typed getters return such errors.
    fn identify(volume: &Volume<'_>, id: &mut Identity<'_>) -> Result<()>;

    /// Mounts the volume at `target`, ready for use by the pod. When it returns ok, the host checks
    /// that the target is a folder or a mount.
    ///
    /// # Errors
    /// Any; unless it is [`Uncertain`](crate::Error::Uncertain), nothing may have changed.
    fn publish(volume: &Volume<'_>, pod: &Pod<'_>, target: &MountTarget<'_>) -> Result<()>;

    /// Unmounts the volume from `target`. The target is all that is known of the volume: its source
    /// may no longer exist. When it returns ok, the host checks that nothing is left at the target.
    ///
    /// # Errors
    /// Any; unless it is [`Uncertain`](crate::Error::Uncertain), nothing may have changed.
    fn unpublish(target: &MountTarget<'_>) -> Result<()>;
}

/// Makes a type that implements [`VolumePlugin`] the plugin of this crate. Called once, at the
/// crate's top level.
///
/// When the crate is built for WebAssembly this writes the component's exports; natively, for
/// `cargo test`, it only checks that the traits are there. After the type come the capabilities it
/// has, by the names of their traits: `export_plugin!(MyPlugin, Attacher, Expander)`.
///
/// ```
/// # use volhost_plugin_sdk::prelude::*;
/// # struct MyPlugin;
/// # impl VolumePlugin for MyPlugin {
/// #     fn describe(_: &mut Description) {}
/// #     fn identify(_: &Volume, _: &mut Identity) -> Result<()> { Ok(()) }
/// #     fn publish(_: &Volume, _: &Pod, _: &MountTarget) -> Result<()> { Ok(()) }
/// #     fn unpublish(_: &MountTarget) -> Result<()> { Ok(()) }
/// # }
/// export_plugin!(MyPlugin);
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! export_plugin {
    ($plugin:ty $(, $capability:ident)* $(,)?) => {
        const _: fn() = || {
            fn is_a_volume_plugin<T: $crate::VolumePlugin>() {}
            is_a_volume_plugin::<$plugin>();
            $($crate::__check_capability!($capability, $plugin);)*
        };
        const _: () = {
            #[allow(dead_code, reason = "a name twice is a compile error")]
            enum EachCapabilityIsNamedOnce { $($capability),* }
        };
        #[doc(hidden)]
        #[allow(dead_code, reason = "a second plugin in the crate is a compile error")]
        const A_CRATE_EXPORTS_ONE_PLUGIN: () = ();
        $crate::__export_on_wasm!($plugin $(, $capability)*);
    };
    () => {
        ::core::compile_error!("export_plugin! needs the plugin's type: export_plugin!(MyPlugin), or export_plugin!(MyPlugin, Attacher)");
    };
    ($plugin:ty, $($capabilities:tt)*) => {
        ::core::compile_error!(
            "expected names of capabilities after the plugin's type, with commas between them: export_plugin!(MyPlugin, Attacher, Expander)"
        );
    };
}

/// Checks that the plugin has the trait of one capability.
#[doc(hidden)]
#[macro_export]
macro_rules! __check_capability {
    (Attacher, $plugin:ty) => { $crate::__has_capability!(Attacher, $plugin) };
    (OtherNodes, $plugin:ty) => { $crate::__has_capability!(OtherNodes, $plugin) };
    (Stager, $plugin:ty) => { $crate::__has_capability!(Stager, $plugin) };
    (BlockMapper, $plugin:ty) => { $crate::__has_capability!(BlockMapper, $plugin) };
    (Expander, $plugin:ty) => { $crate::__has_capability!(Expander, $plugin) };
    (Stats, $plugin:ty) => { $crate::__has_capability!(Stats, $plugin) };
    (Controller, $plugin:ty) => { $crate::__has_capability!(Controller, $plugin) };
    (Snapshotter, $plugin:ty) => {
        $crate::__has_capability!(Snapshotter, $plugin)
    };
    (Modifier, $plugin:ty) => {
        $crate::__has_capability!(Modifier, $plugin)
    };
    (GroupSnapshotter, $plugin:ty) => {
        $crate::__has_capability!(GroupSnapshotter, $plugin)
    };
    ($other:ident, $plugin:ty) => {
        ::core::compile_error!(::core::concat!(
            "`",
            ::core::stringify!($other),
            "` is not a capability of a volume plugin; the capabilities are Attacher, OtherNodes, Stager, BlockMapper, Expander, Stats, Controller, Snapshotter, Modifier, GroupSnapshotter"
        ));
    };
}

/// Compiles if the plugin has the trait.
#[doc(hidden)]
#[macro_export]
macro_rules! __has_capability {
    ($capability:ident, $plugin:ty) => {{
        fn has_the_capability<T: $crate::$capability>() {}
        has_the_capability::<$plugin>();
    }};
}

/// The part of [`export_plugin!`](crate::export_plugin) that only a component has.
#[cfg(target_family = "wasm")]
#[doc(hidden)]
#[macro_export]
macro_rules! __export_on_wasm {
    ($plugin:ty $(, $capability:ident)*) => {
        const _: () = {
            type Exports = $crate::wasm::entry::Exports<$plugin>;
            $crate::wasm::bindings::export_volume_plugin!(Exports with_types_in $crate::wasm::bindings);

            /// The versions of contract and SDK that this was built with; the host shows them and
            /// does not rely on them.
            #[used]
            #[unsafe(link_section = "volhost:abi")]
            static ABI: [u8; $crate::abi::STAMP.len()] = $crate::abi::BYTES;
        };
        $($crate::__export_capability!($capability, $plugin);)*
    };
}

/// Writes the exports of one capability.
#[cfg(target_family = "wasm")]
#[doc(hidden)]
#[macro_export]
macro_rules! __export_capability {
    (Attacher, $plugin:ty) => {
        const _: () = {
            type Exports = $crate::wasm::entry::Exports<$plugin>;
    $crate::wasm::attacher::export_attacher!(Exports with_types_in $crate::wasm::attacher);
        };
    };
    (OtherNodes, $plugin:ty) => {
        const _: () = {
            type Exports = $crate::wasm::entry::Exports<$plugin>;
    $crate::wasm::other_nodes::export_other_nodes!(Exports with_types_in $crate::wasm::other_nodes);
        };
    };
    (Stager, $plugin:ty) => {
        const _: () = {
            type Exports = $crate::wasm::entry::Exports<$plugin>;
    $crate::wasm::stager::export_stager!(Exports with_types_in $crate::wasm::stager);
        };
    };
    (BlockMapper, $plugin:ty) => {
        const _: () = {
            type Exports = $crate::wasm::entry::Exports<$plugin>;
    $crate::wasm::block_mapper::export_block_mapper!(Exports with_types_in $crate::wasm::block_mapper);
        };
    };
    (Expander, $plugin:ty) => {
        const _: () = {
            type Exports = $crate::wasm::entry::Exports<$plugin>;
    $crate::wasm::expander::export_expander!(Exports with_types_in $crate::wasm::expander);
        };
    };
    (Controller, $plugin:ty) => {
        const _: () = {
            type Exports = $crate::wasm::entry::Exports<$plugin>;
    $crate::wasm::controller::export_controller!(Exports with_types_in $crate::wasm::controller);
        };
    };
    (Snapshotter, $plugin:ty) => {
        const _: () = {
            type Exports = $crate::wasm::entry::Exports<$plugin>;
    $crate::wasm::snapshotter::export_snapshotter!(Exports with_types_in $crate::wasm::snapshotter);
        };
    };
    (Modifier, $plugin:ty) => {
        const _: () = {
            type Exports = $crate::wasm::entry::Exports<$plugin>;
    $crate::wasm::modifier::export_modifier!(Exports with_types_in $crate::wasm::modifier);
        };
    };
    (GroupSnapshotter, $plugin:ty) => {
        const _: () = {
            type Exports = $crate::wasm::entry::Exports<$plugin>;
    $crate::wasm::group_snapshotter::export_group_snapshotter!(Exports with_types_in $crate::wasm::group_snapshotter);
        };
    };
    (Stats, $plugin:ty) => {
        const _: () = {
            type Exports = $crate::wasm::entry::Exports<$plugin>;
    $crate::wasm::stats::export_stats!(Exports with_types_in $crate::wasm::stats);
        };
    };
}

/// The half of [`export_plugin!`](crate::export_plugin) that only a component has: natively,
/// nothing.
#[cfg(not(target_family = "wasm"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __export_on_wasm {
    ($plugin:ty $(, $capability:ident)*) => {};
}
