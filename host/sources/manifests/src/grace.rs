//! Retains vanished files for a while, where the operator wants it: they may be put back.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How long files that have vanished count as if they were there, and which these are.
#[derive(Debug, Default)]
pub(super) struct Grace {
    time: Duration,
    /// Files that are gone, and since when.
    gone: BTreeMap<String, Instant>,
    /// When the folder was read first, if it was empty then.
    empty_since: Option<Instant>,
    begun: bool,
}

impl Grace {
    /// Of this length. 0: what is gone is gone.
    pub(super) fn new(time: Duration) -> Self {
        Self { time, ..Self::default() }
    }

    /// Compares a trusted listing with the files that were `known` to have objects before it.
    pub(super) fn take<'a, T>(
        &mut self,
        known: impl Iterator<Item = &'a String>,
        listing: &BTreeMap<String, T>,
        now: Instant,
    ) {
        for name in known.filter(|name| !listing.contains_key(*name)) {
            self.gone.entry(name.clone()).or_insert(now);
        }
        let time = self.time;
        self.gone.retain(|name, since| !listing.contains_key(name) && now.duration_since(*since) < time);
        // A folder that was empty is not filled at one blow either, so a file that appears does not
        // end the wait.
        if !self.begun && (listing.is_empty() || self.empty_since.is_some()) {
            self.begun = now.duration_since(*self.empty_since.get_or_insert(now)) >= time;
        } else {
            self.begun = true;
        }
    }

    /// Whether the file counts as if it were there.
    pub(super) fn retains(&self, name: &str) -> bool {
        self.gone.contains_key(name)
    }

    /// Whether the folder has shown what is in it: at once, unless it was empty.
    pub(super) fn has_begun(&self) -> bool {
        self.begun
    }

    /// Returns the message about retained files.
    pub(super) fn problems(&self) -> impl Iterator<Item = (String, String)> + '_ {
        self.gone.keys().map(|name| {
            let message = format!(
                "{name}: the file is gone; its objects stay until it has been gone for {:?} (manifest-grace). Put it back to keep them",
                self.time
            );
            (name.clone(), message)
        })
    }

    /// Returns the message about a folder that was empty at the start.
    pub(super) fn empty_problem(&self) -> Option<String> {
        self.empty_since.filter(|_| !self.begun).map(|_| {
            format!(
                "the manifest folder was empty at the start; what is mounted stays for {:?} (manifest-grace), whether or not a pod is named that has it",
                self.time
            )
        })
    }

    /// When the folder has to be looked at again although nothing happens.
    pub(super) fn next(&self) -> Option<Instant> {
        let empty = self.empty_since.filter(|_| !self.begun);
        self.gone.values().copied().chain(empty).min().map(|since| since + self.time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME: Duration = Duration::from_secs(30);

    fn listing(names: &[&str]) -> BTreeMap<String, ()> {
        names.iter().map(|name| ((*name).to_owned(), ())).collect()
    }

    fn known(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_file_is_held_until_its_time_is_over_or_it_is_back() {
        let (mut grace, begin) = (Grace::new(TIME), Instant::now());
        grace.take(known(&["a", "b"]).iter(), &listing(&[]), begin);
        assert!(grace.retains("a") && grace.retains("b"));
        assert_eq!(grace.next(), Some(begin + TIME));
        grace.take(known(&["a", "b"]).iter(), &listing(&["b"]), begin + TIME / 2);
        assert!(grace.retains("a") && !grace.retains("b"));
        grace.take(known(&["a", "b"]).iter(), &listing(&["b"]), begin + TIME);
        assert!(!grace.retains("a"));
        assert_eq!(grace.next(), None);
    }

    #[test]
    fn without_grace_what_is_gone_is_gone() {
        let mut grace = Grace::new(Duration::ZERO);
        grace.take(known(&["a"]).iter(), &listing(&[]), Instant::now());
        assert!(!grace.retains("a") && grace.has_begun() && grace.next().is_none());
    }

    #[test]
    fn a_folder_that_was_empty_at_the_start_has_not_begun_before_the_time_is_over() {
        let (mut grace, begin) = (Grace::new(TIME), Instant::now());
        grace.take(known(&[]).iter(), &listing(&[]), begin);
        assert!(!grace.has_begun() && grace.empty_problem().is_some());
        // Files that come meanwhile may not be all.
        grace.take(known(&[]).iter(), &listing(&["a"]), begin + TIME / 2);
        assert!(!grace.has_begun());
        assert_eq!(grace.next(), Some(begin + TIME));
        grace.take(known(&[]).iter(), &listing(&[]), begin + TIME);
        assert!(grace.has_begun() && grace.empty_problem().is_none());
        let mut filled = Grace::new(TIME);
        filled.take(known(&[]).iter(), &listing(&["a"]), begin);
        assert!(filled.has_begun());
    }
}
