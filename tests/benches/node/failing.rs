//! A thousand pods whose volumes cannot be mounted: what they cost at rest, when the pauses between
//! attempts have grown to their longest.

use std::path::Path;
use std::time::Duration;

use volhost_tests::artifacts;
use volhost_tests::benchmark::{Figure, Measured, number};

use crate::daemon::{Cpu, Daemon};
use crate::probe::pod;
use crate::report::Report;

const PODS: usize = 1000;
/// The pause between attempts begins with half a second and doubles up to two minutes. Two minutes
/// and a half are the sum of all that are shorter.
const UNTIL_REST: Duration = Duration::from_secs(150);
const WATCHED: Duration = Duration::from_secs(30);

/// What a pod's volume needs and the node does not have.
struct Missing {
    /// Its name in ids.
    id: &'static str,
    /// For people.
    what: &'static str,
    /// The objects of the pod with this number.
    objects: fn(usize) -> Vec<String>,
}

const MISSING: [Missing; 3] = [
    Missing {
        id: "class",
        what: "storage class of the claim",
        objects: |number| {
            vec![
                format!(
                    r#"{{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{{"name":"claim-{number}"}},"spec":{{"accessModes":["ReadWriteOnce"],"storageClassName":"missing","resources":{{"requests":{{"storage":"1Mi"}}}}}}}}"#
                ),
                pod(&format!("pod-{number}"), &format!(r#""persistentVolumeClaim":{{"claimName":"claim-{number}"}}"#)),
            ]
        },
    },
    Missing {
        id: "driver",
        what: "CSI driver",
        objects: |number| vec![pod(&format!("pod-{number}"), r#""csi":{"driver":"missing.example"}"#)],
    },
    Missing {
        id: "config-map",
        what: "config map",
        objects: |number| vec![pod(&format!("pod-{number}"), r#""configMap":{"name":"missing"}"#)],
    },
];

pub(crate) async fn measure(report: &mut Report, scratch: &Path) {
    let folder = tempfile::tempdir_in(scratch).expect("a folder");
    let mut daemons = Vec::new();
    for missing in &MISSING {
        let folder = folder.path().join(missing.id);
        std::fs::create_dir(&folder).expect("a folder");
        Daemon::prepare(&folder, ["config-map", "csi", "empty-dir"].map(artifacts::plugin));
        let items: Vec<String> = (0..PODS).flat_map(missing.objects).collect();
        let list = format!(r#"{{"apiVersion":"v1","kind":"List","items":[{}]}}"#, items.join(","));
        std::fs::write(folder.join("manifests/all.json"), list).expect("the manifest is written");
        daemons.push(Daemon::start_again(&folder).await);
    }
    tokio::time::sleep(UNTIL_REST).await;
    let before: Vec<Cpu> = daemons.iter().map(Daemon::cpu).collect();
    tokio::time::sleep(WATCHED).await;
    for ((missing, daemon), before) in MISSING.iter().zip(daemons).zip(before) {
        let Missing { id, what, .. } = missing;
        let used = Measured::percent_of_core((daemon.cpu() - before).all(), WATCHED);
        let figure = Figure::new(
            format!("failing-{id}-cpu"),
            format!("{} pods without their {what}, at rest", number(PODS)),
            used,
        );
        report.add(figure.aim(Measured::percent(0.5)));
        report.add_memory(&format!("failing-{id}-memory"), "resident memory of that daemon", daemon.memory(), None);
        daemon.end().await;
    }
}
