use volhost_plugin_sdk::testing::{CALLS, TestHost, TestVolumeRequest};

use super::*;

const SERVER: &str = "nas.example.com";
const SHARE: &str = "/export/claims";
const MIB: u64 = 1 << 20;
const NAME: &str = "pvc-1";
const ID: &str = "nas.example.com:/export/claims#pvc-1";

fn host() -> TestHost {
    let host = TestHost::new();
    host.share(SERVER, SHARE, &["4.2"]);
    host
}

fn bare(name: &str) -> TestVolumeRequest {
    TestVolumeRequest::new(name).required(MIB).parameter("server", SERVER).parameter("share", SHARE)
}

/// A request for the claim `shop/NAME-claim`.
fn request(name: &str) -> TestVolumeRequest {
    bare(name)
        .parameter("csi.storage.k8s.io/pvc/namespace", "shop")
        .parameter("csi.storage.k8s.io/pvc/name", &format!("{name}-claim"))
}

/// What lies on the share, without records.
fn folders(host: &TestHost) -> Vec<String> {
    host.share_entries(SERVER, SHARE).into_iter().filter(|path| !path.starts_with(".volhost")).collect()
}

/// The records and marks that volumes have.
fn records(host: &TestHost) -> Vec<String> {
    let fixed = [".volhost", ".volhost/folders", ".volhost/new", ".volhost/volumes"];
    let all = host.share_entries(SERVER, SHARE);
    all.into_iter().filter(|path| path.starts_with(".volhost") && !fixed.contains(&path.as_str())).collect()
}

fn refused(host: &TestHost, request: &TestVolumeRequest) -> Error {
    host.create_volume::<Nfs>(request).unwrap_err()
}

#[test]
fn a_claim_gets_a_folder_which_is_mounted_by_its_attributes() {
    let host = host();
    let made = host.create_volume::<Nfs>(&request(NAME)).unwrap();
    assert_eq!((made.id.as_str(), made.capacity), (ID, MIB));
    assert_eq!(made.attributes.get("server").map(String::as_str), Some(SERVER));
    let path = made.attributes.get("path").unwrap();
    assert_eq!(path, "/export/claims/shop-pvc-1-claim-pvc-1");
    assert_eq!(folders(&host), ["shop-pvc-1-claim-pvc-1"]);
    assert_eq!(host.find_volume::<Nfs>(ID).unwrap(), made);
    assert_eq!(host.create_volume::<Nfs>(&request(NAME)).unwrap(), made, "asked again");
    assert_eq!(host.detached_mounts(), 0);

    host.share(SERVER, path, &["4.2"]);
    let volume = Volume::builder("csi:nfs.volhost.io")
        .persistent_volume(NAME)
        .field("driver", "nfs.volhost.io")
        .field("volumeHandle", ID)
        .field("volumeAttributes.server", SERVER)
        .field("volumeAttributes.path", path);
    host.publish::<Nfs>(&volume, &Pod::builder()).unwrap();
    let mount = host.target(volume.name()).mount().unwrap();
    assert_eq!(mount.source.as_deref(), Some("nas.example.com:/export/claims/shop-pvc-1-claim-pvc-1"));
    for (field, said) in [("server", "csi.volumeAttributes.server: "), ("path", "csi.volumeAttributes.path: ")] {
        let wrong = volume.clone().field(&format!("volumeAttributes.{field}"), "a,b");
        assert!(host.identify::<Nfs>(&wrong).unwrap_err().message().starts_with(said));
    }
}

