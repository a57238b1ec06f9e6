//! How many system calls a publication takes: times differ from run to run, these numbers do not.

use std::collections::BTreeMap;

use volhost_proto::csi::Volume;
use volhost_tests::kill_points::{KillPoint, KilledProcess, Trace};

use crate::csi_serve::kit::{Host, MIB, SINGLE_NODE_WRITER, mount, wanted};

const VOLUME: &str = "pvc";
const TARGETS: usize = 20;
/// Recorded for one target, also in docs/csi-serve.md: published, and unpublished.
const PUBLISHED: usize = 29;
const UNPUBLISHED: usize = 16;

/// Checks the calls for all targets against the recorded number for one.
fn assert_at_most(recorded: usize, what: &str, counts: &BTreeMap<&'static str, usize>) {
    let total: usize = counts.values().sum();
    // What happens beside, at most half a call a target.
    let most = recorded * TARGETS + TARGETS / 2;
    assert!(
        total <= most,
        "{what}: {total} system calls for {TARGETS} targets, where {recorded} are recorded for each: {counts:#?}"
    );
    eprintln!("{what}: {total} system calls for {TARGETS} targets: {counts:?}");
}

#[test]
fn a_publication_takes_no_more_system_calls_than_recorded_and_writes_one_record() {
    let host = Host::start(&[]);
    let capability = || mount(SINGLE_NODE_WRITER);
    host.create(wanted(VOLUME, 16 * MIB, capability())).unwrap();
    let volume = Volume { volume_id: VOLUME.to_owned(), ..Volume::default() };
    host.stage(&volume, capability()).unwrap();
    let names: Vec<String> = (0..TARGETS).map(|number| format!("target-{number}")).collect();
    let publish = |name: &str| host.publish(host.publish_request(&volume, capability(), name)).unwrap();
    // The first call of a process opens what the others find open.
    publish("first");
    host.unpublish(VOLUME, "first").unwrap();
    let trace = Trace::begin(host.served.pid(), KillPoint { who: KilledProcess::Daemon, before: None });
    for name in &names {
        publish(name);
    }
    let published = trace.take_counts();
    for name in &names {
        host.unpublish(VOLUME, name).unwrap();
    }
    let unpublished = trace.take_counts();
    trace.end();
    for (what, counts, mount_call) in
        [("published", &published, "move_mount"), ("unpublished", &unpublished, "umount2")]
    {
        assert_eq!(counts.get(mount_call), Some(&TARGETS), "{what}: {counts:?}");
        // A record is written under another name first.
        assert_eq!(counts.get("renameat"), Some(&TARGETS), "{what}: {counts:?}");
    }
    assert_at_most(PUBLISHED, "published", &published);
    assert_at_most(UNPUBLISHED, "unpublished", &unpublished);
}
