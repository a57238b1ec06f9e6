//! A format that dies in the middle, the program that makes the file system included: so a service
//! manager ends a service.

use volhost_tests::kill_points::{KillPoint, KilledProcess, TracedExit};
use volhost_tests::wait::eventually;

use crate::exhaustive::{Operation, report};
use crate::pods::{Arrival, Known};
use crate::site::Site;
use crate::subjects::Image;
use crate::witness::Witness;

/// The program's last calls, each of which is a death of its own: here the file system becomes one.
const LAST: usize = 24;
/// Of those before, one in so many.
const STEP: usize = 16;

#[test]
fn a_format_that_is_killed_with_its_program_is_repeated() {
    for (fs_type, mib) in [("ext4", 16), ("xfs", 320), ("btrfs", 128)] {
        let mut site = Site::start().with_witness(Witness::of_folders());
        let mut arrival = Arrival(Known::learn(Image::new(fs_type, mib).fresh(), &site));
        let calls = format_until(&mut site, &mut arrival, None).calls;
        site.revive();
        let end = calls.iter().rposition(|call| call.to_string().starts_with("write loop")).expect("mkfs writes") + 1;
        let points = (0..end).filter(|point| point + LAST >= end || point % STEP == 0);
        let mut killed = Vec::new();
        for point in points {
            let seen = format_until(&mut site, &mut arrival, Some(point));
            killed.extend(seen.calls.last().filter(|_| seen.killed).cloned());
            site.revive();
            arrival.assert_done(&site);
            site.check_witness();
        }
        let deaths = killed.len();
        report(&format!("format {fs_type}, its program killed too"), &killed, deaths);
        assert!(deaths > LAST / 2, "{killed:?}");
    }
}

/// Has the volume attached, formatted and mounted, until the daemon and its programs die before
/// this call.
fn format_until(site: &mut Site, arrival: &mut Arrival<Image>, before: Option<usize>) -> TracedExit {
    arrival.prepare(site);
    let following = site.follow(KillPoint { who: KilledProcess::Programs, before });
    arrival.begin(site);
    assert!(eventually(|| following.has_ended() || arrival.is_done(site)), "{}", site.log());
    let seen = following.end();
    site.node.kill();
    seen
}
