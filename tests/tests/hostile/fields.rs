//! Every field of every source of every kind, with every value it must not have: missing, of
//! another type, out of range, hostile. Each is refused with the field's path, by the manifest's
//! reader or by the plugin, in a message of bounded length; and nothing of the machine changes.
//!
//! The cases are made from one good source a kind and a table of its fields. A field of the good
//! source that the table lacks, or the other way round, fails the test: so none is forgotten.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use volhost_kernel::{Directory, Entry, Kernel, Propagation};
use volhost_model::{Pod, PodUid, SpecName, VolumeSpec};
use volhost_objects::{ObjectContent, parse};
use volhost_runtime::{Call, Compiler, Limits, NeededPlace, Place, Plugin, Runtime, RuntimeConfig, Target};
use volhost_testing_kernel::InMemoryKernel;
use volhost_tests::artifacts;

/// The longest message, in bytes: a value of a megabyte must not fill a terminal or a log.
const LONGEST_MESSAGE: usize = 4096;

/// What a field takes.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Takes {
    /// A map of fields of its own.
    Fields,
    /// A map of texts under names of the user's own.
    Labels,
    /// A list of maps.
    List,
    /// `true` or `false`.
    Bool,
    /// Permission bits.
    Mode,
    /// A number of seconds, 600 at least.
    Seconds,
    /// A path in the volume.
    InnerPath,
    /// An absolute path of the host.
    HostPath,
    /// A host name or an address.
    Server,
    /// An absolute path on a server.
    ServerPath,
    /// `//SERVER/SHARE`.
    SmbShare,
    /// A folder of a share.
    SmbFolder,
    /// An address, or one with a port.
    Portal,
    /// The name of an iSCSI target or initiator.
    IscsiName,
    /// The name of an interface of open-iscsi.
    Interface,
    /// The number of a unit, at most 255.
    Lun,
    /// The name of a port of a Fibre Channel target.
    FcPort,
    /// A user of a server.
    User,
    /// The number of a port, as a text.
    PortText,
    /// The number of a user or group, as a text.
    IdText,
    /// A number of files, as a text.
    CountText,
    /// The mode of a folder, as a text.
    ModeText,
    /// The name of a bucket.
    Bucket,
    /// The beginning of the keys of objects.
    Prefix,
    /// The URL of a server.
    Endpoint,
    /// The name of a region.
    Region,
    /// A file's name.
    FileName,
    /// A path below a granted folder, or an absolute one.
    ImagePath,
    /// The reference of an OCI image.
    ImageReference,
    /// An amount of bytes.
    Quantity,
    /// One of a few words.
    Word,
    /// Disk, memory, or an absolute path.
    Top,
    /// The name of a volume of the pod.
    VolumeName,
    /// The name of a cluster's object.
    ObjectName,
    /// A list of access modes.
    Modes,
    /// A field of the pod.
    PodField,
    /// A resource of a container.
    Resource,
    /// What something is called, or another text that is looked up and never opened.
    Text,
}
use Takes::*;

impl Takes {
    /// The type in JSON.
    fn is_type_of(self, value: &Value) -> bool {
        match self {
            Fields | Labels => value.is_object(),
            List => value.is_array(),
            Modes => value.is_array() && value != &json!([]) && value != &json!(["x"]),
            Bool => value.is_boolean(),
            Mode | Seconds | Lun => value.is_i64(),
            // An amount may be written as a number.
            Quantity => value.is_string() || value.is_number(),
            _ => value.is_string(),
        }
    }

