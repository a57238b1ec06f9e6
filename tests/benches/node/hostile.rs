//! What plugins that run for ever cost the volumes of another plugin.

use std::path::Path;
use std::time::{Duration, Instant};

use volhost_tests::artifacts;
use volhost_tests::benchmark::Figure;

use crate::daemon::Daemon;
use crate::options::Sizes;
use crate::probe::{pod, small_pods};
use crate::report::{Report, Times, tail};

/// Volumes of the plugin that runs for ever: two for each processor of a small node.
const HOSTILE: usize = 4;
/// How long a plugin may run by default. What is measured must have been begun within it.
const THEIR_TIME: Duration = Duration::from_secs(10);

pub(crate) async fn measure(report: &mut Report, scratch: &Path, sizes: &Sizes) {
    let folder = tempfile::tempdir_in(scratch).expect("a folder");
    Daemon::prepare(folder.path(), [artifacts::plugin("empty-dir"), artifacts::fixture("fixture-misbehaving")]);
    let mut daemon = Daemon::start_again(folder.path()).await;
    let for_their_time = || {
        let begun = Instant::now();
        move |done: usize| done < sizes.pods && begun.elapsed() < THEIR_TIME
    };
    let alone = Times::new(small_pods(&mut daemon, "alone", for_their_time()).await);
    for bad in 0..HOSTILE {
        daemon.add(pod(&format!("bad-{bad}"), r#""misbehaving":{"at":"publish","how":"loop"}"#)).await;
    }
    let beside = Times::new(small_pods(&mut daemon, "beside", for_their_time()).await);
    daemon.kill();
    let what = format!("pod of one volume ready beside {HOSTILE} volumes whose plugin runs for ever");
    report.add(Figure::new("hostile-ready", &what, beside.median()).beside("without them", alone.median()));
    let aim = alone.p99() + Duration::from_millis(100);
    report.add(tail("hostile-ready", &what, beside.p99()).beside("without them", alone.p99()).aim(aim));
}
