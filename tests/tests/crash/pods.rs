//! A pod that comes, goes, and whose volumes change.

use volhost_tests::wait::eventually;

use crate::exhaustive::Operation;
use crate::site::{Inventory, Site};

pub(crate) const POD: &str = "default/subject";
pub(crate) const UID: &str = "uid-subject";
const FILE: &str = "subject.yaml";

/// A pod and its volumes. `round` counts what was done with it, so that each time may bring
/// something new.
pub(crate) trait Subject {
    /// The pod's manifest.
    fn pod(&self, round: u64) -> String;
    /// The other objects' manifests.
    fn objects(&self, _round: u64) -> Vec<(&'static str, String)> {
        Vec::new()
    }
    /// The pod has run: it leaves something in its volumes.
    fn fill(&self, _site: &Site) {}
    /// What the pod sees is right.
    fn check(&self, _site: &Site, _round: u64) {}
    /// Whether what the pod sees is of this round already.
    fn shows(&self, _site: &Site, _round: u64) -> bool {
        true
    }
    /// What the pod left in its volumes outlives it.
    fn check_kept(&self, _site: &Site) {}
    /// What is true while the pod runs at every moment, also when the daemon is dead.
    fn check_always(&self, _site: &Site) {}
    /// The pod is gone: forgets what it left.
    fn reset(&self, _site: &Site) {}
}

/// The node's inventory without and with the pod, recorded in a round without a kill.
pub(crate) struct Known<S> {
    subject: S,
    down: Inventory,
    up: Inventory,
    round: u64,
}

impl<S: Subject> Known<S> {
    pub(crate) fn learn(subject: S, site: &Site) -> Self {
        let mut known = Self { subject, down: site.inventory(), up: Inventory::new(), round: 0 };
        known.name(site);
        site.node.wait_mounted(POD);
        known.up = site.inventory();
        known.assert_up(site);
        known.go(site);
        known
    }

    pub(crate) fn name(&self, site: &Site) {
        site.write(&self.subject.objects(self.round));
        site.node.manifest(FILE, &self.subject.pod(self.round));
    }

    pub(crate) fn forget(&self, site: &Site) {
        if site.has_manifest(FILE) {
            site.node.remove_manifest(FILE);
        }
    }

    pub(crate) fn is_down(&self, site: &Site) -> bool {
        site.inventory() == self.down
    }

    fn is_up(&self, site: &Site) -> bool {
        site.inventory() == self.up && self.subject.shows(site, self.round)
    }

    pub(crate) fn assert_up(&self, site: &Site) {
        site.node.wait_mounted(POD);
        site.assert_becomes(&self.up, "with the pod");
        assert!(eventually(|| self.subject.shows(site, self.round)), "the pod sees the old\n{}", site.log());
        self.subject.check(site, self.round);
    }

    pub(crate) fn assert_down(&self, site: &Site) {
        site.assert_becomes(&self.down, "without the pod");
    }

    fn go(&self, site: &Site) {
        self.forget(site);
        self.assert_down(site);
        self.subject.reset(site);
    }
}

/// The pod comes.
pub(crate) struct Arrival<S>(pub(crate) Known<S>);

impl<S: Subject> Operation for Arrival<S> {
    fn prepare(&mut self, site: &Site) {
        self.0.go(site);
        self.0.round += 1;
        site.write(&self.0.subject.objects(self.0.round));
    }

    fn begin(&mut self, site: &Site) {
        self.0.name(site);
    }

    fn is_done(&self, site: &Site) -> bool {
        self.0.is_up(site)
    }

    fn assert_done(&self, site: &Site) {
        self.0.assert_up(site);
    }

    fn revoke(&mut self, site: &Site) {
        self.0.forget(site);
    }

    fn assert_revoked(&self, site: &Site) {
        self.0.assert_down(site);
    }
}

/// The pod goes.
pub(crate) struct Departure<S>(pub(crate) Known<S>);

impl<S: Subject> Operation for Departure<S> {
    fn prepare(&mut self, site: &Site) {
        if site.has_manifest(FILE) {
            self.0.assert_up(site);
        } else {
            self.0.assert_down(site);
            self.0.name(site);
            self.0.assert_up(site);
            self.0.subject.fill(site);
        }
    }