    /// Values of the right type that it must not have.
    fn hostile(self) -> Vec<Value> {
        let long = "x".repeat(1 << 20);
        let slashed = format!("/{long}");
        let texts: &[&str] = match self {
            Fields | Labels | List | Bool => return Vec::new(),
            Modes => {
                return vec![json!([]), json!(["x"]), json!(["ReadWriteOnce", ""]), json!(["ReadWriteOnce", long])];
            }
            VolumeName => &["", ".", "..", "../x", "a/b", "Models", "a b", "a\0b", "models:", "models:models", &long],
            ObjectName => &["..", "../x", "a/b", "Upper", "a b", "a\0b", &long],
            Mode => return vec![json!(-1), json!(0o1000), json!(1_u64 << 31), json!(i64::MIN)],
            Seconds => return vec![json!(-1), json!(0), json!(599), json!(i64::MIN), json!(1_u64 << 33)],
            InnerPath => &["", ".", "..", "../x", "a/../../x", "/etc/passwd", "..data", "..data_tmp/x", "a\0b", &long],
            HostPath => &["", "relative", "../x", "/srv/../etc", "/srv/..", "/srv/a\0b"],
            Server => &[
                "",
                ".",
                "-nas",
                "a b",
                "nas:/export",
                "nas,addr=192.0.2.2",
                "nas\naddr=192.0.2.2",
                "a\0b",
                "[nas]",
                "nas/..",
                &long,
            ],
            SmbShare => &[
                "",
                "//192.0.2.1",
                "//192.0.2.1/",
                "192.0.2.1/team",
                "\\\\192.0.2.1\\team",
                "//192.0.2.1,ip=192.0.2.2/team",
                "//192.0.2.1/team/../other",
                "//192.0.2.1/..\\other",
                "//192.0.2.1//team",
                "//-a/team",
                "//a b/team",
                "//192.0.2.1/te\nam",
                "//192.0.2.1/te\0am",
                &long,
            ],
            SmbFolder => &["", "/", "..", "a/../b", "a//b", "a\\..\\b", "a\nb", "a\0b", &long],
            Portal => &[
                "",
                "san.example.com",
                "-p",
                "192.0.2.1:0",
                "192.0.2.1:65536",
                "192.0.2.1,192.0.2.2",
                "192.0.2.1 192.0.2.2",
                "192.0.2.1\n",
                "192.0.2.1\0",
                "fe80::1%eth0",
                "'192.0.2.1'",
                "192.0.2.1/..",
                &long,
            ],
            IscsiName => &[
                "disk",
                "iqn.",
                "--login",
                "iqn.a/../b",
                "iqn.a..b",
                "iqn.a,b",
                "iqn.a b",
                "iqn.a\nnode.startup = automatic",
                "iqn.a\0",
                "iqn.a'",
                "iqn.a\"",
                &long,
            ],
            Interface => &["-I", "..", "../default", "a/b", "a b", "a,b", "a\nb", "a\0b", "'a'", &long],
            FcPort => &[
                "",
                "0x",
                "50060e801049cfd",
                "50060e801049cfd12",
                "50060e801049cfdg",
                "50:06:0e:80:10:49:cf:d1",
                "50060e801049cfd1-lun-0",
                "../../../../etc/passwd",
                "50060e801049cfd1\n",
                "50060e801049cfd1\0",
                "*",
                &long,
            ],
            Lun => return vec![json!(-1), json!(256), json!(1_u64 << 33), json!(i64::MIN)],
            User => &["", "-l", ".", "a@b", "a b", "a,b", "a/b", "a\nb", "a\0b", "a=b", &long],
            PortText => &["", "ssh", "0", "65536", "-1", "+22", "22,23", "0x16", " 22", "22\n", &long],
            IdText => &["", "root", "-1", "4294967295", "+1", "1.5", "1\0", &long],
            CountText => &["", "many", "0", "-1", "4294967296", "+1", "10k", "1\0", &long],
            ModeText => &["", "rwx", "8", "10000", "-1", "+7", "0o7", "0750,uid=0", "7\0", &long],
            Bucket => {
                &["", "ab", "Upper", "-abc", "a..b", "abc/def", "abc,d", "abc d", "s3:abc", "abc\0", "{path}", &long]
            }
            Prefix => &["", "/", "/etc", "..", "a/../b", "a//b", "a b", "a,b", "a=b", "a\nb", "a\0b", "{mount}", &long],
            Endpoint => &[
                "",
                "s3.example.com",
                "file:///etc",
                "https://",
                "https://user@host",
                "https://host/path",
                "https://host?x",
                "https://-host",
                "https://a b",
                "https://a,b",
                "https://a\ntype = local",
                "https://a\0",
                &long,
            ],
            Region => &["", "-x", "eu/x", "..", "eu x", "eu\nx", "eu,x", "eu\0", &long],
            ServerPath => &["", "relative", "../x", "/export/../etc", "/export/..", "/a\0b", "/a\nb", &long],
            FileName => &["", ".", "..", "../x", "a/b", "/etc/passwd", "a\0b", "a\nb", &long],
            ImagePath => &["", "..", "../x", "/images/../etc/x", "a\0b", "a\nb", "folder/", &long],
            ImageReference => &[
                "",
                "R.example/App",
                "r.example/../app",
                "r.example/a b",
                "r.example/app:1 --help",
                "r.example/app:",
                "r.example/app@sha256:00",
                "user@r.example/app",
                "https://r.example/app",
                "r.example/app\0",
                "r.example/app\n",
                "oci:/srv/../etc",
                &long,
            ],
            Quantity => &["1GB", "-1", "1e400", "0x10", "many", "1Mi\0", "99999999999999999999999", &long],
            Word => &["nope", "\0", &long],
            Top => {
                &["floppy", "../x", "/srv/../etc", "/", "/srv/base", "/srv/base/top", "/srv/a\0b", "\u{1b}[2J", &long]
            }
            PodField => {
                &["", "spec.nodeName", "metadata", "metadata.labels['", "metadata.labels['a']['b']", "\0", &long]
            }
            Resource => &["", "limits", "limits.gold", "limits.cpu.x", "\0", &long],
            Text => return Vec::new(),
        };
        let long_path = matches!(self, HostPath | ServerPath).then_some(slashed);
        texts.iter().map(|text| json!(text)).chain(long_path.map(Value::from)).collect()
    }
}

/// One kind of volume.
struct Kind {
    plugin: &'static str,
    /// The source's name in the manifest.
    source: &'static str,
    /// It comes by a PersistentVolume.
    persistent: bool,
    good: Value,
    /// Every field by its path, what it takes, and whether it must be there.
    fields: &'static [(&'static str, Takes, bool)],
}

/// What has no plugin of its own: the reader of manifests checks it whole.
const NO_PLUGIN: &str = "";
const NEEDED: bool = true;
const MAY_LACK: bool = false;

