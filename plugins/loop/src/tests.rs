use volhost_plugin_sdk::testing::{TestAttachment, TestHost, TestVolume, TestVolumeRequest};

use super::*;

const IMAGE: &str = "/images/data.img";
const GIB: u64 = 1 << 30;

fn host() -> TestHost {
    let host = TestHost::new();
    host.grant_images("/images");
    host
}

fn plain() -> TestVolume {
    Volume::builder("csi:loop.volhost.io").persistent_volume("pv-1").field("driver", "loop.volhost.io")
}

fn volume() -> TestVolume {
    plain().field("volumeHandle", "data.img").capacity(GIB)
}

/// Attaches as the host does.
fn attached(host: &TestHost, volume: &TestVolume) -> TestAttachment {
    let attached = host.attach::<Loop>(volume).unwrap();
    host.wait_for_attach::<Loop>(volume, &attached).unwrap()
}

/// Attaches and stages.
fn mounted(host: &TestHost, volume: &TestVolume) -> TestAttachment {
    let attached = attached(host, volume);
    host.stage::<Loop>(volume, Some(&attached)).unwrap();
    attached
}

#[test]
fn it_serves_its_driver_and_no_other() {
    let about = TestHost::new().describe::<Loop>();
    assert_eq!(
        (about.name.as_str(), about.serves.as_slice()),
        ("volhost.io/loop", &["csi:loop.volhost.io".into()][..])
    );
    assert!(about.accepts_mount_options);
}

#[test]
fn a_volume_is_named_by_its_image() {
    let host = host();
    assert_eq!(host.identify::<Loop>(&volume()), Ok(Some(IMAGE.to_owned())));
    let elsewhere = volume().field("volumeAttributes.folder", "/srv/x/").field("volumeAttributes", "{}");
    assert_eq!(host.identify::<Loop>(&elsewhere), Ok(Some("/srv/x/data.img".to_owned())));
    assert_eq!(host.identity::<Loop>(&volume()).unwrap().attachable, None, "its exports decide");
}