    fn begin(&mut self, site: &Site) {
        self.0.forget(site);
    }

    fn is_done(&self, site: &Site) -> bool {
        self.0.is_down(site)
    }

    fn assert_done(&self, site: &Site) {
        self.0.assert_down(site);
    }

    fn revoke(&mut self, site: &Site) {
        self.0.name(site);
    }

    fn assert_revoked(&self, site: &Site) {
        self.0.assert_up(site);
        self.0.subject.check_kept(site);
    }
}

/// What the pod's volumes show changes while it runs.
pub(crate) struct Change<S>(pub(crate) Known<S>);

impl<S: Subject> Operation for Change<S> {
    fn prepare(&mut self, site: &Site) {
        if !site.has_manifest(FILE) {
            self.0.name(site);
        }
        self.0.assert_up(site);
        self.0.subject.fill(site);
    }

    fn begin(&mut self, site: &Site) {
        self.0.round += 1;
        site.write(&self.0.subject.objects(self.0.round));
    }

    fn is_done(&self, site: &Site) -> bool {
        self.0.is_up(site)
    }

    fn check_dead(&self, site: &Site) {
        self.0.subject.check_always(site);
    }

    fn assert_done(&self, site: &Site) {
        self.0.assert_up(site);
        self.0.subject.check_kept(site);
    }

    fn revoke(&mut self, site: &Site) {
        self.0.forget(site);
    }

    fn assert_revoked(&self, site: &Site) {
        self.0.assert_down(site);
    }
}

/// A pod that is added by request, and removed by one. A client that got no answer repeats it.
pub(crate) struct Requested<S> {
    subject: S,
    down: Inventory,
    up: Inventory,
    /// What is asked for is that it goes.
    removal: bool,
}

impl<S: Subject> Requested<S> {
    pub(crate) fn learn(subject: S, site: &Site) -> Self {
        site.write(&subject.objects(0));
        let mut this = Self { subject, down: site.inventory(), up: Inventory::new(), removal: false };
        this.add(site);
        site.node.wait_mounted(POD);
        this.up = site.inventory();
        this.remove(site);
        this.assert(false, site);
        this
    }

    pub(crate) fn removal(self) -> Self {
        Self { removal: true, ..self }
    }

    fn add(&self, site: &Site) -> bool {
        let file = site.node.folder().join(FILE);
        std::fs::write(&file, self.subject.pod(0)).unwrap();
        site.node.cli(&["apply", "-f", &file.display().to_string()]).status.success()
    }

    fn remove(&self, site: &Site) -> bool {
        site.node.cli(&["delete", "pod", POD]).status.success()
    }

    /// Repeats the request until a daemon has answered it. A pod that is gone counts as removed.
    fn insist(&self, there: bool, site: &Site) {
        let heard = || {
            if there {
                self.add(site)
            } else {
                self.remove(site) || !site.node.cli(&["get", "pod", POD]).status.success()
            }
        };
        assert!(eventually(heard), "no daemon answers\n{}", site.log());
    }

    fn assert(&self, there: bool, site: &Site) {
        if there {
            site.node.wait_mounted(POD);
            site.assert_becomes(&self.up, "with the pod");
            self.subject.check(site, 0);
        } else {
            site.assert_becomes(&self.down, "without the pod");
        }
    }
}

impl<S: Subject> Operation for Requested<S> {
    fn prepare(&mut self, site: &Site) {
        self.insist(self.removal, site);
        self.assert(self.removal, site);
    }

    fn begin(&mut self, site: &Site) {
        // It may die over it.
        let _ = if self.removal { self.remove(site) } else { self.add(site) };
    }

    fn is_done(&self, site: &Site) -> bool {
        site.inventory() == if self.removal { self.down.clone() } else { self.up.clone() }
    }

    fn assert_done(&self, site: &Site) {
        self.insist(!self.removal, site);
        self.assert(!self.removal, site);
    }

    /// Does nothing: no daemon runs that could be asked.
    fn revoke(&mut self, _: &Site) {}

    fn assert_revoked(&self, site: &Site) {
        self.insist(self.removal, site);
        self.assert(self.removal, site);
    }
}
