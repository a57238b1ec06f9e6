//! Manifests for the tests, as short as can be.

/// A pod whose one container uses every volume. `volumes` are YAML flow maps:
/// `name: a, emptyDir: {}`.
pub fn pod(name: &str, uid: &str, volumes: &[&str]) -> String {
    let names: Vec<&str> = volumes
        .iter()
        .map(|volume| {
            volume.split(',').find_map(|part| part.trim().strip_prefix("name: ")).expect("a volume has a name")
        })
        .collect();
    let mounts: Vec<String> =
        names.iter().map(|name| format!("        - {{ name: {name}, mountPath: /{name} }}")).collect();
    let volumes: Vec<String> = volumes.iter().map(|volume| format!("    - {{ {volume} }}")).collect();
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{ name: {name}, uid: {uid} }}\nspec:\n  containers:\n    - name: main\n      image: none\n      volumeMounts:\n{}\n  volumes:\n{}\n",
        mounts.join("\n"),
        volumes.join("\n")
    )
}

/// A PersistentVolume of a folder, and the claim that is bound to it.
pub fn local_volume(name: &str, path: &str, node: &str) -> String {
    format!(
        "apiVersion: v1\nkind: PersistentVolume\nmetadata: {{ name: {name} }}\nspec:\n  capacity: {{ storage: 1Gi }}\n  accessModes: [ReadWriteOnce]\n  local: {{ path: {path} }}\n  nodeAffinity:\n    required:\n      nodeSelectorTerms:\n        - matchExpressions:\n            - {{ key: kubernetes.io/hostname, operator: In, values: [{node}] }}\n---\napiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {{ name: {name}-claim }}\nspec:\n  accessModes: [ReadWriteOnce]\n  resources: {{ requests: {{ storage: 1Gi }} }}\n  volumeName: {name}\n"
    )
}

/// A PersistentVolume of an image file, with further lines of its `spec`, and the claim that is
/// bound to it.
pub fn loop_volume(name: &str, image: &str, fs_type: &str, size: &str, more: &str) -> String {
    let block = if more.contains("volumeMode: Block") { "\n  volumeMode: Block" } else { "" };
    format!(
        "apiVersion: v1\nkind: PersistentVolume\nmetadata: {{ name: {name} }}\nspec:\n  capacity: {{ storage: {size} }}\n  accessModes: [ReadWriteOnce]\n  csi: {{ driver: loop.volhost.io, volumeHandle: {image}, fsType: {fs_type} }}\n{more}\n---\napiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {{ name: {name}-claim }}\nspec:\n  accessModes: [ReadWriteOnce]{block}\n  resources: {{ requests: {{ storage: 1Mi }} }}\n  volumeName: {name}\n"
    )
}

/// A PersistentVolume of a CSI driver, with further fields of its `csi`, and the claim that is bound
/// to it.
pub fn csi_volume(driver: &str, name: &str, more: &str, mode: &str) -> String {
    format!(
        "apiVersion: v1\nkind: PersistentVolume\nmetadata: {{ name: {name} }}\nspec:\n  capacity: {{ storage: 32Mi }}\n  accessModes: [ReadWriteOnce]\n  volumeMode: {mode}\n  csi: {{ driver: {driver}, volumeHandle: {name}-id{more} }}\n---\napiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {{ name: {name}-claim }}\nspec:\n  accessModes: [ReadWriteOnce]\n  volumeMode: {mode}\n  resources: {{ requests: {{ storage: 1Mi }} }}\n  volumeName: {name}\n"
    )
}

/// A pod whose one container uses a claim as a device.
pub fn device_pod(name: &str, uid: &str, claim: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{ name: {name}, uid: {uid} }}\nspec:\n  containers:\n    - name: main\n      image: none\n      volumeDevices:\n        - {{ name: raw, devicePath: /dev/raw }}\n  volumes:\n    - {{ name: raw, persistentVolumeClaim: {{ claimName: {claim} }} }}\n"
    )
}
