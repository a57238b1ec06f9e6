//! The table of external drivers: FlexVolume executables and CSI drivers, in one table for all
//! kinds. The crates that find drivers write it; users see it with `volhost get drivers`.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::broadcast;
use volhost_model::clock::Clock;
use volhost_model::view::{Change, DriverKind, DriverState, DriverView};

/// A driver, as its finder knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DriverRow {
    /// Which protocol it speaks.
    pub kind: DriverKind,
    /// Its name: `vendor/driver`, or a CSI driver's own.
    pub name: String,
    /// The version that it reports; empty when it reports none.
    pub version: String,
    /// Whether it can be used.
    pub state: DriverState,
    /// Why it cannot be used, in its own words or the kernel's; never a secret.
    pub error: String,
    /// The capabilities that it reports, in its protocol's words.
    pub capabilities: Vec<String>,
    /// The executable, or the socket.
    pub location: String,
    /// The most volumes that may be attached to this node at once, as it reports.
    pub volume_limit: Option<u32>,
    /// The topology of this node, as it reports.
    pub topology: BTreeMap<String, String>,
    /// Its own name for this node; empty when it reports none.
    pub node_id: String,
}

impl DriverRow {
    /// A driver that was found and not called yet.
    pub fn found(kind: DriverKind, name: impl Into<String>, location: impl Into<String>) -> Self {
        Self {
            kind,
            name: name.into(),
            version: String::new(),
            state: DriverState::Starting,
            error: String::new(),
            capabilities: Vec::new(),
            location: location.into(),
            volume_limit: None,
            topology: BTreeMap::new(),
            node_id: String::new(),
        }
    }
}

/// A driver, and when its state or version last changed.
#[derive(Debug)]
struct TableEntry {
    row: DriverRow,
    since: u64,
}

/// Every external driver that is known. Shared by the finders of drivers, which change it, and the
/// node, which shows it.
#[derive(Debug)]
pub struct DriverTable {
    known: Mutex<BTreeMap<(DriverKind, String), TableEntry>>,
    changes: broadcast::Sender<Change>,
    clock: Clock,
}

impl DriverTable {
    /// An empty table. Every change is sent to `changes`.
    pub fn new(changes: broadcast::Sender<Change>, clock: Clock) -> Self {
        Self { known: Mutex::default(), changes, clock }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<(DriverKind, String), TableEntry>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds or replaces a driver. Its time begins anew when its state or version has changed.
    /// Returns false, and sends no change, if it is the same as before.
    pub fn put(&self, row: DriverRow) -> bool {
        let mut known = self.lock();
        let key = (row.kind, row.name.clone());
        let before = known.get(&key);
        if before.is_some_and(|before| before.row == row) {
            return false;
        }
        let same = before.filter(|before| before.row.state == row.state && before.row.version == row.version);
        let since = same.map_or_else(|| self.clock.now(), |before| before.since);
        known.insert(key, TableEntry { row, since });
        drop(known);
        self.notify();
        true
    }

    /// Removes a driver. Returns false if it was not there.
    pub fn remove(&self, kind: DriverKind, name: &str) -> bool {
        let gone = self.lock().remove(&(kind, name.to_owned())).is_some();
        if gone {
            self.notify();
        }
        gone
    }

    /// One driver.
    pub fn get(&self, kind: DriverKind, name: &str) -> Option<DriverRow> {
        self.lock().get(&(kind, name.to_owned())).map(|known| known.row.clone())
    }

    /// The topology of this node, as the drivers that can be used report it.
    pub fn topology(&self) -> BTreeMap<String, String> {
        let known = self.lock();
        let ready = known.values().filter(|known| known.row.state == DriverState::Ready);
        ready.flat_map(|known| known.row.topology.clone()).collect()
    }

    /// Every driver, by kind and name, for users. `plugin` names the plugin that serves a volume
    /// source (`csi:DRIVER`), if one does.
    pub fn views(&self, plugin: impl Fn(&str) -> Option<String>) -> Vec<DriverView> {
        let known = self.lock();
        known
            .values()
            .map(|TableEntry { row, since }| {
                let source = row.kind.source();
                let served = plugin(&format!("{source}:{}", row.name)).or_else(|| plugin(source));
                DriverView {
                    name: row.name.clone(),
                    kind: row.kind,
                    plugin: served.unwrap_or_default(),
                    version: row.version.clone(),
                    state: row.state,
                    error: row.error.clone(),
                    since: *since,
                    capabilities: row.capabilities.clone(),
                    location: row.location.clone(),
                    volume_limit: row.volume_limit,
                    topology: row.topology.clone(),
                    node_id: row.node_id.clone(),
                }
            })
            .collect()
    }

    /// How many drivers of each kind are in each state.
    pub fn counts(&self) -> BTreeMap<(DriverKind, DriverState), u64> {
        let mut count = BTreeMap::new();
        for known in self.lock().values() {
            let of_kind: &mut u64 = count.entry((known.row.kind, known.row.state)).or_default();
            *of_kind = of_kind.saturating_add(1);
        }
        count
    }

    fn notify(&self) {
        // It fails when no client watches.
        let _ = self.changes.send(Change::Drivers);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> (DriverTable, broadcast::Receiver<Change>) {
        let (changes, heard) = broadcast::channel(8);
        (DriverTable::new(changes, Clock::start()), heard)
    }

    fn flex(name: &str) -> DriverRow {
        DriverRow::found(DriverKind::Flex, name, format!("/drivers/{name}"))
    }

    #[test]
    fn only_a_change_is_sent() {
        let (table, mut heard) = table();
        assert!(table.put(flex("a/one")));
        assert_eq!(heard.try_recv(), Ok(Change::Drivers));
        assert!(!table.put(flex("a/one")) && heard.try_recv().is_err());
        let since = table.views(|_| None)[0].since;
        assert!(table.put(DriverRow { error: "still not".into(), ..flex("a/one") }));
        assert_eq!(table.views(|_| None)[0].since, since, "the state is the same");
        assert!(table.remove(DriverKind::Flex, "a/one") && !table.remove(DriverKind::Flex, "a/one"));
        assert!(table.views(|_| None).is_empty());
    }

    #[test]
    fn a_driver_shows_the_plugin_that_serves_it_best() {
        let (table, _heard) = table();
        table.put(flex("a/own"));
        table.put(flex("a/other"));
        table.put(DriverRow::found(DriverKind::Csi, "a.b.c", "/csi.sock"));
        let served = |source: &str| match source {
            "flexVolume:a/own" => Some("a/precise".to_owned()),
            "flexVolume" => Some("v/flex".to_owned()),
            _ => None,
        };
        let shown: Vec<_> = table.views(served).into_iter().map(|view| (view.name, view.plugin)).collect();
        let shown: Vec<(&str, &str)> = shown.iter().map(|(name, plugin)| (name.as_str(), plugin.as_str())).collect();
        assert_eq!(shown, [("a/other", "v/flex"), ("a/own", "a/precise"), ("a.b.c", "")]);
        assert_eq!(table.counts()[&(DriverKind::Flex, DriverState::Starting)], 2);
    }
}
