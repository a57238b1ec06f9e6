//! Requests that are wrong in every field: the code that the specification names, and nothing is
//! changed.

use std::fs;
use std::os::unix::fs::symlink;

use tonic::{Code, Status};
use volhost_proto::csi::controller_client::ControllerClient;
use volhost_proto::csi::volume_capability::AccessMode;
use volhost_proto::csi::*;

use volhost_tests::artifacts;

use crate::csi_serve::kit::{Host, MIB, SINGLE_NODE_WRITER, block, code, map, mount, mount_of, wanted};

fn writer() -> VolumeCapability {
    mount(SINGLE_NODE_WRITER)
}

#[test]
fn every_field_of_a_new_volume_is_checked_against_the_specification() {
    let host = Host::start(&["--topology", "zone=a"]);
    let good = || wanted("pvc", MIB, writer());
    let range = |required_bytes, limit_bytes| Some(CapacityRange { required_bytes, limit_bytes });
    let nowhere = VolumeCapability { access_type: None, access_mode: Some(AccessMode { mode: 1 }) };
    let elsewhere = TopologyRequirement {
        requisite: vec![Topology { segments: map(&[("zone", "b")]) }],
        ..TopologyRequirement::default()
    };
    let of = |id: &str| {
        let source = volume_content_source::VolumeSource { volume_id: id.to_owned() };
        Some(VolumeContentSource { r#type: Some(volume_content_source::Type::Volume(source)) })
    };
    for (what, request, expected) in [
        ("no name", CreateVolumeRequest { name: String::new(), ..good() }, Code::InvalidArgument),
        ("a NUL", CreateVolumeRequest { name: "a\0b".to_owned(), ..good() }, Code::InvalidArgument),
        ("a long name", CreateVolumeRequest { name: "n".repeat(129), ..good() }, Code::InvalidArgument),
        ("10 MB of name", CreateVolumeRequest { name: "n".repeat(10 << 20), ..good() }, Code::InvalidArgument),
        ("no capability", CreateVolumeRequest { volume_capabilities: vec![], ..good() }, Code::InvalidArgument),
        ("no access type", CreateVolumeRequest { volume_capabilities: vec![nowhere], ..good() }, Code::InvalidArgument),
        ("less than none", CreateVolumeRequest { capacity_range: range(-1, 0), ..good() }, Code::OutOfRange),
        ("a limit below", CreateVolumeRequest { capacity_range: range(MIB * 2, MIB), ..good() }, Code::OutOfRange),
        ("too small", CreateVolumeRequest { capacity_range: range(0, 4096), ..good() }, Code::OutOfRange),
        ("everything", CreateVolumeRequest { capacity_range: range(i64::MAX, 0), ..good() }, Code::OutOfRange),
        (
            "an unknown parameter",
            CreateVolumeRequest { parameters: map(&[("x", "y")]), ..good() },
            Code::InvalidArgument,
        ),
        (
            "another folder",
            CreateVolumeRequest { parameters: map(&[("folder", "/etc")]), ..good() },
            Code::InvalidArgument,
        ),
        (
            "huge parameters",
            CreateVolumeRequest { parameters: map(&[("folder", &"x".repeat(10 << 20))]), ..good() },
            Code::InvalidArgument,
        ),
        (
            "what cannot change",
            CreateVolumeRequest { mutable_parameters: map(&[("a", "b")]), ..good() },
            Code::InvalidArgument,
        ),
        (
            "elsewhere",
            CreateVolumeRequest { accessibility_requirements: Some(elsewhere), ..good() },
            Code::ResourceExhausted,
        ),
        (
            "of nothing",
            CreateVolumeRequest { volume_content_source: Some(VolumeContentSource::default()), ..good() },
            Code::InvalidArgument,
        ),
        ("of no volume", CreateVolumeRequest { volume_content_source: of("none"), ..good() }, Code::NotFound),
        ("of a path", CreateVolumeRequest { volume_content_source: of("../../etc/passwd"), ..good() }, Code::NotFound),
    ] {
        let refused = host.create(request).expect_err(what);
        assert_eq!(refused.code(), expected, "{what}: {refused}");
        assert!(refused.message().len() < 600 && refused.details().is_empty(), "{what}: {refused}");
    }
    assert!(host.images().is_empty(), "{:?}", host.images());
    // A volume's name need not be a file's name.
    let odd = host.create(wanted("../Fünf/\u{1f4be}", MIB, writer())).unwrap();
    assert!(odd.accessible_topology[0].segments["zone"] == "a" && !odd.volume_id.contains('/'), "{odd:?}");
    assert_eq!(host.images(), [odd.volume_id.as_str()]);
    for hostile in ["../../etc/passwd", "..", "/etc/passwd", ".snapshot-x@y", "none"] {
        host.delete(hostile).unwrap();
    }
    assert_eq!(code(host.delete("")), Code::InvalidArgument);
    assert_eq!(host.images().len(), 1);
}

#[test]
fn paths_lead_to_the_cos_folder_and_through_no_link() {
    let host = Host::start(&[]);
    let volume = host.create(wanted("pvc", 16 * MIB, writer())).unwrap();
    let outside = tempfile::tempdir().unwrap();
    let folder = host.node.folder();
    symlink(outside.path(), folder.join("link")).unwrap();
    let stage = |path: String| {
        let request = NodeStageVolumeRequest {
            volume_id: volume.volume_id.clone(),
            staging_target_path: path,
            volume_capability: Some(writer()),
            volume_context: volume.volume_context.clone(),
            ..NodeStageVolumeRequest::default()
        };
        host.on_node(async move |mut client| client.node_stage_volume(request).await)
    };
    let within = |rest: &str| format!("{}/{rest}", folder.display());
    let bad = [
        String::new(),
        "/etc".to_owned(),
        outside.path().display().to_string(),
        within("../x"),
        within("a\0b"),
        within(&"x/".repeat(5000)),
        "relative".to_owned(),
        within("no-such-folder"),
    ];
    for path in bad {
        assert_eq!(code(stage(path.clone())), Code::InvalidArgument, "{path}");
    }
    assert_eq!(code(stage(within("link"))), Code::FailedPrecondition, "a symbolic link is not followed");
    assert_eq!(host.node.all_mounts(), []);
    assert!(host.devices.all().is_empty());

    host.stage(&volume, writer()).unwrap();
    let good = host.publish_request(&volume, writer(), "a");
    for (path, expected) in [
        (String::new(), Code::InvalidArgument),
        ("/etc/target".to_owned(), Code::InvalidArgument),
        (within("pods/../../x"), Code::InvalidArgument),
        (within("pods/a\0b"), Code::InvalidArgument),
        (within("no-such-folder/a"), Code::InvalidArgument),
        (within("link/a"), Code::FailedPrecondition),
        (within("link"), Code::AlreadyExists),
    ] {
        let refused = host.publish(NodePublishVolumeRequest { target_path: path.clone(), ..good.clone() });
        assert_eq!(code(refused), expected, "{path}");
    }
    for request in [
        NodePublishVolumeRequest { volume_id: String::new(), ..good.clone() },
        NodePublishVolumeRequest { volume_capability: None, ..good.clone() },
        NodePublishVolumeRequest { volume_context: map(&[("k", &"v".repeat(10 << 20))]), ..good.clone() },
        NodePublishVolumeRequest { volume_context: map(&[("no-such", "field")]), ..good.clone() },
    ] {
        assert_eq!(code(host.publish(request)), Code::InvalidArgument);
    }
    let as_device = NodePublishVolumeRequest { volume_capability: Some(block()), ..good.clone() };
    assert_eq!(code(host.publish(as_device)), Code::AlreadyExists, "it is staged as a file system");
    // A mount at a target that is no volume of the driver is left alone.
    fs::create_dir_all(folder.join("pods/full")).unwrap();
    fs::write(folder.join("pods/full/data"), "precious").unwrap();
    let refused = host.publish(host.publish_request(&volume, writer(), "full"));
    assert!(matches!(code(refused), Code::AlreadyExists | Code::FailedPrecondition));
    assert_eq!(fs::read_to_string(folder.join("pods/full/data")).unwrap(), "precious");
    assert_eq!(code(host.unpublish("pvc", "full")), Code::FailedPrecondition, "no volume is published there");
    assert_eq!(code(host.unpublish("never", "full")), Code::FailedPrecondition);
    assert_eq!(fs::read_to_string(folder.join("pods/full/data")).unwrap(), "precious");
    fs::remove_dir_all(folder.join("pods/full")).unwrap();
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
    host.unstage("pvc").unwrap();
    host.assert_clean();
}

#[test]
fn what_a_publication_asks_for_is_checked_against_what_was_staged() {
    const READER: i32 = 3;
    let host = Host::start(&[]);
    let volume = host.create(wanted("pvc", 16 * MIB, writer())).unwrap();
    host.stage(&volume, writer()).unwrap();
    let asking = |fs_type: &str, flags: &[&str], mode: i32| {
        let mut capability = mount_of(fs_type, mode);
        if let Some(volume_capability::AccessType::Mount(mount)) = &mut capability.access_type {
            mount.mount_flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
        }
        host.publish(host.publish_request(&volume, capability, "a"))
    };
    for (fs_type, flags, words) in [("xfs", &[][..], "`fs_type` is"), ("ext4", &["noexec"][..], "`mount_flags` has")] {
        let refused = asking(fs_type, flags, SINGLE_NODE_WRITER).unwrap_err();
        assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
        assert!(refused.message().contains(words), "{refused}");
    }
    assert_eq!(host.node.all_mounts().len(), 1, "nothing but the staged volume is mounted");
    asking("", &[], SINGLE_NODE_WRITER).unwrap();
    host.unpublish("pvc", "a").unwrap();
    host.unstage("pvc").unwrap();
    // A volume that was staged read-only cannot be published writable.
    host.stage(&volume, mount(READER)).unwrap();
    let refused = asking("ext4", &[], SINGLE_NODE_WRITER).unwrap_err();
    assert!(refused.code() == Code::FailedPrecondition && refused.message().contains("for readers"), "{refused}");
    host.unstage("pvc").unwrap();
    host.assert_clean();
}

#[test]
fn of_concurrent_duplicates_one_runs_and_the_others_are_aborted() {
    let host = Host::start(&[]);
    let calls: Vec<_> =
        (0..16)
            .map(|_| {
                let mut client = ControllerClient::new(host.channel());
                async move {
                    client.create_volume(wanted("pvc", MIB, writer())).await.map(|answer| answer.into_inner().volume)
                }
            })
            .collect();
    let answers: Vec<Result<Option<Volume>, Status>> = host.at_once(calls);
    let done: Vec<&Option<Volume>> = answers.iter().filter_map(|answer| answer.as_ref().ok()).collect();
    assert!(!done.is_empty() && done.iter().all(|volume| **volume == *done[0]));
    for refused in answers.iter().filter_map(|answer| answer.as_ref().err()) {
        assert_eq!(refused.code(), Code::Aborted, "{refused}");
    }
    assert_eq!(host.images(), ["pvc"]);
}

#[test]
fn a_driver_that_cannot_start_says_why() {
    let host = Host::start(&[]);
    let twice = host.served.fails(&host.node, &[]);
    assert!(twice.contains("in use by another volhost"), "{twice}");
    for (arguments, words) in [
        (&["--endpoint", "tcp://127.0.0.1:1"][..], "is no unix socket"),
        (&["--driver-name", "Not A Name", "--state-dir", "/tmp/none"][..], "--driver-name"),
        (&["--plugin", "/no/such.wasm"][..], "/no/such.wasm"),
        (&["--topology", "zone"][..], "key=value"),
        (&["--max-volumes-per-node", "0"][..], "max-volumes-per-node"),
    ] {
        let said = host.served.fails(&host.node, arguments);
        assert!(said.contains(words), "{arguments:?}: {said}");
    }
}

#[test]
fn a_plugin_that_can_serve_no_persistent_volume_is_refused_at_start() {
    let host = Host::start(&[]);
    for (plugin, words) in [
        ("empty-dir", "emptyDir is a volume of a pod, whose data goes with the pod"),
        ("secret", "secret is a volume of a pod"),
        ("csi", "CSI drivers that register with a daemon"),
        ("flex-volume", "FlexVolume drivers, which only a daemon starts"),
    ] {
        let file = artifacts::plugin(plugin).display().to_string();
        let said = host.served.fails(&host.node, &["--plugin", &file, "--state-dir", "/tmp/none"]);
        assert!(said.contains("cannot be served as a CSI driver") && said.contains(words), "{plugin}: {said}");
    }
}

#[test]
fn a_plugin_without_a_signature_is_refused_where_the_configuration_requires_one() {
    use std::os::unix::fs::PermissionsExt;
    let host = Host::start(&[]);
    let folder = host.node.folder();
    let keys = folder.join("keys");
    fs::create_dir(&keys).unwrap();
    fs::set_permissions(&keys, fs::Permissions::from_mode(0o755)).unwrap();
    let key = "untrusted comment: a key\nRWQBAQEBAQEBAddamAGCsQq31Uv+08lkBzoO4XLz2qYjJa8CGmj3B1Ea\n";
    fs::write(keys.join("a.pub"), key).unwrap();
    fs::set_permissions(keys.join("a.pub"), fs::Permissions::from_mode(0o644)).unwrap();
    let config = folder.join("signed.toml");
    fs::write(&config, format!("trusted-keys = {keys:?}\nrequire-signature = true\n")).unwrap();
    let plugin = artifacts::fixture("fixture-array");
    let arguments = ["--plugin", plugin.to_str().unwrap(), "--config", config.to_str().unwrap()];
    let said = host.served.fails(&host.node, &arguments);
    assert!(said.contains("it is not signed"), "{said}");
}
