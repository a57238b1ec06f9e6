//! Why a listed object is not as it should be, in a word.

use volhost_explain::reason::of_step;
pub(super) use volhost_explain::reason::{of_pod, of_volume};

use super::list::View;

/// The reason of an object that has one and does not say it itself.
pub(super) fn of(view: &View) -> Option<String> {
    match view {
        View::Pod(pod) => of_pod(pod),
        View::Volume(volume) => of_volume(volume).map(str::to_owned),
        View::Operation(operation) => {
            operation.failure.as_ref().and_then(|failure| of_step(&failure.step)).map(str::to_owned)
        }
        View::Plugin(_) | View::Driver(_) | View::Claim(_) | View::PersistentVolume(_) | View::Event(_) => None,
    }
}