#[test]
fn a_pattern_names_the_folder_in_either_spelling_and_none_leaves_the_share() {
    let host = host();
    for (name, pattern, folder) in [
        ("a", "${pvc.namespace}/${pvc.name}", "shop/a-claim"),
        ("b", "${.PVC.namespace}/${.PVC.name}-${.PV.name}", "shop/b-claim-b"),
        ("c", "team/$c/${pv.name}", "team/$c/c"),
    ] {
        let made = host.create_volume::<Nfs>(&request(name).parameter("pathPattern", pattern)).unwrap();
        assert_eq!(made.attributes.get("path").unwrap(), &format!("{SHARE}/{folder}"), "{pattern}");
    }
    let before = host.share_entries(SERVER, SHARE);
    for (pattern, said) in [
        ("../${pvc.name}", "must be relative to the share"),
        ("/${pvc.name}", "must be relative to the share"),
        ("a//${pvc.name}", "must be relative to the share"),
        ("a/./b", "must be relative to the share"),
        ("", "must be relative to the share"),
        (".volhost/volumes/x", "where the plugin keeps its records"),
        ("a\nb", "has a control character"),
        ("${pvc.name", "has a `${` without `}`"),
        ("${pvc.uid}", "${pvc.namespace}"),
        ("${.PVC.labels.team}", "is not known"),
    ] {
        let error = refused(&host, &request("x").parameter("pathPattern", pattern));
        assert!(matches!(error, Error::InvalidArgument(_)), "{pattern:?}: {error}");
        let text = error.message();
        assert!(text.starts_with("parameters.pathPattern: ") && text.contains(said), "{pattern:?}: {text}");
    }
    let long = refused(&host, &request("x").parameter("pathPattern", &"a/".repeat(70)));
    assert!(long.message().contains("single slashes"), "{long}");
    let long = refused(&host, &request("x").parameter("pathPattern", &"a".repeat(256)));
    assert!(long.message().contains("too long"), "{long}");
    let traversal = request("x").parameter("pathPattern", "${pvc.namespace}/y");
    let traversal = traversal.parameter("csi.storage.k8s.io/pvc/namespace", "..");
    assert!(refused(&host, &traversal).message().contains("must be relative to the share"));
    assert_eq!(host.share_entries(SERVER, SHARE), before, "nothing was made");
    let without = refused(&host, &bare("x").parameter("pathPattern", "${pvc.name}"));
    assert!(without.message().contains("--extra-create-metadata"), "{without}");
    let made = host.create_volume::<Nfs>(&bare("plain")).unwrap();
    assert_eq!(made.attributes.get("path").unwrap(), "/export/claims/plain");
}

#[test]
fn a_deleted_volume_is_removed_kept_or_archived_as_its_class_says() {
    for (word, left) in [
        (None, vec!["shop"]),
        (Some("delete"), vec!["shop"]),
        (Some("retain"), vec!["shop", "shop/pvc-1-claim", "shop/pvc-1-claim/data"]),
        (Some("archive"), vec!["shop", "shop/archived-pvc-1-claim-pvc-1", "shop/archived-pvc-1-claim-pvc-1/data"]),
    ] {
        let host = host();
        let request = request(NAME).parameter("pathPattern", "${pvc.namespace}/${pvc.name}");
        let request = word.iter().fold(request, |request, word| request.parameter("onDelete", word));
        let made = host.create_volume::<Nfs>(&request).unwrap();
        host.share_folder(SERVER, SHARE, "shop/pvc-1-claim/data");
        for _ in 0..2 {
            host.delete_volume::<Nfs>(&made.id).unwrap();
        }
        assert_eq!(folders(&host), left, "{word:?}");
        assert!(records(&host).is_empty(), "{word:?}: {:?}", records(&host));
        assert!(matches!(host.find_volume::<Nfs>(&made.id), Err(Error::NotFound(_))));
        assert_eq!(host.detached_mounts(), 0);
    }
}

#[test]
fn a_folder_belongs_to_one_volume_alone() {
    let host = host();
    let fixed = |name: &str, folder: &str| request(name).parameter("pathPattern", folder);
    host.create_volume::<Nfs>(&fixed("a", "team/data")).unwrap();
    let before = host.share_entries(SERVER, SHARE);
    let same = refused(&host, &fixed("b", "team/data"));
    assert!(matches!(&same, Error::Conflict(text) if text.contains("is the folder of volume \"a\"")), "{same}");
    for folder in ["team", "team/data/inner"] {
        let nested = refused(&host, &fixed("b", folder));
        assert!(matches!(&nested, Error::Conflict(text) if text.contains("lie in one another")), "{nested}");
    }
    assert_eq!(records(&host).len(), 3, "the volume's record, and its mark alone: {:?}", records(&host));
    assert_eq!(host.share_entries(SERVER, SHARE).len(), before.len());
    host.create_volume::<Nfs>(&fixed("b", "team/data2")).unwrap();

    // What was there before is neither given away nor deleted, unless the class keeps all.
    host.share_folder(SERVER, SHARE, "old/files");
    let old = refused(&host, &fixed("c", "old"));
    assert!(matches!(&old, Error::Conflict(text) if text.contains("has files already")), "{old}");
    host.create_volume::<Nfs>(&fixed("c", "old").parameter("onDelete", "retain")).unwrap();
    // Another volume's deletion leaves it alone.
    host.delete_volume::<Nfs>("nas.example.com:/export/claims#a").unwrap();
    assert!(folders(&host).contains(&"old/files".to_owned()) && !folders(&host).contains(&"team/data".to_owned()));
}