fn kinds() -> Vec<Kind> {
    let items = json!([{ "key": "k", "path": "p", "mode": 0o400 }]);
    vec![
        Kind {
            plugin: "config-map",
            source: "configMap",
            persistent: false,
            good: json!({ "name": "app", "defaultMode": 0o644, "optional": true, "items": items }),
            fields: &[
                ("name", Text, MAY_LACK),
                ("defaultMode", Mode, MAY_LACK),
                ("optional", Bool, MAY_LACK),
                ("items", List, MAY_LACK),
                ("items.0", Fields, MAY_LACK),
                ("items.0.key", Text, NEEDED),
                ("items.0.path", InnerPath, NEEDED),
                ("items.0.mode", Mode, MAY_LACK),
            ],
        },
        Kind {
            plugin: "secret",
            source: "secret",
            persistent: false,
            good: json!({ "secretName": "login", "defaultMode": 0o600, "optional": false, "items": items }),
            fields: &[
                ("secretName", Text, NEEDED),
                ("defaultMode", Mode, MAY_LACK),
                ("optional", Bool, MAY_LACK),
                ("items", List, MAY_LACK),
                ("items.0", Fields, MAY_LACK),
                ("items.0.key", Text, NEEDED),
                ("items.0.path", InnerPath, NEEDED),
                ("items.0.mode", Mode, MAY_LACK),
            ],
        },
        Kind {
            plugin: "downward-api",
            source: "downwardAPI",
            persistent: false,
            good: json!({ "defaultMode": 0o644, "items": [
                { "path": "a", "mode": 0o400, "fieldRef": { "fieldPath": "metadata.name" } },
                { "path": "b", "resourceFieldRef": { "containerName": "main", "resource": "limits.cpu", "divisor": "1m" } },
            ] }),
            fields: &[
                ("defaultMode", Mode, MAY_LACK),
                ("items", List, MAY_LACK),
                ("items.0", Fields, MAY_LACK),
                ("items.0.path", InnerPath, NEEDED),
                ("items.0.mode", Mode, MAY_LACK),
                ("items.0.fieldRef", Fields, NEEDED),
                ("items.0.fieldRef.fieldPath", PodField, NEEDED),
                ("items.1", Fields, MAY_LACK),
                ("items.1.path", InnerPath, NEEDED),
                ("items.1.resourceFieldRef", Fields, NEEDED),
                ("items.1.resourceFieldRef.containerName", Text, NEEDED),
                ("items.1.resourceFieldRef.resource", Resource, NEEDED),
                ("items.1.resourceFieldRef.divisor", Quantity, MAY_LACK),
            ],
        },
        Kind {
            plugin: "projected",
            source: "projected",
            persistent: false,
            good: json!({ "defaultMode": 0o644, "sources": [
                { "configMap": { "name": "app", "optional": true, "items": items } },
                { "secret": { "name": "login", "optional": true, "items": items } },
                { "downwardAPI": { "items": [{ "path": "c", "fieldRef": { "fieldPath": "metadata.uid" } }] } },
                { "serviceAccountToken": { "path": "t", "audience": "them", "expirationSeconds": 3600 } },
                { "clusterTrustBundle": { "path": "ca", "name": "ours", "optional": true } },
                { "clusterTrustBundle": { "path": "cb", "signerName": "a/b", "labelSelector": { "matchLabels": {} } } },
            ] }),
            fields: &[
                ("defaultMode", Mode, MAY_LACK),
                ("sources", List, MAY_LACK),
                ("sources.0", Fields, MAY_LACK),
                ("sources.0.configMap", Fields, NEEDED),
                ("sources.0.configMap.name", Text, MAY_LACK),
                ("sources.0.configMap.optional", Bool, MAY_LACK),
                ("sources.0.configMap.items", List, MAY_LACK),
                ("sources.0.configMap.items.0", Fields, MAY_LACK),
                ("sources.0.configMap.items.0.key", Text, NEEDED),
                ("sources.0.configMap.items.0.path", InnerPath, NEEDED),
                ("sources.0.configMap.items.0.mode", Mode, MAY_LACK),
                ("sources.1", Fields, MAY_LACK),
                ("sources.1.secret", Fields, NEEDED),
                ("sources.1.secret.name", Text, MAY_LACK),
                ("sources.1.secret.optional", Bool, MAY_LACK),
                ("sources.1.secret.items", List, MAY_LACK),
                ("sources.1.secret.items.0", Fields, MAY_LACK),
                ("sources.1.secret.items.0.key", Text, NEEDED),
                ("sources.1.secret.items.0.path", InnerPath, NEEDED),
                ("sources.1.secret.items.0.mode", Mode, MAY_LACK),
                ("sources.2", Fields, MAY_LACK),
                ("sources.2.downwardAPI", Fields, NEEDED),
                ("sources.2.downwardAPI.items", List, MAY_LACK),
                ("sources.2.downwardAPI.items.0", Fields, MAY_LACK),
                ("sources.2.downwardAPI.items.0.path", InnerPath, NEEDED),
                ("sources.2.downwardAPI.items.0.fieldRef", Fields, NEEDED),
                ("sources.2.downwardAPI.items.0.fieldRef.fieldPath", PodField, NEEDED),
                ("sources.3", Fields, MAY_LACK),
                ("sources.3.serviceAccountToken", Fields, NEEDED),
                ("sources.3.serviceAccountToken.path", InnerPath, NEEDED),
                ("sources.3.serviceAccountToken.audience", Text, MAY_LACK),
                ("sources.3.serviceAccountToken.expirationSeconds", Seconds, MAY_LACK),
                ("sources.4", Fields, MAY_LACK),
                ("sources.4.clusterTrustBundle", Fields, NEEDED),
                ("sources.4.clusterTrustBundle.path", InnerPath, NEEDED),
                ("sources.4.clusterTrustBundle.name", Text, NEEDED),
                ("sources.4.clusterTrustBundle.optional", Bool, MAY_LACK),
                ("sources.5", Fields, MAY_LACK),
                ("sources.5.clusterTrustBundle", Fields, NEEDED),
                ("sources.5.clusterTrustBundle.path", InnerPath, NEEDED),
                ("sources.5.clusterTrustBundle.signerName", Text, NEEDED),
                ("sources.5.clusterTrustBundle.labelSelector", Fields, MAY_LACK),
                ("sources.5.clusterTrustBundle.labelSelector.matchLabels", Labels, MAY_LACK),
            ],
        },
        Kind {
            plugin: "empty-dir",
            source: "emptyDir",
            persistent: false,
            good: json!({ "medium": "Memory", "sizeLimit": "64Mi" }),
            fields: &[("medium", Word, MAY_LACK), ("sizeLimit", Quantity, MAY_LACK)],
        },
        Kind {
            plugin: "host-path",
            source: "hostPath",
            persistent: false,
            good: json!({ "path": "/srv/base", "type": "Directory" }),
            fields: &[("path", HostPath, NEEDED), ("type", Word, MAY_LACK)],
        },
        Kind {
            plugin: "local",
            source: "local",
            persistent: true,
            good: json!({ "path": "/srv/base", "fsType": "ext4" }),
            fields: &[("path", HostPath, NEEDED), ("fsType", Text, MAY_LACK)],
        },
        Kind {
            plugin: "nfs",
            source: "nfs",
            persistent: false,
            good: json!({ "server": "192.0.2.1", "path": "/export", "readOnly": true }),
            fields: &[("server", Server, NEEDED), ("path", ServerPath, NEEDED), ("readOnly", Bool, MAY_LACK)],
        },
        Kind {
            plugin: "image",
            source: "image",
            persistent: false,
            good: json!({ "reference": "r.example/team/app:1", "pullPolicy": "Never" }),
            fields: &[("reference", ImageReference, NEEDED), ("pullPolicy", Word, MAY_LACK)],
        },
        Kind {
            plugin: "iscsi",
            source: "iscsi",
            persistent: true,
            good: json!({ "targetPortal": "192.0.2.1", "portals": ["192.0.2.2:3260"], "iqn": "iqn.2003-01.org.example:disk",
                          "lun": 0, "iscsiInterface": "default", "initiatorName": "iqn.2003-01.org.example:node",
                          "fsType": "ext4", "readOnly": false, "chapAuthDiscovery": false, "chapAuthSession": true,
                          "secretRef": { "name": "chap", "namespace": "storage" } }),
            fields: &[
                ("targetPortal", Portal, NEEDED),
                ("portals", List, MAY_LACK),
                ("portals.0", Portal, MAY_LACK),
                ("iqn", IscsiName, NEEDED),
                ("lun", Lun, NEEDED),
                ("iscsiInterface", Interface, MAY_LACK),
                ("initiatorName", IscsiName, MAY_LACK),
                ("fsType", Word, MAY_LACK),
                ("readOnly", Bool, MAY_LACK),
                ("chapAuthDiscovery", Bool, MAY_LACK),
                ("chapAuthSession", Bool, MAY_LACK),
                ("secretRef", Fields, NEEDED),
                ("secretRef.name", Text, NEEDED),
                ("secretRef.namespace", Text, MAY_LACK),
            ],
        },
        Kind {
            plugin: "fc",
            source: "fc",
            persistent: true,
            good: json!({ "targetWWNs": ["50060e801049cfd1", "0x50060E801049CFD2"], "lun": 0, "fsType": "ext4",
                          "readOnly": false }),
            fields: &[
                ("targetWWNs", List, NEEDED),
                ("targetWWNs.0", FcPort, MAY_LACK),
                ("targetWWNs.1", FcPort, MAY_LACK),
                ("lun", Lun, NEEDED),
                ("fsType", Word, MAY_LACK),
                ("readOnly", Bool, MAY_LACK),
            ],
        },
        Kind {
            plugin: "cifs",
            source: "csi",
            persistent: true,
            good: json!({ "driver": "cifs.volhost.io", "volumeHandle": "team", "readOnly": false,
                          "nodePublishSecretRef": { "name": "key", "namespace": "storage" },
                          "volumeAttributes": { "source": "//192.0.2.1/team", "subDir": "a/b" } }),
            fields: &[
                ("driver", Text, NEEDED),
                ("volumeHandle", Text, NEEDED),
                ("readOnly", Bool, MAY_LACK),
                ("nodePublishSecretRef", Fields, NEEDED),
                ("nodePublishSecretRef.name", Text, NEEDED),
                ("nodePublishSecretRef.namespace", Text, MAY_LACK),
                ("volumeAttributes", Fields, NEEDED),
                ("volumeAttributes.source", SmbShare, NEEDED),
                ("volumeAttributes.subDir", SmbFolder, MAY_LACK),
            ],
        },
        Kind {
            plugin: "sshfs",
            source: "csi",
            persistent: true,
            good: json!({ "driver": "sshfs.volhost.io", "volumeHandle": "files", "readOnly": false,
                          "nodePublishSecretRef": { "name": "key", "namespace": "storage" },
                          "volumeAttributes": { "server": "192.0.2.1", "path": "/export", "user": "data",
                                                "port": "22", "uid": "1000", "gid": "2000" } }),
            fields: &[
                ("driver", Text, NEEDED),
                ("volumeHandle", Text, NEEDED),
                ("readOnly", Bool, MAY_LACK),
                ("nodePublishSecretRef", Fields, NEEDED),
                ("nodePublishSecretRef.name", Text, NEEDED),
                ("nodePublishSecretRef.namespace", Text, MAY_LACK),
                ("volumeAttributes", Fields, NEEDED),
                ("volumeAttributes.server", Server, NEEDED),
                ("volumeAttributes.path", ServerPath, NEEDED),
                ("volumeAttributes.user", User, NEEDED),
                ("volumeAttributes.port", PortText, MAY_LACK),
                ("volumeAttributes.uid", IdText, MAY_LACK),
                ("volumeAttributes.gid", IdText, MAY_LACK),
            ],
        },
        Kind {
            plugin: "s3",
            source: "csi",
            persistent: true,
            good: json!({ "driver": "s3.volhost.io", "volumeHandle": "files", "readOnly": false,
                          "nodePublishSecretRef": { "name": "key", "namespace": "storage" },
                          "volumeAttributes": { "bucket": "reports", "prefix": "team/a", "region": "eu-west-1",
                                                "endpoint": "http://192.0.2.1:9000", "uid": "1000", "gid": "2000" } }),
            fields: &[
                ("driver", Text, NEEDED),
                ("volumeHandle", Text, NEEDED),
                ("readOnly", Bool, MAY_LACK),
                ("nodePublishSecretRef", Fields, NEEDED),
                ("nodePublishSecretRef.name", Text, NEEDED),
                ("nodePublishSecretRef.namespace", Text, MAY_LACK),
                ("volumeAttributes", Fields, NEEDED),
                ("volumeAttributes.bucket", Bucket, NEEDED),
                ("volumeAttributes.prefix", Prefix, MAY_LACK),
                ("volumeAttributes.endpoint", Endpoint, MAY_LACK),
                ("volumeAttributes.region", Region, MAY_LACK),
                ("volumeAttributes.uid", IdText, MAY_LACK),
                ("volumeAttributes.gid", IdText, MAY_LACK),
            ],
        },
        Kind {
            plugin: "tmpfs",
            source: "csi",
            persistent: true,
            good: json!({ "driver": "tmpfs.volhost.io", "volumeHandle": "cache", "readOnly": false,
                          "volumeAttributes": { "size": "1Mi", "inodes": "100", "mode": "0750", "uid": "1000", "gid": "2000" } }),
            fields: &[
                ("driver", Text, NEEDED),
                ("volumeHandle", Text, NEEDED),
                ("readOnly", Bool, MAY_LACK),
                ("volumeAttributes", Fields, MAY_LACK),
                ("volumeAttributes.size", Quantity, MAY_LACK),
                ("volumeAttributes.inodes", CountText, MAY_LACK),
                ("volumeAttributes.mode", ModeText, MAY_LACK),
                ("volumeAttributes.uid", IdText, MAY_LACK),
                ("volumeAttributes.gid", IdText, MAY_LACK),
            ],
        },
        Kind {
            plugin: "loop",
            source: "csi",
            persistent: true,
            good: json!({ "driver": "loop.volhost.io", "volumeHandle": "a.img", "fsType": "ext4", "readOnly": false,
                          "volumeAttributes": { "folder": "/images" } }),
            fields: &[
                ("driver", Text, NEEDED),
                ("volumeHandle", FileName, NEEDED),
                ("fsType", Word, MAY_LACK),
                ("readOnly", Bool, MAY_LACK),
                ("volumeAttributes", Fields, MAY_LACK),
                ("volumeAttributes.folder", HostPath, MAY_LACK),
            ],
        },
        Kind {
            plugin: "overlay",
            source: "csi",
            persistent: false,
            good: json!({ "driver": "overlay.volhost.io", "readOnly": false,
                          "volumeAttributes": { "base": "/srv/base", "baseVolume": "models", "top": "memory", "topSize": "1Mi" } }),
            fields: &[
                ("driver", Text, NEEDED),
                ("readOnly", Bool, MAY_LACK),
                ("volumeAttributes", Fields, NEEDED),
                ("volumeAttributes.base", HostPath, MAY_LACK),
                ("volumeAttributes.baseVolume", VolumeName, MAY_LACK),
                ("volumeAttributes.top", Top, NEEDED),
                ("volumeAttributes.topSize", Quantity, MAY_LACK),
            ],
        },
        Kind {
            plugin: "image-file",
            source: "csi",
            persistent: false,
            good: json!({ "driver": "image-file.volhost.io", "fsType": "erofs", "readOnly": true,
                          "volumeAttributes": { "image": "app.erofs" } }),
            fields: &[
                ("driver", Text, NEEDED),
                ("fsType", Word, NEEDED),
                ("readOnly", Bool, MAY_LACK),
                ("volumeAttributes", Fields, NEEDED),
                ("volumeAttributes.image", ImagePath, NEEDED),
            ],
        },
        Kind {
            plugin: "git-repo",
            source: "gitRepo",
            persistent: false,
            good: json!({ "repository": "https://example.com/app.git", "revision": "main", "directory": "app" }),
            fields: &[("repository", Text, NEEDED), ("revision", Text, MAY_LACK), ("directory", InnerPath, MAY_LACK)],
        },
        Kind {
            plugin: NO_PLUGIN,
            source: "ephemeral",
            persistent: false,
            good: json!({ "volumeClaimTemplate": {
                "metadata": { "labels": { "app": "a" }, "annotations": { "note": "n" } },
                "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } },
                          "storageClassName": "fast", "volumeMode": "Filesystem", "volumeName": "pv",
                          "selector": { "matchLabels": { "disk": "fast" } } } } }),
            fields: &[
                ("volumeClaimTemplate", Fields, NEEDED),
                ("volumeClaimTemplate.metadata", Fields, MAY_LACK),
                ("volumeClaimTemplate.metadata.labels", Labels, MAY_LACK),
                ("volumeClaimTemplate.metadata.labels.app", Text, MAY_LACK),
                ("volumeClaimTemplate.metadata.annotations", Labels, MAY_LACK),
                ("volumeClaimTemplate.metadata.annotations.note", Text, MAY_LACK),
                ("volumeClaimTemplate.spec", Fields, NEEDED),
                ("volumeClaimTemplate.spec.accessModes", Modes, NEEDED),
                ("volumeClaimTemplate.spec.accessModes.0", Word, MAY_LACK),
                ("volumeClaimTemplate.spec.resources", Fields, NEEDED),
                ("volumeClaimTemplate.spec.resources.requests", Labels, NEEDED),
                ("volumeClaimTemplate.spec.resources.requests.storage", Quantity, NEEDED),
                ("volumeClaimTemplate.spec.storageClassName", ObjectName, MAY_LACK),
                ("volumeClaimTemplate.spec.volumeMode", Word, MAY_LACK),
                ("volumeClaimTemplate.spec.volumeName", ObjectName, MAY_LACK),
                ("volumeClaimTemplate.spec.selector", Fields, MAY_LACK),
                ("volumeClaimTemplate.spec.selector.matchLabels", Labels, MAY_LACK),
                ("volumeClaimTemplate.spec.selector.matchLabels.disk", Text, MAY_LACK),
            ],
        },
    ]
}

