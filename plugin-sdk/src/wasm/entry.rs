//! The component's exports: each prepares the sandbox, wraps the handles, and calls the author's function.

use std::marker::PhantomData;

use super::bindings::exports::volhost::plugin::{mounter, plugin};
use super::bindings::volhost::plugin::types;
use super::{Description, Identity, MountTarget, Pod, Volume, error_out, write_log};
use crate::log::Level;
use crate::plugin::VolumePlugin;

/// What [`crate::export_plugin!`] exports for the author's type. It has no values.
#[derive(Debug)]
pub struct Exports<T>(PhantomData<T>);

/// A panic's text would be lost with the sandbox, so it goes to the host before the trap.
///
/// Set at each call, since each call has a sandbox of its own.
fn report_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let why = panic.payload_as_str().unwrap_or("without a text");
        let line = match panic.location() {
            Some(at) => format!("the plugin panicked at {}:{}: {why}", at.file(), at.line()),
            None => format!("the plugin panicked: {why}"),
        };
        write_log(Level::Error, &line);
    }));
}

impl<T: VolumePlugin> plugin::Guest for Exports<T> {
    fn describe(into: &Description) {
        report_panics();
        T::describe(&mut crate::describe::Description::new(into));
    }

    fn identify(volume: &Volume, into: &Identity) -> Result<(), types::Error> {
        report_panics();
        T::identify(&crate::volume::Volume::new(volume), &mut crate::describe::Identity::new(into)).map_err(error_out)
    }
}

impl<T: VolumePlugin> mounter::Guest for Exports<T> {
    fn set_up(volume: &Volume, pod: &Pod, target: &MountTarget) -> Result<(), types::Error> {
        report_panics();
        T::set_up(
            &crate::volume::Volume::new(volume),
            &crate::pod::Pod::new(pod),
            &crate::mounts::MountTarget::new(target),
        )
        .map_err(error_out)
    }

    fn tear_down(target: &MountTarget) -> Result<(), types::Error> {
        report_panics();
        T::tear_down(&crate::mounts::MountTarget::new(target)).map_err(error_out)
    }
}
