use volhost_plugin_sdk::testing::{TestHost, TestMount, TestVolume};

use super::*;

fn host() -> TestHost {
    let host = TestHost::new();
    host.grant("/srv").directory("/srv/base").directory("/srv/more").file("/srv/file").node_name("n7");
    host
}

fn plain() -> TestVolume {
    Volume::builder("csi:overlay.volhost.io").field("driver", "overlay.volhost.io")
}

fn volume() -> TestVolume {
    plain().field("volumeAttributes", "{}").field("volumeAttributes.base", "/srv/base")
}

fn top(top: &str) -> TestVolume {
    volume().field("volumeAttributes.top", top)
}

/// Over volumes of the pod.
fn below(volumes: &str) -> TestVolume {
    plain().field("volumeAttributes", "{}").field("volumeAttributes.baseVolume", volumes)
}

fn mounted(host: &TestHost, volume: &TestVolume) -> TestMount {
    host.publish::<Overlay>(volume, &Pod::builder()).unwrap();
    assert_eq!(host.detached_mounts(), 0);
    host.target(volume.name()).mount().expect("it is mounted")
}

#[test]
fn it_serves_its_driver() {
    let about = TestHost::new().describe::<Overlay>();
    assert_eq!(about.name, "volhost.io/overlay");
    assert_eq!(about.serves, ["csi:overlay.volhost.io"]);
}

#[test]
fn a_top_of_the_pods_own_is_in_its_private_folder() {
    let host = host();
    let mount = mounted(&host, &volume());
    assert_eq!((mount.fs_type.as_str(), mount.lowers.as_slice()), ("overlay", &["/srv/base".to_owned()][..]));
    assert!(mount.top.unwrap().starts_with("private:") && host.target(volume().name()).has_private_folder());
    assert_eq!(host.identity::<Overlay>(&volume()).unwrap().stageable, Some(false));
}

#[test]
fn a_top_in_memory_has_the_requested_size() {
    let host = host();
    let mount = mounted(&host, &top("memory").field("volumeAttributes.topSize", "64Mi"));
    assert_eq!(mount.top.as_deref(), Some("tmpfs"));
    assert!(!host.target(volume().name()).has_private_folder());
}

#[test]
fn several_bases_keep_their_order() {
    let mount = mounted(&host(), &volume().field("volumeAttributes.base", "/srv/more:/srv/base/"));
    assert_eq!(mount.lowers, ["/srv/more", "/srv/base"]);
}

#[test]
fn volumes_of_the_pod_lie_below_the_top_and_above_folders() {
    let host = host();
    host.pod_volume("models").pod_volume("patches");
    let volume = below("patches:models").field("volumeAttributes.base", "/srv/base");
    assert_eq!(host.identity::<Overlay>(&volume).unwrap().needs, ["patches", "models"]);
    assert_eq!(mounted(&host, &volume).lowers, ["volume:patches", "volume:models", "/srv/base"]);
    assert!(host.identity::<Overlay>(&self::volume()).unwrap().needs.is_empty());
}

#[test]
fn a_read_only_overlay_of_one_volume_is_that_volume_read_only() {
    let host = host();
    host.pod_volume("models");
    let mount = mounted(&host, &below("models").read_only());
    assert_eq!(mount.source.as_deref(), Some("volume:models"));
    assert!(mount.is_read_only());
}

#[test]
fn an_unpublished_volume_of_the_pod_is_reported_and_nothing_is_made() {
    let host = host();
    host.fail("pod-volumes.open", Error::precondition("it is gone"));
    let error = host.publish::<Overlay>(&below("models"), &Pod::builder()).unwrap_err();
    assert!(matches!(error, Error::Precondition(_)), "{error}");
    assert!(error.message().starts_with("csi.volumeAttributes.baseVolume"), "{error}");
    assert!(!host.target(volume().name()).has_private_folder() && host.detached_mounts() == 0);
}

#[test]
fn a_kept_top_is_staged_once_and_bound_for_pods() {
    let host = host();
    let volume = top("/srv/tops/app");
    let id = host.identity::<Overlay>(&volume).unwrap();
    assert_eq!((id.name.as_deref(), id.stageable), (Some("/srv/tops/app over /srv/base"), Some(true)));
    assert!(matches!(host.publish::<Overlay>(&volume, &Pod::builder()), Err(Error::Precondition(_))));
    for _ in 0..2 {
        host.stage::<Overlay>(&volume, None).unwrap();
    }
    let node = host.node_target(volume.name()).mount().unwrap();
    assert_eq!((node.top.as_deref(), node.option("index")), (Some("/srv/tops/app"), Some("on")));
    assert!(host.has_path("/srv/tops/app"), "it is made");
    assert_eq!(mounted(&host, &volume).top.as_deref(), Some("/srv/tops/app"));
    host.unpublish::<Overlay>(volume.name()).unwrap();
    host.unstage::<Overlay>("any", volume.name()).unwrap();
    assert!(host.has_path("/srv/tops/app"), "and stays");
}

#[test]
fn a_read_only_volume_has_only_the_base() {
    let host = host();
    let one = mounted(&host, &volume().read_only());
    assert_eq!((one.fs_type.as_str(), one.source.as_deref()), ("host", Some("/srv/base")));
    assert!(one.is_read_only() && !host.target(volume().name()).has_private_folder());
    host.unpublish::<Overlay>(volume().name()).unwrap();
    let several = mounted(&host, &volume().field("volumeAttributes.base", "/srv/more:/srv/base").read_only());
    assert!(several.top.is_none() && several.is_read_only());
}

