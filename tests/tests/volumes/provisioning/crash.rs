//! The daemon dies before each system call of making and of deleting a volume, and is started
//! again: one volume, or none, as is wanted.

use volhost_tests::kill_points::{KillPoint, KilledProcess, Trace};
use volhost_tests::wait::eventually;

use crate::provisioning::kit::Host;

/// What is being done when the daemon dies.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Doing {
    Making,
    Deleting,
}

/// Brings the node to where it begins.
fn prepare(host: &Host, doing: Doing) {
    match doing {
        Doing::Making => host.assert_clean(),
        Doing::Deleting => {
            host.claim("data", "fast", "4Mi");
            host.bound("data");
        }
    }
}

fn begin(host: &Host, doing: Doing) {
    match doing {
        Doing::Making => host.claim("data", "fast", "4Mi"),
        Doing::Deleting => host.remove_claim("data"),
    }
}

fn is_done(host: &Host, doing: Doing) -> bool {
    match doing {
        Doing::Making => host.seen("data")["phase"] == "Bound",
        Doing::Deleting => host.images().is_empty() && host.records().is_empty(),
    }
}

/// Kills the daemon at each call in turn; `revoked`: the opposite is wanted when it starts again.
fn kill_everywhere(host: &mut Host, doing: Doing) {
    let mut points = 0;
    for point in 0.. {
        let mut killed = false;
        for revoked in [false, true] {
            prepare(host, doing);
            let death = KillPoint { who: KilledProcess::Daemon, before: Some(point) };
            let following = Trace::begin(host.node.pid(), death);
            begin(host, doing);
            let ended = eventually(|| following.has_ended() || is_done(host, doing));
            let seen = following.end();
            host.node.kill();
            let at = format!("{doing:?} {point} revoked: {revoked} {:?}", seen.calls.last());
            assert!(ended, "{at}\n{}", host.node.log());
            killed |= seen.killed;
            assert!(host.images().len() <= 1, "{at}: {:?}", host.images());
            let wanted = (doing == Doing::Making) != revoked;
            if revoked {
                match doing {
                    Doing::Making => host.remove_claim("data"),
                    Doing::Deleting => host.claim("data", "fast", "4Mi"),
                }
            }
            let node = &mut host.node;
            assert!(eventually(|| node.try_start()), "{at}\n{}", node.log());
            if wanted {
                let volume = host.bound("data");
                assert!(eventually(|| host.images() == [volume.clone()]), "{at}: {:?}", host.images());
                assert!(eventually(|| host.records() == [format!("{volume}.json")]), "{at}: {:?}", host.records());
                host.remove_claim("data");
            }
            host.assert_clean();
        }
        if !killed {
            break;
        }
        points += 1;
    }
    assert!(points > 0, "{doing:?}: no call of the kernel was seen");
    eprintln!("{doing:?}: {points} kill points");
}

#[test]
fn a_daemon_that_dies_at_any_moment_of_making_a_volume_makes_one_or_none() {
    let mut host = Host::native();
    host.class("fast", "");
    kill_everywhere(&mut host, Doing::Making);
}

#[test]
fn a_daemon_that_dies_at_any_moment_of_deleting_a_volume_deletes_it_or_makes_another() {
    let mut host = Host::native();
    host.class("fast", "");
    kill_everywhere(&mut host, Doing::Deleting);
}
