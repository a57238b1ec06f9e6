//! The driver dies before each system call of each of its calls. It is started again, and the CO
//! repeats the call, or takes back what it began.

use std::fs;

use tonic::{Code, Status};
use volhost_proto::csi::*;
use volhost_tests::kill_points::{KillPoint, KilledProcess, Trace};
use volhost_tests::wait::eventually;

use crate::csi_serve::kit::{Host, MIB, SINGLE_NODE_WRITER, mount, wanted};

const VOLUME: &str = "pvc";
const TARGET: &str = "target";

fn writer() -> VolumeCapability {
    mount(SINGLE_NODE_WRITER)
}

/// How far a volume is.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
enum Stage {
    Absent,
    Created,
    Staged,
    Published,
}

/// A call of a CO, and the stages that it leads from and to.
type Step = (&'static str, Stage, Stage, fn(&Host) -> Result<(), Status>);

fn volume() -> Volume {
    Volume { volume_id: VOLUME.to_owned(), ..Volume::default() }
}

const STEPS: [Step; 6] = [
    ("CreateVolume", Stage::Absent, Stage::Created, |host| host.create(wanted(VOLUME, 16 * MIB, writer())).map(drop)),
    ("NodeStageVolume", Stage::Created, Stage::Staged, |host| host.stage(&volume(), writer())),
    ("NodePublishVolume", Stage::Staged, Stage::Published, |host| {
        host.publish(host.publish_request(&volume(), writer(), TARGET))
    }),
    ("NodeUnpublishVolume", Stage::Published, Stage::Staged, |host| host.unpublish(VOLUME, TARGET)),
    ("NodeUnstageVolume", Stage::Staged, Stage::Created, |host| host.unstage(VOLUME)),
    ("DeleteVolume", Stage::Created, Stage::Absent, |host| host.delete(VOLUME)),
];

/// Repeats a call until it succeeds, as a CO does. A program that the dead driver had started may
/// use the device for a while.
fn repeated(host: &Host, call: impl Fn(&Host) -> Result<(), Status>) {
    let mut last = Ok(());
    let done = eventually(|| {
        last = call(host);
        match &last {
            Ok(()) => true,
            Err(status) => {
                let again = [Code::Unavailable, Code::Unknown, Code::Cancelled, Code::FailedPrecondition];
                assert!(again.contains(&status.code()), "{status}\n{}", host.served.log());
                false
            }
        }
    });
    assert!(done, "{last:?}\n{}", host.served.log());
}

/// Brings the volume from one stage to another, both ways.
fn bring(host: &Host, from: Stage, to: Stage) {
    let mut at = from;
    while at != to {
        let up = at < to;
        let (_, _, next, call) = STEPS.iter().find(|(_, begin, end, _)| *begin == at && (*end > *begin) == up).unwrap();
        repeated(host, call);
        at = *next;
    }
}

#[test]
fn a_driver_that_is_killed_in_any_call_goes_on_when_the_call_is_repeated_or_taken_back() {
    let mut host = Host::start(&[]);
    for (name, from, to, call) in STEPS {
        let mut points = 0;
        'points: for point in 0.. {
            for taken_back in [false, true] {
                bring(&host, Stage::Absent, from);
                let death = KillPoint { who: KilledProcess::Daemon, before: Some(point) };
                let following = Trace::begin(host.served.pid(), death);
                let answer = call(&host);
                let seen = following.end();
                host.served.kill();
                host.revive();
                if !seen.killed {
                    answer.unwrap_or_else(|status| panic!("{name}: {status}\n{}", host.served.log()));
                    bring(&host, to, Stage::Absent);
                    host.assert_clean();
                    break 'points;
                }
                let begun = from < to;
                if taken_back && begun {
                    // The CO wants it no more: what leads back, whatever was done.
                    bring(&host, to, Stage::Absent);
                } else {
                    repeated(&host, call);
                    if to == Stage::Published {
                        fs::write(host.seen(&host.target(TARGET)).join("word"), "x").unwrap();
                    }
                    bring(&host, to, Stage::Absent);
                }
                host.assert_clean();
                assert!(host.images().is_empty(), "{name} {point}: {:?}", host.images());
            }
            points += 1;
        }
        assert!(points > 0, "{name}: no call of the kernel was seen");
        eprintln!("{name}: {points} kill points");
    }
}

#[test]
fn a_driver_that_is_killed_while_it_copies_leaves_no_part_of_a_copy() {
    let mut host = Host::start(&[]);
    bring(&host, Stage::Absent, Stage::Created);
    let snapshot = |host: &Host| {
        let request = CreateSnapshotRequest {
            name: "snap".to_owned(),
            source_volume_id: VOLUME.to_owned(),
            ..CreateSnapshotRequest::default()
        };
        host.controller(async move |mut client| client.create_snapshot(request).await).map(drop)
    };
    let delete = |host: &Host| {
        let request =
            DeleteSnapshotRequest { snapshot_id: format!("snap@{VOLUME}"), ..DeleteSnapshotRequest::default() };
        host.controller(async move |mut client| client.delete_snapshot(request).await).map(drop)
    };
    let mut points = 0;
    loop {
        let following = Trace::begin(host.served.pid(), KillPoint { who: KilledProcess::Daemon, before: Some(points) });
        let answer = snapshot(&host);
        let seen = following.end();
        host.served.kill();
        // Whole or not at all: as large as its volume.
        let copies: Vec<String> = host.images().into_iter().filter(|name| name != VOLUME).collect();
        for copy in &copies {
            let size = fs::metadata(host.node.folder().join("disk").join(copy)).unwrap().len();
            assert_eq!((copy.as_str(), size), (".snapshot-snap@pvc", 16 << 20));
        }
        host.revive();
        repeated(&host, snapshot);
        repeated(&host, delete);
        assert_eq!(host.images(), [VOLUME]);
        if !seen.killed {
            answer.unwrap();
            break;
        }
        points += 1;
    }
    assert!(points > 0, "no call of the kernel was seen");
}

#[test]
fn volumes_are_unmounted_without_records_and_with_damaged_records() {
    for damage in [None, Some("{"), Some("[]"), Some("")] {
        let mut host = Host::start(&[]);
        bring(&host, Stage::Absent, Stage::Published);
        host.served.kill();
        let folder = host.served.state().join("node");
        for file in fs::read_dir(&folder).unwrap() {
            let path = file.unwrap().path();
            match damage {
                None => fs::remove_file(path).unwrap(),
                Some(text) => fs::write(path, text).unwrap(),
            }
        }
        host.revive();
        bring(&host, Stage::Published, Stage::Absent);
        host.assert_clean();
    }
}

#[test]
fn what_a_restart_of_the_machine_has_taken_is_made_again() {
    let mut host = Host::start(&[]);
    bring(&host, Stage::Absent, Stage::Published);
    host.served.kill();
    // Mounts and loop devices are gone, records are not.
    let mounts = host.node.all_mounts();
    for mount in mounts.iter().rev() {
        assert!(host.node.inside("umount").arg(&mount.point).status().unwrap().success());
    }
    for device in host.devices.all() {
        assert!(host.node.inside("losetup").args(["-d", &device]).status().unwrap().success());
    }
    host.revive();
    repeated(&host, |host| host.stage(&volume(), writer()));
    repeated(&host, |host| host.publish(host.publish_request(&volume(), writer(), TARGET)));
    fs::write(host.seen(&host.target(TARGET)).join("word"), "x").unwrap();
    assert!(!host.devices.all().is_empty());
    bring(&host, Stage::Published, Stage::Absent);
    host.assert_clean();
}