/// A machine in memory with one plugin.
struct Machine {
    kernel: Arc<InMemoryKernel>,
    root: Directory,
    plugin: Option<Arc<Plugin>>,
    _folder: TempDir,
}

impl Machine {
    fn with(plugin: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let own = "[\"volhost.io/loop\"]\ninterfaces = [\"id-maps\"]\nloop-files = [\"/images\"]\n[\"volhost.io/image-file\"]\ninterfaces = [\"id-maps\"]\nimage-files = [\"/images\"]\n\
                   [\"volhost.io/overlay\"]\ninterfaces = [\"overlays\", \"pod-volumes\"]\nhost-paths = [\"/srv\"]\n";
        let grants = artifacts::builtin_grants().overridden_by(toml::from_str(own).unwrap());
        let compiler =
            Compiler { program: artifacts::volhost(), args: vec!["internal".into(), "compile-plugin".into()] };
        let cache_dir = folder.path().join("cache");
        let config = RuntimeConfig { cache_dir, limits: Limits::default(), compiler, grants };
        let kernel = Arc::new(InMemoryKernel::new());
        let root = kernel.prepare_root(Path::new("/var/lib/volhost"), Propagation::Private).unwrap();
        for path in ["/images", "/srv/base", "/etc"] {
            kernel.add_folder(path).unwrap();
        }
        kernel.add_share([192, 0, 2, 1].into(), "/export");
        let runtime = Runtime::new(config, Arc::clone(&kernel) as Arc<dyn Kernel>).unwrap();
        let load = |name| runtime.load(&artifacts::plugin(name)).unwrap_or_else(|error| panic!("{}", error.message()));
        let plugin = (plugin != NO_PLUGIN).then(|| load(plugin));
        // What a volume may be made of.
        kernel.make_folder(&root, "models".as_ref(), 0o755, None).unwrap();
        Self { kernel, root, plugin, _folder: folder }
    }

