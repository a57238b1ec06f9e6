//! The operator's configuration that grants an interface.

/// Interfaces with a key of their own in a grant, with an example.
const NAMED: [(&str, &str); 11] = [
    ("host-paths", "host-paths = [\"/srv\"]"),
    ("loop-devices", "loop-files = [\"/srv/images\"]"),
    ("image-files", "image-files = [\"/srv/images\"]"),
    ("network-mounts", "network-servers = [\"192.0.2.0/24\"]"),
    ("iscsi-sessions", "iscsi-portals = [\"192.0.2.0/24\"]"),
    ("fc-devices", "fc-targets = [\"50060e801049cfd1\"]"),
    ("oci-images", "image-registries = [\"registry.example.com\"]"),
    ("block-devices", "block-devices = [\"/dev/disk/by-id/archive\"]"),
    ("grpc", "csi-drivers = [\"csi.example.com\"]"),
    ("driver-exec", "flex-drivers = [\"acme/lun\"]"),
    ("fuse-servers", "fuse-servers.sshfs = { program = \"/usr/bin/sshfs\", arguments = [\"{mount}\"] }"),
];

/// Interfaces that every plugin may import.
const OPEN: [&str; 11] = [
    "types",
    "volumes",
    "provisioning",
    "mounts",
    "tmpfs",
    "log",
    "events",
    "node",
    "settings",
    "devices",
    "filesystems",
];

/// The line of the configuration that grants an imported interface; none if every plugin may import
/// it.
pub fn line(interface: &str) -> Option<String> {
    if OPEN.contains(&interface) {
        return None;
    }
    let named = NAMED.iter().find(|(name, _)| *name == interface).map(|(_, line)| (*line).to_owned());
    Some(named.unwrap_or_else(|| format!("interfaces = [\"{interface}\"]")))
}
