//! The clock: before this program was installed, or before what volhost has recorded.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use volhost_volume_ops::layout::STATE;

use super::check::Checks;
use crate::format::rfc3339;

/// Clocks of machines that share a disk differ by seconds.
const TOLERANCE: Duration = Duration::from_secs(60);

/// Checks the clock against the program's file, the records below the root folder, and the time of
/// the newest event, in microseconds since the Unix epoch.
pub(super) fn check(checks: &mut Checks, root: &Path, newest_event: Option<u64>) {
    let modified = |path: &Path| fs::metadata(path).and_then(|found| found.modified()).ok();
    let program = std::env::current_exe().ok().and_then(|program| modified(&program));
    let event = newest_event.map(|micros| UNIX_EPOCH + Duration::from_micros(micros));
    let marks = [
        ("the file of this program", program),
        ("a record below the root folder", newest_record(&root.join(STATE))),
        ("an event of the daemon", event),
    ];
    judge(checks, SystemTime::now(), &marks);
}

fn judge(checks: &mut Checks, now: SystemTime, marks: &[(&str, Option<SystemTime>)]) {
    let future: Vec<String> = marks
        .iter()
        .filter_map(|(what, at)| {
            (*at).filter(|at| *at > now + TOLERANCE).map(|at| format!("{what} is of {}", shown(at)))
        })
        .collect();
    if future.is_empty() {
        checks.ok("clock", shown(now));
        return;
    }
    checks.problem(
        "clock",
        format!("it shows {}, and {}", shown(now), future.join(", ")),
        "ages, retries, lifetimes of tokens and reclaim grace are counted from wrong times",
        "set the clock (timedatectl set-ntp true, or chronyc makestep), then restart volhostd",
    );
}

/// When the newest record was written. The folder is the host's own, and flat but for one level.
fn newest_record(folder: &Path) -> Option<SystemTime> {
    let entries = fs::read_dir(folder).ok()?;
    entries.filter_map(Result::ok).filter_map(|entry| entry.metadata().ok()?.modified().ok()).max()
}

fn shown(time: SystemTime) -> String {
    let micros =
        time.duration_since(UNIX_EPOCH).map_or(0, |since| u64::try_from(since.as_micros()).unwrap_or(u64::MAX));
    rfc3339(micros).unwrap_or_else(|| "1970".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::check::Outcome;

    #[test]
    fn a_clock_behind_its_own_records_is_a_problem() {
        let now = UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        let outcome = |ahead: Option<u64>| {
            let mut checks = Checks::default();
            let at = ahead.map(|seconds| now + Duration::from_secs(seconds));
            judge(&mut checks, now, &[("a record", at), ("nothing", None)]);
            checks.all()[0].clone()
        };
        assert_eq!(outcome(None).outcome, Outcome::Ok);
        assert_eq!(outcome(Some(59)).outcome, Outcome::Ok, "clocks differ a little");
        let wrong = outcome(Some(3600));
        assert_eq!(wrong.outcome, Outcome::Problem);
        assert!(wrong.found.contains("a record is of 2001-09-09T02:46:40"), "{}", wrong.found);
    }
}
