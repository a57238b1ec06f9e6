//! Helpers that end while volumes still need them: what they served is dead, and is taken away, so that it can be made again.

use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::mpsc;
use tracing::{debug, warn};
use volhost_helpers::{EndedHelper, Helpers};
use volhost_kernel::{Detach, Directory, Kernel, KernelError};
use volhost_model::view::EventKind;

use volhost_volume_ops::events::NewEvent;

use super::executor::FromOperation;

/// Hears of helpers that have ended: takes away what they served and tells `news` of it. Nothing that is mounted is entered, and only what
/// says that its server is gone is unmounted: whoever looks for mounts that have vanished finds it missing.
pub fn hear(
    helpers: &Helpers,
    kernel: Arc<dyn Kernel>,
    root: Arc<Directory>,
    news: mpsc::UnboundedSender<FromOperation>,
) {
    helpers.on_end(move |ended| match take_away(kernel.as_ref(), &root, &ended.id) {
        Ok(places) if places.is_empty() => debug!(helper = ended.id, "{}", ended.why),
        Ok(places) => {
            for place in places {
                // Nobody listens any more only when the process ends.
                let _ = news.send(told(&ended, &place));
            }
        }
        Err(error) => {
            warn!(%error, helper = ended.id, "what a helper served that has ended is not taken away: {}", ended.why)
        }
    });
}

/// Takes away every mount that this helper has served, and returns where they were.
fn take_away(kernel: &dyn Kernel, root: &Directory, id: &str) -> Result<Vec<PathBuf>, KernelError> {
    let mut dead: Vec<PathBuf> = kernel
        .mounts_below(root)?
        .into_iter()
        .filter(|mount| mount.source == id && mount.fs_type.starts_with("fuse."))
        .map(|mount| mount.point)
        .collect();
    // What stands on another one first.
    dead.sort_by_key(|point| std::cmp::Reverse(point.components().count()));
    for point in &dead {
        let (Some(parent), Some(name)) = (point.parent(), point.file_name()) else { continue };
        let parent = kernel.walk(root, parent)?;
        kernel.detach(&parent, name, Detach::Lazy)?;
    }
    Ok(dead)
}

fn told(ended: &EndedHelper, place: &std::path::Path) -> FromOperation {
    let mut parts = place.components().map(|part| part.as_os_str().to_string_lossy());
    let object = match (parts.next().as_deref(), parts.next()) {
        (Some(volhost_volume_ops::layout::PODS), Some(uid)) => format!("pod {uid}"),
        _ => format!("volume {}", place.display()),
    };
    let name = place.file_name().unwrap_or_default().to_string_lossy();
    let message = format!("what served volume \"{name}\" has ended, and its mount is made again: {}", ended.why);
    FromOperation::Event(NewEvent { kind: EventKind::Warning, reason: "HelperEnded".to_owned(), object, message })
}
