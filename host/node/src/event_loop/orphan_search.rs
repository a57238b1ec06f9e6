//! The result of a search for folders of pods that are gone, for the metrics.

use std::collections::BTreeSet;

use volhost_metrics::OrphanCounts;
use volhost_model::names::PodUid;

/// The last search. Its folders are cleaned on threads; one that hangs counts as left when the next
/// search begins.
#[derive(Debug, Default)]
pub(super) struct OrphanSearch {
    /// The pods whose folders have not been cleaned.
    pending: BTreeSet<PodUid>,
    running: OrphanCounts,
    ended: OrphanCounts,
}

impl OrphanSearch {
    /// Begins a search that has found the folders of these pods.
    pub(super) fn begin(&mut self, found: impl Iterator<Item = PodUid>) {
        if !self.pending.is_empty() {
            self.running.left += count(self.pending.len());
            self.ended = self.running;
        }
        self.pending = found.collect();
        self.running = OrphanCounts { found: count(self.pending.len()), left: 0 };
        self.end_if_complete();
    }

    /// Notes that the folder of a pod was cleaned, or could not be.
    pub(super) fn cleaned(&mut self, pod: &PodUid, is_gone: bool) {
        if !self.pending.remove(pod) {
            return;
        }
        if !is_gone {
            self.running.left += 1;
        }
        self.end_if_complete();
    }

    /// Returns the counts of the last search that has ended.
    pub(super) const fn counts(&self) -> OrphanCounts {
        self.ended
    }

    fn end_if_complete(&mut self) {
        if self.pending.is_empty() {
            self.ended = self.running;
        }
    }
}

fn count(pods: usize) -> u64 {
    u64::try_from(pods).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pods(names: &[&str]) -> Vec<PodUid> {
        names.iter().map(|name| PodUid::new(*name).unwrap()).collect()
    }

    #[test]
    fn the_last_search_that_has_ended_counts() {
        let mut search = OrphanSearch::default();
        let [a, b, other] = pods(&["a", "b", "other"]).try_into().unwrap();
        search.begin([a.clone(), b.clone()].into_iter());
        search.cleaned(&a, true);
        search.cleaned(&other, false);
        assert_eq!(search.counts(), OrphanCounts::default(), "it has not ended");
        search.cleaned(&b, false);
        assert_eq!(search.counts(), OrphanCounts { found: 2, left: 1 });
        search.begin(std::iter::empty());
        assert_eq!(search.counts(), OrphanCounts::default());
    }

    #[test]
    fn a_folder_that_hangs_counts_as_left() {
        let mut search = OrphanSearch::default();
        search.begin(pods(&["hung", "good"]).into_iter());
        search.cleaned(&pods(&["good"])[0], true);
        search.begin(pods(&["hung"]).into_iter());
        assert_eq!(search.counts(), OrphanCounts { found: 2, left: 1 });
        search.begin(pods(&["hung"]).into_iter());
        assert_eq!(search.counts(), OrphanCounts { found: 1, left: 1 });
    }
}
