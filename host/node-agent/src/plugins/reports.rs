//! What the node reports of its plugins. Pure.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use volhost_api::pb;
use volhost_cluster_client::plugins::{AssignedPlugin, PluginReport, PluginState};

use super::installing::Refusal;

/// The longest message, in bytes: the bound in the definition of NodePlugins.
const MESSAGE_BYTES: usize = 4096;

/// A plugin that is to be removed and cannot be yet.
#[derive(Debug, Clone)]
pub(super) struct Removal {
    pub(super) plugin: String,
    pub(super) message: String,
}

/// Makes the reports, by the VolumePlugins' names. `before` holds the last ones: they say since
/// when, and of which VolumePlugin a plugin is that is not assigned any more. `refused` returns why
/// a revision is not installed.
pub(super) fn reports(
    assigned: Option<&[AssignedPlugin]>,
    installed: &[pb::InstalledClusterPlugin],
    before: &[PluginReport],
    removals: &[Removal],
    refused: impl Fn(&str, &str) -> Option<Refusal>,
    now: Timestamp,
) -> Vec<PluginReport> {
    let Some(assigned) = assigned else {
        // Nothing is decided: what is there stays, and is reported as before.
        return before.to_vec();
    };
    let of_assigned = assigned.iter().map(|plugin| {
        let content = &plugin.revision.content;
        let has = installed.iter().find(|one| one.plugin == content.plugin);
        let report = PluginReport {
            name: plugin.name.clone(),
            plugin: content.plugin.clone(),
            revision: plugin.revision.revision.clone(),
            digest: content.digest.clone(),
            ..PluginReport::default()
        };
        match (refused(&plugin.name, &plugin.revision.revision), has) {
            (Some(refusal), _) => {
                let (state, reason) = refusal.state();
                let message = refusal.message().to_owned();
                let missing = if state == PluginState::GrantNeeded { vec![message.clone()] } else { Vec::new() };
                PluginReport { state, reason: reason.to_owned(), message, missing, ..report }
            }
            (None, Some(has)) if has.revision == plugin.revision.revision => loaded(has, report),
            (None, _) => PluginReport {
                reason: "Pulling".to_owned(),
                message: format!("it is being pulled from {}", content.image),
                ..report
            },
        }
    });
    let of_removed = removals.iter().filter_map(|removal| {
        let known = before.iter().find(|report| report.plugin == removal.plugin)?;
        let is_assigned = assigned.iter().any(|plugin| plugin.name == known.name);
        let (message, reason) = (removal.message.clone(), "InUse".to_owned());
        let report =
            PluginReport { state: PluginState::Removing, reason, message, missing: Vec::new(), ..known.clone() };
        (!is_assigned).then_some(report)
    });
    let mut reports: Vec<PluginReport> = of_assigned.chain(of_removed).collect();
    for report in &mut reports {
        shorten(&mut report.message);
        report.missing.iter_mut().for_each(shorten_word);
        report.since = since(report, before, now);
    }
    reports.sort_by(|one, other| one.name.cmp(&other.name));
    reports
}

fn loaded(has: &pb::InstalledClusterPlugin, report: PluginReport) -> PluginReport {
    let (state, reason) = match has.state() {
        pb::ClusterPluginState::Ready => (PluginState::Ready, ""),
        pb::ClusterPluginState::GrantNeeded => (PluginState::GrantNeeded, "NotGranted"),
        pb::ClusterPluginState::Failed => (PluginState::Failed, "NotLoaded"),
        pb::ClusterPluginState::Loading | pb::ClusterPluginState::Unspecified => (PluginState::Loading, "Loading"),
    };
    let (message, missing) = (has.message.clone(), has.missing.clone());
    PluginReport { state, reason: reason.to_owned(), message, missing, ..report }
}

/// Since when it has its revision and state, in whole seconds as Kubernetes keeps times.
fn since(report: &PluginReport, before: &[PluginReport], now: Timestamp) -> Option<Time> {
    let same = |known: &&PluginReport| {
        known.name == report.name && known.revision == report.revision && known.state == report.state
    };
    let known = before.iter().find(same).and_then(|known| known.since.clone());
    known.or_else(|| Timestamp::from_second(now.as_second()).ok().map(Time))
}

/// Whether the daemon has to be asked again, although it may report nothing.
pub(super) fn are_unsettled(reports: &[PluginReport]) -> bool {
    reports.iter().any(|report| report.state != PluginState::Ready)
}