#[test]
fn sizes_are_recorded_and_a_volume_grows() {
    let host = host();
    host.create_volume::<Nfs>(&request(NAME)).unwrap();
    assert!(matches!(refused(&host, &request(NAME).required(8 * MIB)), Error::Conflict(_)));
    assert_eq!(host.expand_volume::<Nfs>(ID, 4 * MIB, None).unwrap(), 4 * MIB);
    assert_eq!(host.expand_volume::<Nfs>(ID, 2 * MIB, None).unwrap(), 4 * MIB, "nothing shrinks");
    assert_eq!(host.find_volume::<Nfs>(ID).unwrap().capacity, 4 * MIB);
    for error in [
        host.expand_volume::<Nfs>(ID, MIB, Some(2 * MIB)).unwrap_err(),
        refused(&host, &request("large").required(1 << 62)),
        refused(&host, &request("odd").required(8 * MIB).limit(MIB)),
    ] {
        assert!(matches!(&error, Error::Other(other) if other.code == "OUT_OF_RANGE"), "{error}");
    }
    assert_eq!(host.create_volume::<Nfs>(&bare("none").required(0)).unwrap().capacity, 0);
}

#[test]
fn the_volumes_of_the_shares_of_the_setting_are_listed_in_pages() {
    let host = host();
    host.share("::1", "/b", &["4.2"]);
    for name in ["c", "a", "b"] {
        host.create_volume::<Nfs>(&request(name)).unwrap();
    }
    host.create_volume::<Nfs>(&request("d").parameter("server", "::1").parameter("share", "/b")).unwrap();
    assert_eq!(host.list_volumes::<Nfs>("", 9).unwrap(), (Vec::new(), None), "no share is set");
    host.list_setting("shares", &["nas.example.com:/export/claims", "[::1]:/b"]);
    let all = host.list_volumes::<Nfs>("", 9).unwrap();
    let ids: Vec<&str> = all.0.iter().map(|(id, _)| id.as_str()).collect();
    let share = "nas.example.com:/export/claims";
    assert_eq!(ids, [format!("{share}#a"), format!("{share}#b"), format!("{share}#c"), "[::1]:/b#d".to_owned()]);
    for most in 1..=4 {
        let (mut paged, mut start) = (Vec::new(), String::new());
        loop {
            let (page, next) = host.list_volumes::<Nfs>(&start, most).unwrap();
            assert!(page.len() <= most as usize);
            paged.extend(page);
            match next {
                Some(next) => start = next,
                None => break,
            }
        }
        assert_eq!(paged, all.0, "{most} a page");
    }
    // A token stays good when its volume goes.
    host.delete_volume::<Nfs>(&format!("{share}#b")).unwrap();
    assert_eq!(host.list_volumes::<Nfs>(&format!("{share}#b"), 1).unwrap().0[0].0, format!("{share}#c"));
    for token in ["x", "other:/x#a", "nas.example.com:/export/claims"] {
        assert!(matches!(host.list_volumes::<Nfs>(token, 1), Err(Error::InvalidArgument(_))), "{token}");
    }
}

