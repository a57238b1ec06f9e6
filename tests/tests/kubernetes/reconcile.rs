//! Attachments that the driver has lost.

use std::fs;

use volhost_tests::wait::eventually;

use crate::controllers::Controller;
use crate::storage::Storage;

/// As when a cloud detaches a disk from a machine that is gone for a while: Kubernetes says that the
/// volume is attached, the storage says that it is not.
#[test]
fn an_attachment_that_the_driver_does_not_list_any_more_is_attached_again() {
    let mut storage = Storage::start("reconcile", "Immediate");
    let mut first = Controller::start(&storage.driver, "reconcile-first", &["--poll-interval", "1s"]);
    storage.claim("reconcile-claim", "");
    storage.pod("reconcile-pod", "reconcile-claim");
    let published = storage.driver.served.state().join("publications");
    let records = || fs::read_dir(&published).unwrap().map(|file| file.unwrap().path()).collect::<Vec<_>>();
    let [record] = &records()[..] else { panic!("{:?}", records()) };
    storage.driver.served.kill();
    fs::remove_file(record).unwrap();
    storage.driver.served.run(storage.driver.cluster.node());
    assert!(eventually(|| record.exists()), "{}\n{}", first.known(), storage.driver.served.log());
    let lost = "does not list the volume as attached any more";
    assert!(first.log().contains(lost), "{}", first.log());

    // A replica that takes over begins with the driver's list, too.
    let second = Controller::start(&storage.driver, "reconcile-second", &["--poll-interval", "1s"]);
    assert!(first.terminate().success(), "{}", first.log());
    second.wait_leads();
    storage.driver.served.kill();
    fs::remove_file(record).unwrap();
    storage.driver.served.run(storage.driver.cluster.node());
    assert!(eventually(|| record.exists()), "{}\n{}", second.known(), storage.driver.served.log());

    storage.driver.cluster.delete_pod("reconcile-pod");
    storage.driver.cluster.kubectl(&["delete", "pvc", "reconcile-claim"]);
    storage.assert_gone(&second);
    assert_eq!(records(), Vec::<std::path::PathBuf>::new());
    assert!(second.log().contains(lost), "{}", second.log());
    second.assert_permitted();
}
