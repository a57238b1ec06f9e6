//! The log in systemd's journal: priorities and fields.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::time::Duration;

use volhost_tests::Node;
use volhost_tests::manifests::pod;
use volhost_tests::wait::eventually;

/// A journal that a daemon finds at the usual place of its mount namespace.
struct Journal {
    socket: UnixDatagram,
    entries: Vec<BTreeMap<String, String>>,
}

impl Journal {
    /// Starts a daemon whose standard error leads to the journal, as systemd says it does, or to
    /// somewhere else.
    fn with_daemon(arguments: &[&str], leads_there: bool) -> (Self, Node) {
        let prepare = "mount -t tmpfs run /run && mkdir -p /run/systemd/journal";
        let mut node = Node::builder().prepare(prepare).arguments(arguments).build();
        let socket = UnixDatagram::bind(node.path(Path::new("/run/systemd/journal/socket"))).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        let log = node.folder().join("volhost.log");
        fs::write(&log, "").unwrap();
        let found = fs::metadata(&log).unwrap();
        let inode = if leads_there { found.ino() } else { found.ino() + 1 };
        node.add_variable("JOURNAL_STREAM", &format!("{}:{inode}", found.dev()));
        node.start();
        (Self { socket, entries: Vec::new() }, node)
    }

    fn read(&mut self) {
        let mut datagram = vec![0; 256 << 10];
        while let Ok(bytes) = self.socket.recv(&mut datagram) {
            let text = String::from_utf8(datagram[..bytes].to_vec()).unwrap();
            let fields = text.lines().filter_map(|line| line.split_once('='));
            self.entries.push(fields.map(|(name, value)| (name.to_owned(), value.to_owned())).collect());
        }
    }

    /// Waits for an entry whose message has these words.
    fn wait(&mut self, words: &str) -> BTreeMap<String, String> {
        let mut found = None;
        let has_come = || {
            self.read();
            found = self.entries.iter().find(|entry| entry["MESSAGE"].contains(words)).cloned();
            found.is_some()
        };
        assert!(eventually(has_come), "no entry says {words}: {:#?}", self.entries);
        found.unwrap()
    }
}

#[test]
fn an_entry_has_a_priority_and_names_its_volume_plugin_and_pod() {
    let (mut journal, node) = Journal::with_daemon(&[], true);
    node.manifest("a.yaml", &pod("a", "uid-a", &["name: gone, hostPath: { path: /nowhere/at/all, type: Directory }"]));
    node.wait_event(&["FailedMount", "nowhere"]);
    let failed = journal.wait("/nowhere/at/all");
    for (name, value) in [
        ("PRIORITY", "4"),
        ("SYSLOG_IDENTIFIER", "volhostd"),
        ("VOLHOST_REASON", "FailedMount"),
        ("VOLHOST_PLUGIN", "kubernetes.io/host-path"),
        ("VOLHOST_POD", "default/a"),
        ("VOLHOST_OPERATION", "volume_mount"),
    ] {
        assert_eq!(failed.get(name).map(String::as_str), Some(value), "{name}: {failed:#?}");
    }
    assert!(failed["VOLHOST_VOLUME"].contains("gone"), "{failed:#?}");
    assert!(failed["VOLHOST_ID"].parse::<u64>().is_ok(), "{failed:#?}");
    assert!(failed["MESSAGE"].contains("pod=\"default/a\""), "the text alone says whose it is: {failed:#?}");
    assert_eq!(journal.wait("volhost serves")["PRIORITY"], "6");
    assert_eq!(node.log(), "", "nothing is logged twice");
}

#[test]
fn other_streams_and_json_get_the_lines_that_they_always_had() {
    for (arguments, leads_there) in [(&[][..], false), (&["--log-format", "json"][..], true)] {
        let (mut journal, node) = Journal::with_daemon(arguments, leads_there);
        assert!(node.log().contains("volhost serves"), "{}", node.log());
        journal.read();
        assert!(journal.entries.is_empty(), "{:#?}", journal.entries);
    }
}