fn shorten(text: &mut String) {
    truncate(text, MESSAGE_BYTES);
}

fn shorten_word(text: &mut String) {
    truncate(text, 1024);
}

fn truncate(text: &mut String, bytes: usize) {
    if text.len() > bytes {
        let end = (0..=bytes).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default();
        text.truncate(end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn assigned(revision: &str) -> AssignedPlugin {
        serde_json::from_value(json!({
            "name": "archive", "revision": revision, "plugin": "example.com/archive", "image": "r.example/a",
            "digest": "sha256:1", "since": "2026-01-01T00:00:00Z",
        }))
        .unwrap()
    }

    fn installed(revision: &str, state: pb::ClusterPluginState) -> pb::InstalledClusterPlugin {
        pb::InstalledClusterPlugin {
            plugin: "example.com/archive".into(),
            revision: revision.into(),
            state: state.into(),
            message: "why".into(),
            missing: vec!["host-paths".into()],
            ..pb::InstalledClusterPlugin::default()
        }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn what_the_daemon_says_counts_for_the_revision_that_it_has() {
        let of = |has: &[pb::InstalledClusterPlugin]| {
            let reports = reports(Some(&[assigned("new")]), has, &[], &[], |_, _| None, at(0));
            (reports[0].state, reports[0].reason.clone())
        };
        assert_eq!(of(&[]), (PluginState::Loading, "Pulling".into()));
        assert_eq!(of(&[installed("old", pb::ClusterPluginState::Ready)]), (PluginState::Loading, "Pulling".into()));
        for (said, state, reason) in [
            (pb::ClusterPluginState::Ready, PluginState::Ready, ""),
            (pb::ClusterPluginState::GrantNeeded, PluginState::GrantNeeded, "NotGranted"),
            (pb::ClusterPluginState::Failed, PluginState::Failed, "NotLoaded"),
            (pb::ClusterPluginState::Loading, PluginState::Loading, "Loading"),
        ] {
            assert_eq!(of(&[installed("new", said)]), (state, reason.to_owned()));
        }
    }

    #[test]
    fn a_refusal_is_reported_with_its_cause() {
        let of = |refusal: Refusal| {
            let refused = move |_: &str, _: &str| Some(refusal.clone());
            let reports = reports(Some(&[assigned("new")]), &[], &[], &[], refused, at(0));
            (reports[0].state, reports[0].reason.clone(), reports[0].missing.len())
        };
        assert_eq!(of(Refusal::NotPulled("down".into())), (PluginState::Loading, "NotPulled".into(), 0));
        assert_eq!(of(Refusal::NotOurs("taken".into())), (PluginState::Failed, "NotOurs".into(), 0));
        assert_eq!(of(Refusal::NotAllowed("host-paths /".into())), (PluginState::GrantNeeded, "NotAllowed".into(), 1));
    }

    #[test]
    fn the_time_is_kept_while_revision_and_state_are() {
        let first = reports(Some(&[assigned("new")]), &[], &[], &[], |_, _| None, at(10));
        let second =
            reports(Some(&[assigned("new")]), &[], &first, &[], |_, _| Some(Refusal::NotPulled("x".into())), at(20));
        assert_eq!((second[0].since.clone(), second[0].message.as_str()), (Some(Time(at(10))), "x"));
        let has = [installed("new", pb::ClusterPluginState::Ready)];
        let third = reports(Some(&[assigned("new")]), &has, &second, &[], |_, _| None, at(30));
        assert_eq!(third[0].since, Some(Time(at(30))));
    }

    #[test]
    fn a_plugin_that_is_used_is_reported_until_it_is_gone_and_nothing_is_decided_without_the_controller() {
        let before = reports(Some(&[assigned("new")]), &[], &[], &[], |_, _| None, at(0));
        let removal = Removal { plugin: "example.com/archive".into(), message: "volume data of pod web".into() };
        let used = reports(Some(&[]), &[], &before, &[removal], |_, _| None, at(5));
        assert_eq!((used[0].name.as_str(), used[0].state), ("archive", PluginState::Removing));
        assert!(used[0].message.contains("volume data"));
        assert!(reports(Some(&[]), &[], &used, &[], |_, _| None, at(6)).is_empty());
        assert_eq!(reports(None, &[], &before, &[], |_, _| None, at(6)), before);
    }
}