    /// What a change would be seen in.
    fn picture(&self) -> Vec<String> {
        let lists =
            ["/", "/images", "/srv", "/srv/base", "/etc", "/var/lib/volhost"].map(|path| self.kernel.list(path));
        let mut picture: Vec<String> = lists.iter().map(|list| format!("{list:?}")).collect();
        picture.push(format!("{:?} {}", self.kernel.mounts(), self.kernel.detached_count()));
        picture
    }

    /// Checks the volume, then sets it up; the first refusal.
    fn try_it(&self, spec: &Arc<VolumeSpec>, pod: &Arc<Pod>) -> Result<(), String> {
        let call = Call::bare(Duration::from_secs(60));
        let Some(plugin) = &self.plugin else { return Ok(()) };
        let identified = plugin.identify(&call, spec).map_err(|error| error.message())?;
        let models = || Place { parent: self.root.clone(), name: "models".into() };
        let needed = identified.needs.into_iter().map(|name| NeededPlace { name, place: models(), is_mount: false });
        let target = Target {
            parent: self.root.clone(),
            name: "volume".into(),
            pod_uid: Some(PodUid::new("uid-1").unwrap()),
            spec_name: SpecName::new("v").unwrap(),
            staging_mount: None,
            private: None,
            other_pods: None,
            needed: needed.collect(),
        };
        let outcome = plugin.publish(&call, spec, pod, target).map(drop).map_err(|error| error.message());
        if outcome.is_ok() {
            // An allowed mount may exist for a moment; the next call must find the machine
            // unchanged.
            self.kernel.detach(&self.root, "volume".as_ref(), volhost_kernel::Detach::Normal).unwrap();
        }
        assert_eq!(self.kernel.entry(&self.root, "volume".as_ref()).unwrap(), Entry::Absent, "{outcome:?}");
        outcome
    }
}

