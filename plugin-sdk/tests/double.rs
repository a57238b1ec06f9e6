//! Checks that the double behaves as the contract requires.

use volhost_plugin_sdk::prelude::*;
use volhost_plugin_sdk::testing::{CALLS, TestHost, TestMount};

#[test]
fn a_mount_that_is_not_attached_is_discarded() {
    let host = TestHost::new();
    let mount = Tmpfs::new().create().unwrap();
    assert_eq!(host.detached_mounts(), 1);
    drop(mount);
    assert_eq!(host.detached_mounts(), 0);
}

#[test]
fn attaching_over_a_mount_is_a_conflict_and_loses_the_new_one() {
    let host = TestHost::new();
    let target = host.target("v");
    target.put_mount(TestMount::of_type("ext4"));
    let error = target.handle().attach(Tmpfs::new().create().unwrap()).unwrap_err();
    assert!(matches!(error, Error::Conflict(_)), "{error}");
    assert_eq!(target.mount().unwrap().fs_type, "ext4");
    assert_eq!(host.detached_mounts(), 0);
}

#[test]
fn detaching_uncovers_the_mount_point_and_never_removes_data() {
    let host = TestHost::new();
    let target = host.target("v");
    target.handle().make_folder(0o700, None).unwrap();
    target.write("data", b"below");
    target.handle().attach(Tmpfs::new().create().unwrap()).unwrap();
    assert!(matches!(target.handle().detach(), Err(Error::Conflict(_))));
    assert_eq!(target.folder().unwrap().files["data"], b"below");
}

#[test]
fn deleting_refuses_a_mount() {
    let host = TestHost::new();
    let target = host.target("v");
    target.put_mount(TestMount::tmpfs());
    assert!(matches!(target.handle().delete_folder(), Err(Error::Busy(_))));
    assert!(target.mount().is_some());
}

#[test]
fn detaching_an_absent_target_succeeds() {
    let host = TestHost::new();
    let target = host.target("v");
    assert_eq!(target.handle().detach(), Ok(()));
    assert_eq!(target.handle().delete_folder(), Ok(()));
    assert_eq!(target.handle().state(), Ok(TargetState::Absent));
}

#[test]
fn a_file_can_be_bound_onto_a_file_alone() {
    let host = TestHost::new();
    host.grant("/").file("/etc/hosts").directory("/srv");
    let bind = |path| host_paths::open(path).unwrap().bind(false).unwrap();
    host.target("file").handle().attach(bind("/etc/hosts")).unwrap();
    host.target("file").handle().detach().unwrap();
    assert!(host.target("file").is_absent());

    host.target("folder").handle().make_folder(0o755, None).unwrap();
    assert!(matches!(host.target("folder").handle().attach(bind("/etc/hosts")), Err(Error::Conflict(_))));
    host.target("point").put_file();
    assert!(matches!(host.target("point").handle().attach(bind("/srv")), Err(Error::Conflict(_))));
}

#[test]
fn an_unknown_option_is_refused() {
    let _host = TestHost::new();
    let mount = Tmpfs::new().create().unwrap();
    assert!(matches!(mount.set_options(&["ro", "rw"], false), Err(Error::InvalidArgument(_))));
    let error = volhost_plugin_sdk::tmpfs::create(&[("huge", Some("always"))]).unwrap_err();
    assert!(matches!(error, Error::InvalidArgument(_)), "{error}");
}

#[test]
fn links_are_followed_and_loops_end() {
    let host = TestHost::new();
    host.grant("/").directory("/a/b").symlink("/l", "/a").symlink("/m", "/l/b").symlink("/x", "/y").symlink("/y", "/x");
    assert_eq!(host_paths::open("/m").unwrap().kind(), SourceKind::Directory);
    assert_eq!(
        host_paths::open("/x").unwrap_err(),
        Error::other("ELOOP", "open /x: Too many levels of symbolic links")
    );
    assert!(matches!(host_paths::open("/a/none/b"), Err(Error::NotFound(_))));
}

#[test]
fn a_folder_made_below_a_link_is_where_the_link_leads() {
    let host = TestHost::new();
    host.grant("/").directory("/a").symlink("/l", "/a");
    host_paths::create_directory("/l/x/y").unwrap();
    assert!(host.has_path("/a/x/y"));
}

#[test]
fn a_fault_hits_one_call_and_a_lasting_one_all() {
    let host = TestHost::new();
    host.fail("tmpfs.create", Error::busy("once"));
    assert_eq!(Tmpfs::new().create().err(), Some(Error::busy("once")));
    assert!(Tmpfs::new().create().is_ok());
    host.fail_always("tmpfs.create", Error::busy("always"));
    for _ in 0..3 {
        assert_eq!(Tmpfs::new().create().err(), Some(Error::busy("always")));
    }
    assert_eq!(host.calls(), ["tmpfs.create"; 5]);
}

#[test]
#[should_panic(expected = "is not a call of the contract")]
fn a_misspelt_fault_fails_the_test() {
    TestHost::new().fail("atach", Error::busy("never"));
}

#[test]
#[should_panic(expected = "make a `TestHost` on this thread first")]
fn without_a_host_a_call_panics_with_the_way_out() {
    let _ = Tmpfs::new().create();
}

#[test]
fn a_host_belongs_to_its_thread_and_ends_when_dropped() {
    drop(TestHost::new());
    let here = TestHost::new();
    std::thread::spawn(|| {
        let there = TestHost::new();
        there.node_name("there");
        assert_eq!(node::name(), "there");
    })
    .join()
    .unwrap();
    here.node_name("here").node_label("zone", "z1");
    assert_eq!((node::name(), node::label("zone")), ("here".to_owned(), Some("z1".to_owned())));
}

#[test]
fn every_fallible_call_of_the_contract_can_be_made_to_fail() {
    let contract = [include_str!("../wit/mounts.wit")].concat();
    for line in contract.lines().filter(|line| line.contains("result<")) {
        let name = line.trim().split(':').next().unwrap();
        let name = if name == "create" { "tmpfs.create" } else { name };
        assert!(CALLS.contains(&name), "{name} of the contract is not in CALLS");
    }
}