#[test]
fn the_group_gets_a_writable_volume() {
    let host = host();
    let pod = Pod::builder().fs_group(2000);
    for _ in 0..2 {
        host.publish::<Overlay>(&volume(), &pod).unwrap();
        assert_eq!(host.target(volume().name()).group(), Some(2000), "also when it is mounted already");
    }
    drop(host);
    let host = self::host();
    host.publish::<Overlay>(&volume().read_only(), &pod).unwrap();
    assert_eq!(host.target(volume().name()).group(), None);
}

#[test]
fn mount_options_are_those_of_a_mount() {
    let host = host();
    let flags = mounted(&host, &volume().mount_option("nosuid,noatime")).flags;
    assert_eq!(flags.into_iter().collect::<Vec<_>>(), ["noatime", "nosuid"]);
    let error = host.identify::<Overlay>(&volume().mount_option("lowerdir=/etc")).unwrap_err();
    assert!(error.message().starts_with("spec.mountOptions: \"lowerdir\""), "{error}");
}

#[test]
fn a_bad_field_is_named_with_its_value_and_what_is_right() {
    let host = host();
    let base = |base: &str| volume().field("volumeAttributes.base", base);
    for (volume, said) in [
        (plain(), "csi.volumeAttributes: is missing, and must be a map"),
        (plain().field("volumeAttributes", "{}"), "csi.volumeAttributes.base: is missing"),
        (base("srv/base"), r#"csi.volumeAttributes.base: "srv/base" must be an absolute path"#),
        (base("/srv/base:"), r#"csi.volumeAttributes.base: "" must be an absolute path"#),
        (base("/"), r#"csi.volumeAttributes.base: "" must be an absolute path, and not the root"#),
        (base("/srv/../etc"), r#"csi.volumeAttributes.base: "/srv/../etc" must not contain "..""#),
        (base("/srv/base:/srv/base/"), r#"csi.volumeAttributes.base: names "/srv/base" twice"#),
        (base(&"/a:".repeat(20)), "csi.volumeAttributes.base: has 21 folders; 16 is the most"),
        (top("floppy"), r#"csi.volumeAttributes.top: "floppy" must be disk, memory, or an absolute path"#),
        (top("/srv/../etc"), r#"csi.volumeAttributes.top: "/srv/../etc" must not contain "..""#),
        (top("/srv/base"), r#"csi.volumeAttributes.top: "/srv/base" and the base"#),
        (top("/srv/base/top"), r#"csi.volumeAttributes.top: "/srv/base/top" and the base"#),
        (top("/srv"), r#"csi.volumeAttributes.top: "/srv" and the base"#),
        (top("memory").field("readOnly", "true"), "csi.volumeAttributes.top: a read-only volume needs no top"),
        (top("memory").field("volumeAttributes.topSize", "1GB"), "csi.volumeAttributes.topSize: \"1GB\""),
        (volume().field("volumeAttributes.topSize", "1Gi"), "csi.volumeAttributes.topSize: only a top in memory"),
        (below("Models"), r#"csi.volumeAttributes.baseVolume: "Models" is not the name of a volume of the pod"#),
        (below("../etc"), r#"csi.volumeAttributes.baseVolume: "../etc" is not the name"#),
        (below("models:"), r#"csi.volumeAttributes.baseVolume: "" is not the name"#),
        (below(&"a".repeat(64)), "csi.volumeAttributes.baseVolume: \"aaaa"),
        (below("models:models"), r#"csi.volumeAttributes.baseVolume: names "models" twice"#),
        (below("a:b:c:d:e:f:g:h:i:j:k:l:m:n:o:p:q"), "csi.volumeAttributes.base: and baseVolume have 17 layers"),
        (below("models").field("volumeAttributes.top", "/srv/top"), "csi.volumeAttributes.top: a top that is kept"),
        (volume().field("volumeAttributes.bse", "/x"), "csi.volumeAttributes.bse: no such field; did you mean base"),
        (volume().field("fsType", "ext4"), "csi.fsType: no such field"),
    ] {
        let error = host.identify::<Overlay>(&volume).unwrap_err();
        assert!(matches!(error, Error::InvalidArgument(_)) && error.message().starts_with(said), "{said}: {error}");
        assert_eq!(host.publish::<Overlay>(&volume, &Pod::builder()), Err(error));
    }
    assert!(host.calls().is_empty(), "{:?}", host.calls());
}

#[test]
fn a_base_that_is_missing_or_not_a_folder_is_refused_with_the_way_out() {
    let host = host();
    let publish = |base: &str| {
        let volume = volume().field("volumeAttributes.base", base);
        host.publish::<Overlay>(&volume, &Pod::builder()).unwrap_err()
    };
    let missing = publish("/srv/nowhere");
    assert!(matches!(missing, Error::NotFound(_)) && missing.message().contains("node n7"), "{missing}");
    let file = publish("/srv/file");
    assert!(matches!(file, Error::Precondition(_)) && file.message().contains("must be a directory"), "{file}");
    host.directory("/etc").symlink("/srv/link", "/etc");
    for outside in ["/etc", "/srv/link"] {
        assert!(matches!(publish(outside), Error::PermissionDenied(_)));
    }
    assert!(host.target(volume().name()).is_absent());
}

#[test]
fn a_failed_step_leaves_no_mount_behind() {
    for call in ["open", "private-folder", "tmpfs.create", "source", "overlays.mount", "set-options", "attach"] {
        let host = host();
        host.fail(call, Error::uncertain("lost"));
        let volume = if call == "private-folder" { volume() } else { top("memory").mount_option("nosuid") };
        let error = host.publish::<Overlay>(&volume, &Pod::builder()).unwrap_err();
        assert!(matches!(error, Error::Uncertain(_)), "the case survives: {call} {error}");
        assert!(host.target(volume.name()).is_absent() && host.detached_mounts() == 0, "{call}");
    }
}