#[test]
fn a_call_that_fails_anywhere_is_repeated_to_the_same_end() {
    let reference = host();
    let made = reference.create_volume::<Nfs>(&request(NAME)).unwrap();
    let (mut names, entries) = (reference.calls(), reference.share_entries(SERVER, SHARE));
    drop(reference);
    assert!(names.iter().all(|call| CALLS.contains(call)));
    names.sort_unstable();
    names.dedup();
    for call in names {
        let host = host();
        host.fail(call, Error::other("EIO", "broken"));
        let error = refused(&host, &request(NAME));
        assert!(error.message().contains("broken") && error.message().contains("nfs"), "{call}: {error}");
        assert_eq!(host.create_volume::<Nfs>(&request(NAME)).unwrap(), made, "{call}");
        assert_eq!(host.share_entries(SERVER, SHARE), entries, "{call}");
    }
    for call in ["share-folders.remove", "share-folders.remove-file", "share-folders.names", "share-folders.read-file"]
    {
        let host = host();
        host.create_volume::<Nfs>(&request(NAME)).unwrap();
        host.fail(call, Error::other("EIO", "broken"));
        host.delete_volume::<Nfs>(ID).unwrap_err();
        host.delete_volume::<Nfs>(ID).unwrap();
        assert!(folders(&host).is_empty() && records(&host).is_empty(), "{call}");
    }
}

#[test]
fn a_bad_parameter_or_handle_is_named_with_its_value_and_what_is_right() {
    let host = host();
    let long = format!("/{}", "s".repeat(120));
    for (request, said) in [
        (TestVolumeRequest::new("a").parameter("share", SHARE), "parameters.server: is missing"),
        (TestVolumeRequest::new("a").parameter("server", SERVER), "parameters.share: is missing"),
        (request("a").parameter("server", ""), "parameters.server: must not be empty"),
        (request("a").parameter("server", "nas:/x"), "parameters.server: \"nas:/x\" must be a host name"),
        (request("a").parameter("server", "nas,addr=1.2.3.4"), "parameters.server: "),
        (request("a").parameter("share", "export"), "parameters.share: \"export\" must be an absolute path"),
        (request("a").parameter("share", "/a/../b"), "parameters.share: \"/a/../b\" must not contain \"..\""),
        (request("a").parameter("share", "/a\nb"), "parameters.share: "),
        (request("a").parameter("share", &long), "parameters.share: the volume's handle"),
        (request("a").parameter("onDelete", "keep"), "parameters.onDelete: \"keep\" is neither"),
        (request("a").parameter("mode", "9"), "parameters.mode: \"9\" must be octal"),
        (request("a").parameter("mode", "17777"), "parameters.mode: "),
        (request("a").parameter("mode", "+7"), "parameters.mode: "),
        (request("a").parameter("mode", ""), "parameters.mode: "),
        (request("a").parameter("archiveOnDelete", "true"), "parameters.archiveOnDelete: no such parameter"),
        (request("a/b").parameter("pathPattern", "x"), "name: \"a/b\" must have no `/`"),
        (request(".a").parameter("pathPattern", "x"), "name: "),
        (request("a#b").parameter("pathPattern", "x"), "name: "),
        (request("a").source_volume(ID), "dataSource: "),
        (request("a").source_snapshot("s"), "dataSource: "),
    ] {
        let error = refused(&host, &request);
        assert!(matches!(error, Error::InvalidArgument(_)) && error.message().starts_with(said), "{said}: {error}");
    }
    for id in ["", "x", "nas:/x", "nas#a", "nas:x#a", "nas:/../x#a", "nas:/x#../a", "nas:/x#.volhost", "nas,b:/x#a"] {
        for outcome in [host.delete_volume::<Nfs>(id), host.find_volume::<Nfs>(id).map(drop)] {
            assert!(matches!(outcome, Err(Error::InvalidArgument(_))), "{id:?}");
        }
    }
    assert!(host.share_entries(SERVER, SHARE).is_empty(), "no share was touched");
    let error = refused(&host, &request("a").parameter("server", "nowhere"));
    assert!(matches!(error, Error::Retryable(_)), "{error}");
}

#[test]
fn a_damaged_record_is_reported_and_nothing_is_deleted() {
    let host = host();
    host.create_volume::<Nfs>(&request(NAME)).unwrap();
    let share = host.share_entries(SERVER, SHARE);
    host.share_text(SERVER, SHARE, ".volhost/volumes/pvc-1", "folder=../x\nbytes=1\nonDelete=delete\nstate=made\n");
    for error in [host.delete_volume::<Nfs>(ID).unwrap_err(), host.find_volume::<Nfs>(ID).unwrap_err()] {
        assert!(matches!(&error, Error::Corrupt(text) if text.contains(".volhost/volumes/pvc-1")), "{error}");
    }
    assert_eq!(host.share_entries(SERVER, SHARE), share);
}