/// The source's fields, and the pod if the volume is written in one.
type Given = (volhost_model::Fields, Option<Arc<Pod>>);

/// The volume as the manifest's reader gives it on, or its refusal.
fn read(kind: &Kind, source: &Value) -> Result<Given, String> {
    let manifest = if kind.persistent {
        json!({ "apiVersion": "v1", "kind": "PersistentVolume", "metadata": { "name": "v" },
                "spec": { "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteOnce"], kind.source: source } })
    } else {
        json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "p", "uid": "uid-1" }, "spec": {
            "containers": [{ "name": "main", "image": "none", "volumeMounts": [{ "name": "v", "mountPath": "/v" }] }],
            "volumes": [{ "name": "v", kind.source: source }] } })
    };
    let parsed = parse("bad.yaml", &manifest.to_string()).map_err(|error| error.to_string())?;
    match &parsed.objects[0].content {
        ObjectContent::Pod(pod) => {
            Ok((pod.volumes[0].source.fields_of(kind.source).unwrap().clone(), Some(Arc::clone(&pod.pod))))
        }
        ObjectContent::PersistentVolume(volume) => Ok((volume.source.fields_of(kind.source).unwrap().clone(), None)),
        other => panic!("{other:?}"),
    }
}

/// What comes of a source, by reader and plugin.
fn outcome(kind: &Kind, machine: &Machine, source: &Value) -> Result<(), String> {
    let (fields, pod) = read(kind, source)?;
    let pod = pod.unwrap_or_else(|| {
        let none = Kind { persistent: false, source: "emptyDir", plugin: "", good: json!({}), fields: &[] };
        read(&none, &json!({})).unwrap().1.unwrap()
    });
    let persistent_volume = kind.persistent.then(|| {
        Box::new(volhost_model::spec::PersistentVolume {
            name: "v".into(),
            claim: "default/v".into(),
            capacity: Some(1 << 30),
            claim_capacity: None,
            access_modes: vec!["ReadWriteOnce".into()],
            mount_options: Vec::new(),
            volume_mode: Default::default(),
            node_affinity: None,
            gid: None,
            annotations: Default::default(),
        })
    });
    let read_only = fields.get("readOnly") == Some(&Value::Bool(true));
    let source = match fields.get("driver").and_then(Value::as_str) {
        Some(driver) => format!("{}:{driver}", kind.source),
        None => kind.source.to_owned(),
    };
    let spec = VolumeSpec {
        name: SpecName::new("v").unwrap(),
        source,
        fields,
        read_only,
        selinux_label: None,
        persistent_volume,
    };
    machine.try_it(&Arc::new(spec), &pod)
}

