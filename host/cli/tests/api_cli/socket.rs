use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use volhost_api_server::{SocketBindError, bind, bind_for};

#[test]
fn only_the_owner_may_open_the_socket() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("made/for/it/v.sock");
    let _listener = bind(&path).unwrap();
    let found = fs::symlink_metadata(&path).unwrap();
    assert!(found.file_type().is_socket());
    assert_eq!(found.permissions().mode() & 0o777, 0o600);
    UnixStream::connect(&path).unwrap();
}

#[test]
fn a_group_may_open_the_socket_if_it_exists() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("v.sock");
    for (group, gid) in [("daemon", None), ("4242", Some(4242))] {
        let _listener = bind_for(&path, Some(group)).unwrap();
        let found = fs::symlink_metadata(&path).unwrap();
        assert_eq!(found.permissions().mode() & 0o777, 0o660);
        assert!(found.gid() != 0 && gid.is_none_or(|gid| gid == found.gid()), "{}", found.gid());
    }
    let text = bind_for(&path, Some("no-such-group")).unwrap_err().to_string();
    assert!(text.starts_with("socket-group: there is no group no-such-group; make it (groupadd"), "{text}");
    assert!(!path.exists());
}

#[test]
fn nothing_is_left_when_the_listener_goes() {
    let folder = tempfile::tempdir().unwrap();
    drop(bind(&folder.path().join("v.sock")).unwrap());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn the_socket_of_a_dead_daemon_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("v.sock");
    // Dropping std's listener leaves the file, as a killed process does.
    drop(UnixListener::bind(&path).unwrap());
    fs::write(folder.path().join("v.sock.lock"), "99999\n").unwrap();
    assert!(UnixStream::connect(&path).is_err());
    let _listener = bind(&path).unwrap();
    UnixStream::connect(&path).unwrap();
}

#[test]
fn the_socket_of_a_living_daemon_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("v.sock");
    let _first = bind(&path).unwrap();
    let second = bind(&path).unwrap_err();
    assert!(matches!(second, SocketBindError::InUse { .. }), "{second}");
    let text = second.to_string();
    assert!(
        text.contains(&format!("in use by another volhost (process {})", std::process::id()))
            && text.contains("--socket"),
        "{text}"
    );
    UnixStream::connect(&path).unwrap();
}

#[test]
fn a_living_socket_of_another_program_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("v.sock");
    let _other = UnixListener::bind(&path).unwrap();
    assert!(matches!(bind(&path).unwrap_err(), SocketBindError::InUse { .. }));
    UnixStream::connect(&path).unwrap();
}

#[test]
fn a_file_at_the_sockets_path_is_not_removed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("v.sock");
    fs::write(&path, "precious").unwrap();
    let error = bind(&path).unwrap_err().to_string();
    assert!(error.contains("exists and is not a socket"), "{error}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
}

#[test]
fn a_path_that_the_kernel_cannot_take_is_refused_with_its_limit() {
    let error = bind(&Path::new("/tmp").join("x".repeat(200))).unwrap_err().to_string();
    assert!(error.contains("has 205 bytes, 107 at most"), "{error}");
    assert!(matches!(bind(Path::new("/")).unwrap_err(), SocketBindError::NoFileName { .. }));
}

#[test]
fn a_socket_that_was_replaced_is_not_removed_by_its_former_owner() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("v.sock");
    let first = bind(&path).unwrap();
    fs::remove_file(&path).unwrap();
    let _other = UnixListener::bind(&path).unwrap();
    drop(first);
    UnixStream::connect(&path).unwrap();
}