#[test]
fn a_bad_field_is_named_with_its_value_and_what_is_right() {
    let host = host();
    for (volume, said) in [
        (plain(), "csi.volumeHandle: is missing"),
        (plain().field("volumeHandle", "a/b"), r#"csi.volumeHandle: "a/b" must be a file name"#),
        (plain().field("volumeHandle", "../b"), r#"csi.volumeHandle: "../b" must be a file name"#),
        (volume().field("fsType", "ntfs"), r#"csi.fsType: "ntfs" is not known"#),
        (volume().field("fstype", "xfs"), "csi.fstype: no such field; did you mean fsType?"),
        (
            volume().field("volumeAttributes.folder", "x"),
            r#"csi.volumeAttributes.folder: "x" must be an absolute path"#,
        ),
        (Volume::builder("csi:loop.volhost.io").field("volumeHandle", "x"), "csi: a volume of loop.volhost.io is a"),
    ] {
        let error = host.identify::<Loop>(&volume).unwrap_err();
        assert!(matches!(error, Error::InvalidArgument(_)) && error.message().starts_with(said), "{said}: {error}");
    }
}

#[test]
fn the_folder_is_the_granted_one_or_must_be_named() {
    let ungranted = TestHost::new();
    assert!(ungranted.identify::<Loop>(&volume()).unwrap_err().message().contains("loop-files"));
    drop(ungranted);
    let host = host();
    host.grant_images("/more");
    let error = host.identify::<Loop>(&volume()).unwrap_err();
    assert!(error.message().contains("name one of /images, /more"), "{error}");
}

#[test]
fn attaching_makes_the_image_once_and_keeps_its_device() {
    let host = host();
    for _ in 0..2 {
        assert_eq!(attached(&host, &volume()).clone(), attached(&host, &volume()));
        assert_eq!(host.disk(IMAGE).unwrap().size, GIB);
        assert!(host.is_attached::<Loop>(IMAGE).unwrap());
    }
    host.detach::<Loop>(IMAGE).unwrap();
    host.detach::<Loop>(IMAGE).unwrap();
    assert!(host.loop_over(IMAGE).is_none() && host.disk(IMAGE).is_some(), "the image stays");
    assert!(!host.is_attached::<Loop>(IMAGE).unwrap());
}

#[test]
fn an_image_without_a_size_is_not_made() {
    let host = host();
    let error = host.attach::<Loop>(&plain().field("volumeHandle", "data.img")).unwrap_err();
    assert!(error.message().contains("spec.capacity.storage"), "{error}");
    assert!(host.disk(IMAGE).is_none());
}

#[test]
fn a_lost_device_is_waited_for() {
    let host = host();
    let lost = host.attach::<Loop>(&volume()).unwrap();
    host.detach::<Loop>(IMAGE).unwrap();
    assert!(matches!(host.wait_for_attach::<Loop>(&volume(), &lost), Err(Error::Retryable(_))));
}

#[test]
fn a_blank_image_is_formatted_staged_and_published() {
    let host = host();
    let volume = volume().field("fsType", "xfs").mount_option("noatime,discard").mount_option("commit=5");
    mounted(&host, &volume);
    let node = host.node_target("pv-1").mount().unwrap();
    assert_eq!((node.fs_type.as_str(), node.has_option("discard"), node.option("commit")), ("xfs", true, Some("5")));
    host.publish::<Loop>(&volume, &Pod::builder()).unwrap();
    let pod = host.target("pv-1").mount().unwrap();
    assert_eq!((pod.source, pod.flags.contains("noatime")), (node.source, true));
    assert_eq!(host.detached_mounts(), 0);
    // Repeated calls change nothing.
    host.stage::<Loop>(&volume, None).unwrap();
    host.publish::<Loop>(&volume, &Pod::builder()).unwrap();
}

#[test]
fn an_image_with_data_is_never_formatted() {
    for found in ["partitions", "xfs", "crypto_LUKS"] {
        let host = host();
        host.image(IMAGE, GIB).contents(IMAGE, found);
        let attached = attached(&host, &volume());
        let error = host.stage::<Loop>(&volume(), Some(&attached)).unwrap_err();
        assert!(matches!(error, Error::Conflict(_)) && error.message().contains(found), "{error}");
        assert_eq!(host.disk(IMAGE).unwrap().contents.as_deref(), Some(found));
        assert!(!host.calls().contains(&"format") && host.node_target("pv-1").is_absent());
    }
}

#[test]
fn a_read_only_volume_is_neither_made_nor_formatted_nor_grown() {
    let host = host();
    let volume = volume().field("readOnly", true).read_only();
    assert!(matches!(host.attach::<Loop>(&volume), Err(Error::NotFound(_))));
    host.image(IMAGE, GIB / 2);
    let attached = attached(&host, &volume);
    assert!(matches!(host.stage::<Loop>(&volume, Some(&attached)), Err(Error::Precondition(_))));
    host.contents(IMAGE, "ext4");
    host.stage::<Loop>(&volume, Some(&attached)).unwrap();
    assert!(host.node_target("pv-1").mount().unwrap().is_read_only());
    assert!(matches!(host.expand::<Loop>(&volume, Some(&attached), true, GIB), Err(Error::Unsupported(_))));
    assert_eq!(host.disk(IMAGE).unwrap().size, GIB / 2);
}

#[test]
fn one_pod_may_have_it_read_only_while_it_is_staged_writable() {
    let host = host();
    mounted(&host, &volume());
    host.publish::<Loop>(&volume().read_only(), &Pod::builder()).unwrap();
    assert!(host.target("pv-1").mount().unwrap().is_read_only());
    assert!(!host.node_target("pv-1").mount().unwrap().is_read_only());
}

#[test]
fn a_pod_that_may_write_gets_the_files_for_its_group() {
    let host = host();
    mounted(&host, &volume());
    let pod = Pod::builder().fs_group(2000);
    host.publish::<Loop>(&volume().read_only(), &pod).unwrap();
    assert_eq!(host.target("pv-1").group(), None, "a reader takes it as it is");
    let other = pod.clone().with_uid("uid-2");
    host.fail("apply-fs-group", Error::busy("in use"));
    assert!(matches!(host.publish::<Loop>(&volume(), &other), Err(Error::Uncertain(_))), "it is mounted, and not done");
    host.publish::<Loop>(&volume(), &other).unwrap();
    assert_eq!(host.target_of(&other, "pv-1").group(), Some(2000));
}

#[test]
fn publish_waits_for_the_staging_mount() {
    let host = host();
    attached(&host, &volume());
    assert!(matches!(host.publish::<Loop>(&volume(), &Pod::builder()), Err(Error::Precondition(_))));
}

#[test]
fn a_damaged_file_system_is_reported_and_left_alone() {
    let host = host();
    host.image(IMAGE, GIB).contents(IMAGE, "ext4").damage(IMAGE);
    let attached = attached(&host, &volume());
    assert!(matches!(host.stage::<Loop>(&volume(), Some(&attached)), Err(Error::Corrupt(_))));
}

#[test]
fn the_device_is_mapped_as_it_is() {
    let host = host();
    let attached = attached(&host, &volume());
    let device = host.stage_device::<Loop>(&volume(), Some(&attached)).unwrap().unwrap();
    assert_eq!(Some(device.clone()), host.loop_over(IMAGE));
    assert_eq!(host.map_device::<Loop>(&volume(), &Pod::builder(), Some(&device)), Ok(None));
    assert_eq!(host.disk(IMAGE).unwrap().contents, None, "nothing is written to it");
}

#[test]
fn a_raised_capacity_grows_file_and_file_system_and_never_shrinks() {
    let host = host();
    let attached = mounted(&host, &volume());
    assert_eq!(host.expand::<Loop>(&volume(), Some(&attached), true, 2 * GIB), Ok(2 * GIB));
    let disk = host.disk(IMAGE).unwrap();
    assert_eq!((disk.size, disk.fs_size), (2 * GIB, 2 * GIB));
    assert_eq!(host.expand::<Loop>(&volume(), Some(&attached), true, GIB), Ok(2 * GIB));
    assert_eq!(host.expand::<Loop>(&volume(), Some(&attached), false, 3 * GIB), Ok(3 * GIB), "as a device");
    assert_eq!(host.disk(IMAGE).unwrap().fs_size, 2 * GIB);
}

#[test]
fn an_image_that_has_grown_while_unused_is_grown_before_it_is_mounted() {
    let host = host();
    let attached = mounted(&host, &volume());
    host.unstage::<Loop>(IMAGE, "pv-1").unwrap();
    host.expand::<Loop>(&volume(), Some(&attached), false, 3 * GIB).unwrap();
    assert_eq!(host.disk(IMAGE).unwrap().fs_size, GIB);
    // Growing it while it is mounted would need a privilege.
    host.fail("grow", Error::permission_denied("CAP_SYS_RESOURCE"));
    host.stage::<Loop>(&volume(), Some(&attached)).unwrap();
    assert_eq!(host.disk(IMAGE).unwrap().fs_size, 3 * GIB);
}

#[test]
fn a_busy_device_is_not_detached() {
    let host = host();
    mounted(&host, &volume());
    host.use_device("/dev/loop0", true);
    assert!(matches!(host.detach::<Loop>(IMAGE), Err(Error::Busy(_))));
    host.use_device("/dev/loop0", false);
    host.unstage::<Loop>(IMAGE, "pv-1").unwrap();
    host.detach::<Loop>(IMAGE).unwrap();
    assert!(host.node_target("pv-1").is_absent() && host.loop_over(IMAGE).is_none());
}

#[test]
fn with_the_annotation_each_pods_group_is_mapped_and_no_file_changes() {
    let host = host();
    let volume = volume().annotation("volhost.io/fs-group", "map");
    mounted(&host, &volume);
    for (uid, group) in [("uid-1", 2000), ("uid-2", 3000)] {
        let pod = Pod::builder().with_uid(uid).fs_group(group);
        for _ in 0..2 {
            host.publish::<Loop>(&volume, &pod).unwrap();
        }
        assert_eq!(host.target_of(&pod, "pv-1").mount().unwrap().mapped_group, Some(group));
    }
    assert!(!host.calls().contains(&"apply-fs-group"));
    host.fail("id-maps.map-group", Error::unsupported("this file system can't"));
    let third = Pod::builder().with_uid("uid-3").fs_group(4000);
    let error = host.publish::<Loop>(&volume, &third).unwrap_err();
    assert!(matches!(error, Error::Unsupported(_)) && error.message().contains("volhost.io/fs-group"), "{error}");
    assert!(host.target_of(&third, "pv-1").is_absent() && host.detached_mounts() == 0);
    let other = volume.annotation("volhost.io/fs-group", "none");
    assert!(host.identify::<Loop>(&other).unwrap_err().message().contains("volhost.io/fs-group"));
}

#[test]
fn an_image_outside_the_granted_folders_is_refused() {
    let host = host();
    let volume = volume().field("volumeAttributes.folder", "/etc");
    assert!(matches!(host.attach::<Loop>(&volume), Err(Error::PermissionDenied(_))));
}

#[test]
fn a_failed_step_leaves_no_mount_behind_and_keeps_its_case() {
    for call in ["probe", "format", "filesystems.mount", "attach", "attachment.open"] {
        let host = host();
        let attached = attached(&host, &volume());
        host.fail(call, Error::uncertain("lost"));
        let error = host.stage::<Loop>(&volume(), Some(&attached)).unwrap_err();
        assert!(matches!(error, Error::Uncertain(_)), "{call}: {error}");
        assert!(host.node_target("pv-1").is_absent() && host.detached_mounts() == 0, "{call}");
        host.stage::<Loop>(&volume(), Some(&attached)).unwrap();
    }
}

#[test]
fn a_volume_without_its_device_or_image_is_abnormal() {
    let host = host();
    let volume = volume();
    attached(&host, &volume);
    assert_eq!(host.measure::<Loop>(IMAGE, None).unwrap().abnormal, None);
    host.detach::<Loop>(IMAGE).unwrap();
    let said = host.measure::<Loop>(IMAGE, None).unwrap();
    assert!(said.abnormal.unwrap().contains("has no loop device any more"));
    assert_eq!(said.used, None, "its file system knows better");
    assert!(host.measure::<Loop>("/images/never-made.img", None).unwrap().abnormal.is_some());
}

fn wanted(name: &str) -> TestVolumeRequest {
    TestVolumeRequest::new(name)
}

/// The code of an error that has no case of its own.
fn code<T: std::fmt::Debug>(answer: Result<T>) -> String {
    match answer.unwrap_err() {
        Error::Other(other) => other.code,
        error => panic!("{error}"),
    }
}

#[test]
fn a_volume_is_made_once_and_is_the_image_of_its_name() {
    let host = host();
    let made = host.create_volume::<Loop>(&wanted("pvc-1").required(GIB)).unwrap();
    assert_eq!((made.id.as_str(), made.capacity), ("pvc-1", GIB));
    assert_eq!(made.attributes["folder"], "/images");
    assert_eq!(host.create_volume::<Loop>(&wanted("pvc-1").required(GIB)).unwrap(), made);
    assert_eq!(host.find_volume::<Loop>("pvc-1").unwrap(), made);
    assert_eq!(host.disk("/images/pvc-1").unwrap().size, GIB);
    let other = host.create_volume::<Loop>(&wanted("pvc-1").required(2 * GIB)).unwrap_err();
    assert!(matches!(other, Error::Conflict(_)), "{other}");

    // A provisioned volume can be attached without a capacity.
    let volume = plain().field("volumeHandle", "pvc-1");
    mounted(&host, &volume);
    assert!(matches!(host.delete_volume::<Loop>("pvc-1"), Err(Error::Busy(_))));
    host.detach::<Loop>("/images/pvc-1").unwrap();
    for _ in 0..2 {
        host.delete_volume::<Loop>("pvc-1").unwrap();
    }
    assert!(host.disk("/images/pvc-1").is_none());
    assert!(matches!(host.find_volume::<Loop>("pvc-1"), Err(Error::NotFound(_))));
}

#[test]
fn a_volume_whose_making_was_cut_off_is_made_whole() {
    let host = host();
    host.image("/images/pvc", 0);
    assert_eq!(host.create_volume::<Loop>(&wanted("pvc").required(GIB)).unwrap().capacity, GIB);
    host.image("/images/begun", GIB).image("/images/source", GIB);
    let copy = wanted("begun").source_volume("source").required(2 * GIB);
    assert_eq!(host.create_volume::<Loop>(&copy).unwrap().capacity, 2 * GIB);
}

#[test]
fn a_volume_has_the_requested_size_within_its_limits() {
    let host = host();
    let size = |name: &str, request: TestVolumeRequest| {
        host.create_volume::<Loop>(&request).map(|made| (made.capacity, name.to_owned()))
    };
    let made = |name: &str, with: fn(TestVolumeRequest) -> TestVolumeRequest| size(name, with(wanted(name))).unwrap().0;
    assert_eq!(made("default", |request| request), GIB);
    assert_eq!(made("limited", |request| request.limit(5 << 20)), 5 << 20);
    assert_eq!(made("rounded", |request| request.required((5 << 20) + 1)), (5 << 20) + 4096);
    assert_eq!(made("exact", |request| request.required((5 << 20) + 1).limit((5 << 20) + 1)), (5 << 20) + 1);
    assert_eq!(made("least", |request| request.required(1)), 1 << 20);
    assert_eq!(made("xfs", |request| request.required(1).fs_type("xfs")), 300 << 20);
    assert_eq!(code(host.create_volume::<Loop>(&wanted("a").fs_type("xfs").limit(GIB / 8))), "OUT_OF_RANGE");
    assert_eq!(code(host.create_volume::<Loop>(&wanted("a").required(u64::MAX))), "OUT_OF_RANGE");
    assert!(host.disk("/images/a").is_none());
    for (request, words) in [
        (wanted("a").parameter("size", "1"), "parameters.size: no such parameter"),
        (wanted("a").parameter("folder", "/etc"), "parameters.folder: \"/etc\" is not granted"),
        (wanted("a").fs_type("ntfs"), "fs_type: \"ntfs\" is not known"),
    ] {
        let error = host.create_volume::<Loop>(&request).unwrap_err();
        assert!(matches!(&error, Error::InvalidArgument(text) if text.starts_with(words)), "{error}");
    }
    host.create_volume::<Loop>(
        &wanted("a").parameter("csi.storage.k8s.io/pvc/name", "x").parameter("folder", "/images/"),
    )
    .unwrap();
}

#[test]
fn a_handle_is_a_file_name_whatever_the_name_is() {
    let host = host();
    let long = "x".repeat(128);
    let mut ids: Vec<String> = Vec::new();
    for name in ["../../etc/passwd", ".hidden", "a b", "a@b", "ü", &long, &format!("{long}y")[1..]] {
        let id = host.create_volume::<Loop>(&wanted(name)).unwrap().id;
        assert!(id.len() <= 56 && id.chars().all(|c| c.is_ascii_alphanumeric() || c == '-'), "{name}: {id}");
        assert_eq!(host.create_volume::<Loop>(&wanted(name)).unwrap().id, id);
        assert!(!ids.contains(&id), "{name}: {id}");
        ids.push(id);
    }
    for hostile in ["../images/pvc", "/etc/passwd", "", ".snapshot-a@b"] {
        host.delete_volume::<Loop>(hostile).unwrap();
        assert!(matches!(host.find_volume::<Loop>(hostile), Err(Error::NotFound(_))), "{hostile}");
    }
}

#[test]
fn a_volume_grows_and_never_shrinks() {
    let host = host();
    host.image("/images/pvc", GIB);
    assert_eq!(host.expand_volume::<Loop>("pvc", 2 * GIB, None), Ok(2 * GIB));
    assert_eq!(host.expand_volume::<Loop>("pvc", GIB, None), Ok(2 * GIB));
    assert_eq!(code(host.expand_volume::<Loop>("pvc", GIB, Some(GIB))), "OUT_OF_RANGE");
    assert!(matches!(host.expand_volume::<Loop>("none", GIB, None), Err(Error::NotFound(_))));
}

#[test]
fn volumes_of_all_folders_are_listed_page_by_page() {
    let host = host();
    host.grant_images("/more");
    for name in ["/images/a", "/images/b", "/images/.snapshot-s@a", "/more/a2", "/more/c"] {
        host.image(name, GIB);
    }
    let mut seen = Vec::new();
    let mut token = String::new();
    loop {
        let (volumes, next) = host.list_volumes::<Loop>(&token, 1).unwrap();
        assert!(volumes.len() <= 1);
        seen.extend(volumes.into_iter().map(|(id, _)| id));
        let Some(next) = next else { break };
        token = next;
    }
    assert_eq!(seen, ["a", "b", "a2", "c"]);
    for bad in ["x", "after/x/y", "after/1"] {
        assert!(matches!(host.list_volumes::<Loop>(bad, 1), Err(Error::InvalidArgument(_))), "{bad}");
    }
    assert!(host.free_space::<Loop>(&wanted("").parameter("folder", "/more")).unwrap().is_some());
}

#[test]
fn a_snapshot_is_a_copy_that_hides_beside_its_volume() {
    let host = host();
    host.image("/images/pvc", GIB).contents("/images/pvc", "ext4").image("/images/other", GIB);
    let (made, _) = host.create_snapshot::<Loop>("snap", "pvc").unwrap();
    assert_eq!((made[0].id.as_str(), made[0].volume_id.as_str(), made[0].bytes), ("snap@pvc", "pvc", GIB));
    assert_eq!(host.create_snapshot::<Loop>("snap", "pvc").unwrap().0, made);
    assert!(matches!(host.create_snapshot::<Loop>("snap", "other"), Err(Error::Conflict(_))));
    assert!(matches!(host.create_snapshot::<Loop>("s", "none"), Err(Error::NotFound(_))));
    assert_eq!(host.list_volumes::<Loop>("", 10).unwrap().0.len(), 2);
    assert_eq!(host.list_snapshots::<Loop>(Some("pvc"), "", 10).unwrap().0, made);
    assert!(host.list_snapshots::<Loop>(Some("other"), "", 10).unwrap().0.is_empty());

    let restored = host.create_volume::<Loop>(&wanted("new").source_snapshot("snap@pvc").required(2 * GIB)).unwrap();
    assert_eq!(restored.capacity, 2 * GIB);
    assert_eq!(host.disk("/images/new").unwrap().contents.as_deref(), Some("ext4"));
    assert_eq!(
        code(host.create_volume::<Loop>(&wanted("x").source_snapshot("snap@pvc").limit(GIB / 2))),
        "OUT_OF_RANGE"
    );
    for id in ["snap@pvc", "snap@pvc", "none@pvc", "nonsense", "../a@b"] {
        host.delete_snapshot::<Loop>(id).unwrap();
    }
    assert!(host.disk("/images/.snapshot-snap@pvc").is_none());
}

#[test]
fn a_volume_has_the_requested_allocation_and_keeps_it_when_it_grows() {
    let host = host();
    let full = |name: &str| wanted(name).required(GIB).mutable_parameter("allocation", "full");
    let sparse = wanted("").mutable_parameter("allocation", "sparse");
    let reserved = |path: &str| host.disk(path).unwrap().reserved;
    host.create_volume::<Loop>(&wanted("pvc").required(GIB)).unwrap();
    assert_eq!(reserved("/images/pvc"), 0);
    for _ in 0..2 {
        host.modify_volume::<Loop>("pvc", &full("")).unwrap();
        assert_eq!(reserved("/images/pvc"), GIB);
    }
    assert_eq!(host.expand_volume::<Loop>("pvc", 2 * GIB, None), Ok(2 * GIB));
    assert_eq!(reserved("/images/pvc"), 2 * GIB);
    host.modify_volume::<Loop>("pvc", &wanted("")).unwrap();
    assert_eq!(reserved("/images/pvc"), 2 * GIB, "an allocation that is not named stays");
    let volume = plain().field("volumeHandle", "pvc");
    mounted(&host, &volume);
    assert!(matches!(host.modify_volume::<Loop>("pvc", &sparse), Err(Error::Busy(_))));
    host.detach::<Loop>("/images/pvc").unwrap();
    host.modify_volume::<Loop>("pvc", &sparse).unwrap();
    assert_eq!(reserved("/images/pvc"), 0);
    assert!(matches!(host.modify_volume::<Loop>("none", &sparse), Err(Error::NotFound(_))));

    // Begun before it was reserved, and made whole.
    host.image("/images/begun", GIB);
    host.create_volume::<Loop>(&full("begun")).unwrap();
    assert_eq!(reserved("/images/begun"), GIB);
    let differs = host.create_volume::<Loop>(&wanted("begun").required(GIB).mutable_parameter("allocation", "sparse"));
    assert!(matches!(&differs, Err(Error::Conflict(text)) if text.contains("reserved")), "{differs:?}");
    for (key, value, words) in [
        ("allocation", "half", "mutable_parameters.allocation: \"half\" is neither"),
        ("speed", "high", "mutable_parameters.\"speed\": no such parameter"),
    ] {
        let request = wanted("new").required(GIB).mutable_parameter(key, value);
        for error in [host.create_volume::<Loop>(&request).map(drop), host.modify_volume::<Loop>("pvc", &request)] {
            assert!(matches!(&error, Err(Error::InvalidArgument(text)) if text.starts_with(words)), "{error:?}");
        }
    }
    assert_eq!(code(host.create_volume::<Loop>(&full("huge").required(2 << 40))), "RESOURCE_EXHAUSTED");
    assert!(host.disk("/images/new").is_none() && host.disk("/images/huge").is_none());
}

#[test]
fn a_format_keeps_the_reserved_space() {
    for (allocation, kept) in [("sparse", None), ("full", Some("true"))] {
        let host = host();
        let name = format!("pvc-{allocation}");
        let request = wanted(&name).required(GIB).mutable_parameter("allocation", allocation);
        host.create_volume::<Loop>(&request).unwrap();
        mounted(&host, &plain().field("volumeHandle", &name));
        let disk = host.disk(&format!("/images/{name}")).unwrap();
        assert_eq!(disk.format_options.get("keep-room").map(String::as_str), kept, "{allocation}");
    }
}

#[test]
fn a_group_is_of_one_moment_or_is_not_made() {
    let host = host();
    host.image("/images/a", GIB).image("/images/b", 2 * GIB).image("/images/c", GIB);
    let made = host.create_group::<Loop>("g", &["a", "b"]).unwrap();
    let ids: Vec<&str> = made.iter().map(|snapshot| snapshot.id.as_str()).collect();
    assert_eq!(ids, ["+g@a", "+g@b"]);
    assert!(made.iter().all(|snapshot| snapshot.group.as_deref() == Some("g")), "{made:?}");
    assert_eq!(host.create_group::<Loop>("g", &["b", "a"]).unwrap(), made);
    assert_eq!(host.find_group::<Loop>("g").unwrap(), made);
    assert!(matches!(host.create_group::<Loop>("g", &["a", "c"]), Err(Error::Conflict(_))));
    assert!(matches!(host.create_group::<Loop>("h", &["a", "none"]), Err(Error::NotFound(_))));
    assert_eq!(host.list_snapshots::<Loop>(None, "", 10).unwrap().0, made);
    assert_eq!(host.list_volumes::<Loop>("", 10).unwrap().0.len(), 3);
    assert!(matches!(host.delete_snapshot::<Loop>("+g@a"), Err(Error::InvalidArgument(_))));
    let restored = host.create_volume::<Loop>(&wanted("new").source_snapshot("+g@b")).unwrap();
    assert_eq!(restored.capacity, 2 * GIB);

    mounted(&host, &plain().field("volumeHandle", "c").capacity(GIB));
    assert_eq!(host.create_group::<Loop>("used", &["a", "c"]).unwrap().len(), 2);
    host.delete_group::<Loop>("used").unwrap();
    host.fail("loop-devices.copy-together", Error::busy("/images/c is a device of a pod"));
    let refused = host.create_group::<Loop>("raw", &["a", "c"]);
    assert!(matches!(&refused, Err(Error::Precondition(text)) if text.contains("/images/c is")), "{refused:?}");
    for id in ["g", "g", "none", "../x", ""] {
        host.delete_group::<Loop>(id).unwrap();
        assert!(matches!(host.find_group::<Loop>(id), Err(Error::NotFound(_))), "{id}");
    }
    assert!(host.list_snapshots::<Loop>(None, "", 10).unwrap().0.is_empty());
    assert!(host.disk("/images/.group-g").is_none() && host.disk("/images/a").is_some());
}

#[test]
fn an_unfinished_group_does_not_count_and_is_made_anew() {
    let host = host();
    host.image("/images/a", GIB).image("/images/b", GIB).image("/images/.snapshot-+g@a", GIB / 2);
    assert!(host.list_snapshots::<Loop>(None, "", 10).unwrap().0.is_empty());
    assert!(matches!(host.find_group::<Loop>("g"), Err(Error::NotFound(_))));
    let early = host.create_volume::<Loop>(&wanted("new").source_snapshot("+g@a"));
    assert!(matches!(early, Err(Error::NotFound(_))), "{early:?}");
    let made = host.create_group::<Loop>("g", &["a", "b"]).unwrap();
    assert!(made.iter().all(|snapshot| snapshot.bytes == GIB), "the old copy is of another moment: {made:?}");
    host.fail("loop-devices.copy-together", Error::other("EIO", "the disk is gone"));
    assert!(host.create_group::<Loop>("h", &["a", "b"]).is_err());
    assert!(host.disk("/images/.snapshot-+h@a").is_none(), "nothing is left of one that failed");
}
