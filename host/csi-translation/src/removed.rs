//! Sources that Kubernetes has removed, and translates to nothing.

/// A removed source, and what to do.
const REMOVED: [(&str, &str); 8] = [
    (
        "cephfs",
        "Kubernetes removed it in 1.31; CephFS is served by the CSI driver cephfs.csi.ceph.com: write a PersistentVolume with csi, driver cephfs.csi.ceph.com",
    ),
    ("flocker", "Kubernetes removed it in 1.25, and no CSI driver replaces it"),
    (
        "glusterfs",
        "Kubernetes removed it in 1.26, and no maintained CSI driver replaces it; a Gluster volume that is exported by NFS can be an nfs volume",
    ),
    ("photonPersistentDisk", "Kubernetes does not serve it any more, and no CSI driver replaces it"),
    (
        "quobyte",
        "Kubernetes removed it in 1.25; Quobyte is served by the CSI driver csi.quobyte.com: write csi, driver csi.quobyte.com",
    ),
    (
        "rbd",
        "Kubernetes removed it in 1.31; Ceph block devices are served by the CSI driver rbd.csi.ceph.com: write a PersistentVolume with csi, driver rbd.csi.ceph.com",
    ),
    (
        "scaleIO",
        "Kubernetes removed it in 1.22; PowerFlex (ScaleIO) is served by the CSI driver csi-vxflexos.dellemc.com: write csi, driver csi-vxflexos.dellemc.com",
    ),
    ("storageos", "Kubernetes removed it in 1.25, and no maintained CSI driver replaces it"),
];

/// Returns what became of a source that Kubernetes removed and translates to nothing, and what to
/// write instead; none for any other source.
pub fn removed(source: &str) -> Option<&'static str> {
    REMOVED.iter().find(|(name, _)| *name == source).map(|(_, words)| *words)
}
