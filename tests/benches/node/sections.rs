//! The parts of the benchmark, each of which can be run alone.

use std::path::Path;

use crate::options::Sizes;
use crate::report::Report;
use crate::{
    csi_client, csi_serve, failing, hostile, latency, ownership, payload, plugin_calls, recovery, scale, start,
};
use crate::{state_machine, sub_paths, unrelated, wide};

/// A part of the benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Section {
    Ready,
    Scale,
    Unrelated,
    Wide,
    SubPaths,
    Recovery,
    Start,
    Plugins,
    StateMachine,
    Payload,
    Hostile,
    CsiServe,
    CsiClient,
    Ownership,
    Failing,
}

/// All of them, in the order of the table: what users wait for comes first.
pub(crate) const SECTIONS: &[Section] = &[
    Section::Ready,
    Section::Scale,
    Section::Unrelated,
    Section::Wide,
    Section::SubPaths,
    Section::Recovery,
    Section::Start,
    Section::Plugins,
    Section::StateMachine,
    Section::Payload,
    Section::Hostile,
    Section::CsiServe,
    Section::CsiClient,
    Section::Ownership,
    Section::Failing,
];

impl Section {
    /// The name after `--only`.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Scale => "scale",
            Self::Unrelated => "unrelated",
            Self::Wide => "wide",
            Self::SubPaths => "sub-paths",
            Self::Recovery => "recovery",
            Self::Start => "start",
            Self::Plugins => "plugins",
            Self::StateMachine => "state-machine",
            Self::Payload => "payload",
            Self::Hostile => "hostile",
            Self::CsiServe => "csi-serve",
            Self::CsiClient => "csi-client",
            Self::Ownership => "ownership",
            Self::Failing => "failing",
        }
    }

    /// The section with this name.
    pub(crate) fn named(name: &str) -> Result<Self, String> {
        let found = SECTIONS.iter().copied().find(|section| section.name() == name);
        let names: Vec<&str> = SECTIONS.iter().map(|section| section.name()).collect();
        found.ok_or_else(|| format!("there is no section {name:?}, but {}", names.join(", ")))
    }

    /// It takes minutes whatever the machine, so that it is run only if asked for.
    pub(crate) fn is_long(self) -> bool {
        self == Self::Failing
    }

    /// Measures it.
    pub(crate) async fn measure(self, report: &mut Report, scratch: &Path, sizes: &Sizes) {
        match self {
            Self::Ready => latency::measure(report, scratch, sizes).await,
            Self::Scale => scale::measure(report, scratch, sizes).await,
            Self::Unrelated => unrelated::measure(report, scratch, sizes).await,
            Self::Wide => wide::measure(report, scratch).await,
            Self::SubPaths => sub_paths::measure(report, scratch).await,
            Self::Recovery => recovery::measure(report, scratch, sizes).await,
            Self::Start => start::measure(report, scratch).await,
            Self::Plugins => plugin_calls::measure(report, scratch),
            Self::StateMachine => state_machine::measure(report),
            Self::Payload => payload::measure(report, scratch, sizes).await,
            Self::Hostile => hostile::measure(report, scratch, sizes).await,
            Self::CsiServe => csi_serve::measure(report, scratch).await,
            Self::CsiClient => csi_client::measure(report, scratch).await,
            Self::Ownership => ownership::measure(report, scratch, sizes),
            Self::Failing => failing::measure(report, scratch).await,
        }
    }
}
