//! One operation, killed at every call there is.

use std::cell::RefCell;
use std::io::Write;

use volhost_tests::kill_points::{Call, KillPoint, KilledProcess};
use volhost_tests::wait::eventually;

use crate::site::Site;

/// An operation of the daemon that is repeated, and in which it is killed.
pub(crate) trait Operation {
    /// Brings the node to the state before the operation, whatever the last round has left. The
    /// daemon runs.
    fn prepare(&mut self, site: &Site);
    /// Requests the operation.
    fn begin(&mut self, site: &Site);
    /// Returns whether the node looks as if the operation were done.
    fn is_done(&self, site: &Site) -> bool;
    /// Checks the node while no daemon runs.
    fn check_dead(&self, _site: &Site) {}
    /// Waits until the operation is done, and checks the node.
    fn assert_done(&self, site: &Site);
    /// Requests the opposite, while no daemon runs.
    fn revoke(&mut self, site: &Site);
    /// Waits until the opposite is done.
    fn assert_revoked(&self, site: &Site);
}

thread_local! {
    /// Printed by a failing test beside its own message.
    static AT: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Prints, where a test fails, at which point the daemon was killed.
struct Telling;

impl Drop for Telling {
    fn drop(&mut self) {
        if std::thread::panicking() {
            AT.with_borrow(|at| eprintln!("{at}"));
        }
    }
}

/// Kills the daemon at each call of the operation in turn, twice: once the desired state stays,
/// once it is the opposite when the daemon starts again. Either way the node ends as if there had
/// been no kill.
pub(crate) fn kill_everywhere(name: &str, who: KilledProcess, site: &mut Site, operation: &mut dyn Operation) {
    let _telling = Telling;
    let (mut points, mut deaths) = (Vec::<Call>::new(), 0);
    for point in 0.. {
        let mut killed = false;
        for revoked in [false, true] {
            let then = if revoked { "then the opposite is wanted" } else { "and the same is wanted" };
            let at = |call: &str| AT.set(format!("{name}: killed before call {point} {call}, {then}"));
            at("");
            operation.prepare(site);
            let following = site.follow(KillPoint { who, before: Some(point) });
            operation.begin(site);
            let ended = eventually(|| following.has_ended() || operation.is_done(site));
            let seen = following.end();
            site.node.kill();
            assert!(ended, "{name} does not come to its end; calls: {:?}\n{}", seen.calls, site.log());
            if let Some(call) = seen.calls.last().filter(|_| seen.killed) {
                at(&format!("({call})"));
                killed = true;
                deaths += 1;
                if points.len() == point {
                    points.push(call.clone());
                }
            }
            operation.check_dead(site);
            if revoked {
                operation.revoke(site);
            }
            site.revive();
            if revoked {
                operation.assert_revoked(site);
            } else {
                operation.assert_done(site);
            }
            site.check_witness();
        }
        if !killed {
            break;
        }
    }
    report(name, &points, deaths);
    assert!(!points.is_empty(), "{name}: no call was seen, so nothing was tested");
}

/// Prints past the test runner, which hides the output of tests that pass.
pub(crate) fn report(name: &str, points: &[Call], deaths: usize) {
    let mut text = format!("{name}: {} kill points, {deaths} deaths survived\n", points.len());
    if std::env::var_os("VOLHOST_KILL_POINTS").is_some() {
        for (number, call) in points.iter().enumerate() {
            text.push_str(&format!("  {number:3} {call}\n"));
        }
    }
    let _ = std::io::stderr().write_all(text.as_bytes());
}
