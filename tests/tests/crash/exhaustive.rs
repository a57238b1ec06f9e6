//! One operation, killed at every call there is.

use std::cell::RefCell;
use std::io::Write;

use volhost_tests::kill_points::{Call, Death, Who};
use volhost_tests::wait::eventually;

use crate::site::Site;

/// Something that the daemon is made to do again and again, and dies over.
pub(crate) trait Operation {
    /// Brings the node to where it begins, from wherever the round before has left it. The daemon runs.
    fn prepare(&mut self, site: &Site);
    /// Asks the daemon for it.
    fn begin(&mut self, site: &Site);
    /// Whether the node looks as if it had been done.
    fn is_done(&self, site: &Site) -> bool;
    /// Looks at the node while no daemon runs.
    fn check_dead(&self, _site: &Site) {}
    /// It has been done: waits for it, and looks closely.
    fn assert_done(&self, site: &Site);
    /// Asks for the opposite, while no daemon runs.
    fn revoke(&mut self, site: &Site);
    /// The opposite has been done.
    fn assert_revoked(&self, site: &Site);
}

thread_local! {
    /// What a failing test says beside its own message.
    static AT: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Tells, where a test fails, at which point the daemon had been killed.
struct Telling;

impl Drop for Telling {
    fn drop(&mut self) {
        if std::thread::panicking() {
            AT.with_borrow(|at| eprintln!("{at}"));
        }
    }
}

/// Kills the daemon at each call of the operation in turn, twice: once everything stays as wanted, once the opposite is wanted when it
/// starts again. Either way the node ends as if nothing had happened.
pub(crate) fn kill_everywhere(name: &str, who: Who, site: &mut Site, operation: &mut dyn Operation) {
    let _telling = Telling;
    let (mut points, mut deaths) = (Vec::<Call>::new(), 0);
    for point in 0.. {
        let mut killed = false;
        for revoked in [false, true] {
            let wish = if revoked { "then the opposite is wanted" } else { "and the wish stays" };
            let at = |call: &str| AT.set(format!("{name}: killed before call {point} {call}, {wish}"));
            at("");
            operation.prepare(site);
            let following = site.follow(Death { who, before: Some(point) });
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
    tell(name, &points, deaths);
    assert!(!points.is_empty(), "{name}: no call was seen, so nothing was tested");
}

/// Past the test runner, which hides what tests that pass have printed.
pub(crate) fn tell(name: &str, points: &[Call], deaths: usize) {
    let mut text = format!("{name}: {} kill points, {deaths} deaths survived\n", points.len());
    if std::env::var_os("VOLHOST_KILL_POINTS").is_some() {
        for (number, call) in points.iter().enumerate() {
            text.push_str(&format!("  {number:3} {call}\n"));
        }
    }
    let _ = std::io::stderr().write_all(text.as_bytes());
}
