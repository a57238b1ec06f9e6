//! What there is to say about a volume, in its own description and in its pod's.

use volhost_model::FailureClass;
use volhost_model::view::VolumeView;

use super::super::columns::state;
use super::super::format::{age, took, until};
use super::super::usage;
use super::text::Text;

/// The fields, without the name.
pub(super) fn fields(text: &mut Text, volume: &VolumeView) {
    let now = text.now_us;
    text.field("State", state(volume.state).0);
    if !volume.pod.is_empty() {
        text.field("Pod", &volume.pod);
    }
    text.field("Plugin", &volume.plugin);
    text.field("Unique name", &volume.unique_name);
    text.field("Path", &volume.path);
    if !volume.claim.is_empty() {
        text.field("Claim", &volume.claim);
    }
    text.field("Read-only", if volume.read_only { "yes" } else { "no" });
    if volume.since > 0 {
        text.field("Wanted since", &age(volume.since, now));
    }
    if volume.ready_at.is_some() {
        text.field("Took", &took(volume.since, volume.ready_at));
    }
    if let Some(usage) = &volume.usage {
        usage::describe(text, usage);
    }
    if let Some(failure) = &volume.failure {
        text.block("Last error", |text| {
            text.field("Step", &failure.step);
            if !failure.plugin.is_empty() {
                text.field("Plugin", &failure.plugin);
            }
            text.field("Cause", &failure.message);
            text.field(
                "Outcome",
                match failure.class {
                    FailureClass::Final => "not done, nothing was left behind",
                    FailureClass::Uncertain => "uncertain: it may have happened; it will be repeated or undone",
                    FailureClass::Transient => "not begun: something it needs is missing for now",
                },
            );
            text.field("Failures", &format!("{} in a row", volume.failures));
        });
    }
    if volume.retry_at.is_some() {
        let next = until(volume.retry_at, now);
        text.field("Next try", &if next == "now" { next } else { format!("in {next}") });
    }
}