fn pointer(path: &str) -> String {
    format!("/{}", path.replace('.', "/"))
}

/// The good source with another value, or none, at a path.
fn with(good: &Value, path: &str, value: Option<Value>) -> Value {
    let mut source = good.clone();
    let (parent, name) = path.rsplit_once('.').unwrap_or(("", path));
    let parent = if parent.is_empty() { &mut source } else { source.pointer_mut(&pointer(parent)).unwrap() };
    match (parent, value) {
        (Value::Object(map), Some(value)) => drop(map.insert(name.to_owned(), value)),
        (Value::Object(map), None) => drop(map.remove(name)),
        (Value::Array(list), Some(value)) => list[name.parse::<usize>().unwrap()] = value,
        (Value::Array(list), None) => drop(list.remove(name.parse().unwrap())),
        (other, _) => panic!("{path}: {other}"),
    }
    source
}

/// Every path of a source.
fn paths(value: &Value, at: &str, all: &mut Vec<String>) {
    let below = |name: &str| if at.is_empty() { name.to_owned() } else { format!("{at}.{name}") };
    let children: Vec<(String, &Value)> = match value {
        Value::Object(map) => map.iter().map(|(name, value)| (below(name), value)).collect(),
        Value::Array(list) => list.iter().enumerate().map(|(n, value)| (below(&n.to_string()), value)).collect(),
        _ => return,
    };
    for (path, child) in children {
        paths(child, &path, all);
        all.push(path);
    }
}

/// A message with the reader's way to write list entries as the plugins'.
fn plain(message: &str) -> String {
    message.replace('[', ".").replace(']', "")
}

