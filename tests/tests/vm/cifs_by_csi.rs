//! The plugin of SMB shares as a CSI driver, whose volumes a claim asks for or a pod describes.

use volhost_tests::manifests::pod;

use crate::cifs_server::{PASSWORD, SHARE, Server, inline, secret};
use crate::csi_driver::CsiDriver;
use crate::kit::Daemon;

/// The driver's object, a class of its volumes, a claim of it, and the pod that mounts that.
fn claim_and_pod() -> String {
    format!(
        "apiVersion: storage.k8s.io/v1
kind: CSIDriver
metadata: {{ name: cifs.volhost.io }}
spec: {{ attachRequired: false, podInfoOnMount: true, volumeLifecycleModes: [Persistent, Ephemeral] }}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {{ name: team }}
provisioner: cifs.volhost.io
mountOptions: [vers=3.1.1]
parameters:
  source: //127.0.0.1/team
  csi.storage.k8s.io/node-publish-secret-name: login
  csi.storage.k8s.io/node-publish-secret-namespace: default
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{ name: a, uid: a-uid }}
spec:
  accessModes: [ReadWriteMany]
  storageClassName: team
  resources: {{ requests: {{ storage: 16Mi }} }}
---
{}",
        pod("a", "uid-a", &["name: data, persistentVolumeClaim: { claimName: a }"])
    )
}

#[test]
fn a_claim_and_a_pods_own_volume_are_served_with_their_secret_by_csi() {
    let server = Server::start();
    let guest = &server.guest;
    let driver = CsiDriver::start(guest, "cifs", "cifs-by-csi");
    let daemon = Daemon::start_with(guest, "cifs-by-csi", &["csi"], "--provision --plugin-registry /run/cifs-csi");
    daemon.add("secret.yaml", &secret("wrong-horse"));
    daemon.add("a.yaml", &claim_and_pod());
    let refused = "does not accept the user name, password or domain";
    daemon.wait_event(&["FailedMount", "pod default/a", "//127.0.0.1/team", refused, "EACCES"]);
    daemon.remove("secret.yaml");
    daemon.add("secret.yaml", &secret(PASSWORD));
    daemon.wait_mounted("default/a");
    // The kubelet's place for the volumes of a CSI driver.
    let place = |pod: &str, volume: &str| {
        format!("{}/root/pods/uid-{pod}/volumes/kubernetes.io~csi/{volume}/mount", daemon.folder())
    };
    guest.run(&format!("echo claimed >{}/word", place("a", "pvc-a-uid")));
    assert_eq!(guest.run(&format!("cat {SHARE}/word")), "claimed\n");

    daemon.add("b.yaml", &pod("b", "uid-b", &[&inline("own", "//127.0.0.1/team", ", readOnly: true")]));
    daemon.wait_mounted("default/b");
    assert_eq!(guest.run(&format!("cat {}/word", place("b", "own"))), "claimed\n");
    let refused = guest.try_run(&format!("echo x >{}/refused", place("b", "own")));
    assert!(refused.error.contains("Read-only file system"), "{refused:?}");
    let mounts = daemon.mounts();
    for (place, words) in [(place("a", "pvc-a-uid"), "vers=3.1.1"), (place("b", "own"), " ro,")] {
        let mount = mounts.iter().find(|mount| mount.contains(&format!(" {place} "))).unwrap();
        let words = [" - cifs //127.0.0.1/team ", "username=node", words];
        assert!(words.iter().all(|word| mount.contains(word)), "{words:?}: {mount}");
    }

    for name in ["a", "b"] {
        daemon.remove(&format!("{name}.yaml"));
        daemon.wait_unmounted(&format!("default/{name}"));
    }
    let deleted = daemon.volhost("delete pvc a");
    assert!(deleted.succeeded(), "{deleted:?}");
    daemon.assert_clean();
    assert_eq!(guest.run("grep -c ' cifs ' /proc/mounts || true"), "0\n");
    assert_eq!(guest.run(&format!("cat {SHARE}/word")), "claimed\n", "a share is nobody's to delete");
    let found =
        guest.run(&format!("grep -rlF -e horse {0}/root {0}/log {1} || true", daemon.folder(), driver.folder()));
    assert_eq!(found, "", "neither state, log nor record has the password");
    daemon.kill();
    driver.stop();
}
