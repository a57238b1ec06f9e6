//! The usage of volumes in human-readable form.

use std::path::Path;

use volhost_model::view::{UsageView, VolumeView};

use super::client::{ANSWER_TIME, Client, within};
use super::error::CliError;
use super::format::{age, size};
use volhost_api::pb::ListRequest;

/// Storage that has not answered for longer than this is shown as hanging, in microseconds. Healthy
/// storage answers within milliseconds.
const HANGING_US: u64 = 1_000_000;

/// Asks for the usage of these volumes, and stores it in them. `filter` is the one that they were
/// listed by.
///
/// # Errors
/// The daemon's refusal, or that no answer came.
pub(super) async fn fill<'a>(
    volumes: impl IntoIterator<Item = &'a mut VolumeView>,
    filter: ListRequest,
    client: &mut Client,
    socket: &Path,
) -> Result<(), CliError> {
    let stats = within(ANSWER_TIME, socket, client.inspect.volume_stats(filter)).await?.volumes;
    let mut by_volume: std::collections::HashMap<_, _> = stats
        .into_iter()
        .map(|stats| ((stats.pod_uid.clone(), stats.unique_name.clone()), UsageView::from(stats)))
        .collect();
    for volume in volumes {
        volume.usage = by_volume.remove(&(volume.pod_uid.clone(), volume.unique_name.clone())).map(Box::new);
    }
    Ok(())
}

/// Part of the whole in percent; none when either is not known.
pub(super) fn percent(usage: &UsageView) -> Option<u64> {
    let (used, capacity) = (usage.used?, usage.capacity.filter(|capacity| *capacity > 0)?);
    Some(used.saturating_mul(100) / capacity)
}

/// Bytes in use, and how much of the whole that is.
pub(super) fn used(usage: &UsageView) -> String {
    match (usage.used, percent(usage)) {
        (Some(used), Some(percent)) => format!("{} ({percent}%)", size(used)),
        (Some(used), None) => size(used),
        (None, _) => String::new(),
    }
}

/// The problem of the volume's storage, in a few words; none if it answered and is healthy.
pub(super) fn trouble(usage: &UsageView, now_us: u64) -> Option<String> {
    let waited = usage.asked_at.filter(|asked| now_us.saturating_sub(*asked) > HANGING_US);
    if let Some(asked) = waited {
        return Some(format!("has not answered for {}", age(asked, now_us)));
    }
    let said = [&usage.abnormal, &usage.problem].into_iter().find(|said| !said.is_empty());
    said.cloned().or_else(|| usage.measured_at.is_none().then(|| "has not answered yet".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000;

    #[test]
    fn storage_that_has_not_answered_is_reported_first() {
        let healthy = UsageView { capacity: Some(200), used: Some(50), measured_at: Some(1), ..UsageView::default() };
        assert_eq!(trouble(&healthy, 5 * SECOND), None);
        assert_eq!(used(&healthy), "50 (25%)");
        let hung = UsageView { asked_at: Some(SECOND), abnormal: "a path is lost".into(), ..healthy.clone() };
        assert_eq!(trouble(&hung, 13 * SECOND).as_deref(), Some("has not answered for 12s"));
        assert_eq!(trouble(&hung, SECOND + 1).as_deref(), Some("a path is lost"), "it has only just been asked");
        assert_eq!(trouble(&UsageView::default(), 1).as_deref(), Some("has not answered yet"));
    }

    #[test]
    fn a_volume_without_a_known_size_has_no_percentage() {
        assert_eq!(used(&UsageView { used: Some(2048), ..UsageView::default() }), "2.0Ki");
        assert_eq!(percent(&UsageView { used: Some(1), capacity: Some(0), ..UsageView::default() }), None);
    }
}