struct Judge<'a> {
    kind: &'a Kind,
    machine: Machine,
    before: Vec<String>,
    wrong: Vec<String>,
    cases: usize,
}

impl Judge<'_> {
    /// Requires a refusal that names the field, or one of those above it.
    fn refused(&mut self, source: &Value, path: &str, what: &str) {
        self.cases += 1;
        let outcome = outcome(self.kind, &self.machine, source);
        let place = format!("{}.{path}", self.kind.source);
        // A field that is wrong as a whole may be named by its parent: `volumeAttributes` of a
        // `csi` volume has texts only.
        let above = place.rsplit_once('.').map_or("", |(above, _)| above);
        match outcome {
            Ok(()) => self.wrong.push(format!("{place}, {what}: accepted")),
            Err(said) if !plain(&said).contains(above) => self.wrong.push(format!("{place}, {what}: {said}")),
            Err(said) if said.len() > LONGEST_MESSAGE => {
                self.wrong.push(format!("{place}, {what}: a message of {} bytes", said.len()));
            }
            Err(_) => {}
        }
        let after = self.machine.picture();
        if after != self.before {
            self.wrong.push(format!("{place}, {what}: the machine has changed: {after:?}"));
            self.before = after;
        }
    }
}

fn judge(name: &str) {
    let all = kinds();
    let kind = all.iter().find(|kind| kind.plugin == name).unwrap();
    let mut listed: Vec<String> = kind.fields.iter().map(|(path, ..)| (*path).to_owned()).collect();
    let mut there = Vec::new();
    paths(&kind.good, "", &mut there);
    listed.sort();
    there.sort();
    assert_eq!(listed, there, "every field is in the table, and in the good source");

    let machine = Machine::with(name);
    let before = machine.picture();
    if let Err(said) = read(kind, &kind.good) {
        panic!("the good source of {name}: {said}");
    }
    let mut judge = Judge { kind, machine, before, wrong: Vec::new(), cases: 0 };
    for (path, takes, needed) in kind.fields {
        let wrong_types = [
            json!(null),
            json!("text"),
            json!(5),
            json!(1.5),
            json!(true),
            json!([]),
            json!(["x"]),
            json!({}),
            json!({ "a": 1 }),
        ];
        for value in wrong_types.iter().filter(|value| !value.is_null() && !takes.is_type_of(value)) {
            judge.refused(&with(&kind.good, path, Some(value.clone())), path, &format!("{value} in its place"));
        }
        if *needed && *path != "driver" {
            judge.refused(&with(&kind.good, path, None), path, "missing");
            judge.refused(&with(&kind.good, path, Some(Value::Null)), path, "null");
        }
        for value in takes.hostile() {
            let shown: String = value.to_string().chars().take(40).collect();
            judge.refused(&with(&kind.good, path, Some(value)), path, &shown);
        }
        if *takes == Fields {
            let inside = format!("{path}.nope");
            judge.refused(&with(&kind.good, &inside, Some(json!("x"))), &inside, "a field that there is none of");
        }
    }
    judge.refused(&with(&kind.good, "nope", Some(json!("x"))), "nope", "a field that there is none of");
    assert!(judge.wrong.is_empty(), "{} of {} cases:\n{}", judge.wrong.len(), judge.cases, judge.wrong.join("\n"));
    assert!(judge.cases > 2 * kind.fields.len(), "{}", judge.cases);
}

macro_rules! every_field_of {
    ($($test:ident: $plugin:expr,)*) => {
        $(
            #[test]
            fn $test() {
                judge($plugin);
            }
        )*
    };
}

every_field_of! {
    every_field_of_config_map: "config-map",
    every_field_of_secret: "secret",
    every_field_of_downward_api: "downward-api",
    every_field_of_projected: "projected",
    every_field_of_empty_dir: "empty-dir",
    every_field_of_host_path: "host-path",
    every_field_of_local: "local",
    every_field_of_loop: "loop",
    every_field_of_overlay: "overlay",
    every_field_of_image_file: "image-file",
    every_field_of_nfs: "nfs",
    every_field_of_image: "image",
    every_field_of_iscsi: "iscsi",
    every_field_of_fc: "fc",
    every_field_of_cifs: "cifs",
    every_field_of_sshfs: "sshfs",
    every_field_of_s3: "s3",
    every_field_of_tmpfs: "tmpfs",
    every_field_of_git_repo: "git-repo",
    every_field_of_ephemeral: NO_PLUGIN,
}

#[test]
fn a_good_git_repo_is_refused_too_with_the_reason_and_the_way_out() {
    let all = kinds();
    let kind = all.iter().find(|kind| kind.plugin == "git-repo").unwrap();
    let machine = Machine::with("git-repo");
    let before = machine.picture();
    let said = outcome(kind, &machine, &kind.good).unwrap_err();
    assert!(said.contains("CVE-2024-10220") && said.contains("use an emptyDir, and an init container"), "{said}");
    assert_eq!(machine.picture(), before);
}

#[test]
fn a_good_ephemeral_volume_and_a_good_overlay_are_taken() {
    let all = kinds();
    for name in [NO_PLUGIN, "overlay"] {
        let kind = all.iter().find(|kind| kind.plugin == name).unwrap();
        assert_eq!(outcome(kind, &Machine::with(name), &kind.good), Ok(()), "{name}");
    }
}
