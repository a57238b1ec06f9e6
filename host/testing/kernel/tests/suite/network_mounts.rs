use std::net::{IpAddr, Ipv4Addr};

use super::World;
use volhost_kernel::{ErrorKind, FsOption, KernelError, NetworkError, SecretOption, Share};

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const SHARE: Share<'_> = Share { fs_type: "nfs", server: "127.0.0.1", path: "/export" };

pub fn an_address_is_its_own_and_a_name_that_none_has_is_reported(world: &dyn World) {
    let kernel = world.kernel();
    for address in ["127.0.0.1", "::1"] {
        assert_eq!(kernel.server_addresses(address).unwrap(), [address.parse::<IpAddr>().unwrap()]);
    }
    // A name that RFC 6761 gives to none.
    let error = kernel.server_addresses("nas.invalid").unwrap_err();
    assert!(matches!(error, KernelError::Network(NetworkError::Unresolved { .. })), "{error}");
    assert!(error.kind() == ErrorKind::Unreachable && error.to_string().contains("nas.invalid"), "{error}");
    let error = kernel.server_addresses("nas,addr=10.0.0.1").unwrap_err();
    assert!(matches!(error, KernelError::InvalidPath { .. }), "{error}");
}

pub fn a_server_that_takes_no_connection_is_named_and_leaves_no_mount(world: &dyn World) {
    let before = world.mount_count();
    // Port 1 is reserved, and nothing uses it.
    let error = world.kernel().mount_share(&SHARE, &[LOOPBACK], &[FsOption::new("port", "1")], &[]).unwrap_err();
    assert!(matches!(error, KernelError::Network(NetworkError::Unreachable { .. })), "{error}");
    assert!(error.to_string().contains("127.0.0.1:/export") && error.to_string().contains("ECONNREFUSED"), "{error}");
    let error = world.kernel().mount_share(&SHARE, &[], &[], &[]).unwrap_err();
    assert!(matches!(error, KernelError::Network(NetworkError::Unresolved { .. })), "{error}");
    assert_eq!(world.mount_count(), before);
}

pub fn shares_and_options_that_trick_are_refused_before_a_server_is_asked(world: &dyn World) {
    let mount = |share: Share<'_>, options: &[FsOption]| {
        world.kernel().mount_share(&share, &[LOOPBACK], options, &[]).unwrap_err()
    };
    let error = mount(Share { fs_type: "ext4", ..SHARE }, &[]);
    assert!(matches!(error, KernelError::Network(NetworkError::UnknownType { .. })), "{error}");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    for (server, path) in [("nas:/other", "/"), ("", "/"), ("nas", "export"), ("nas", "/../x"), ("nas", "/a\n")] {
        let error = mount(Share { server, path, ..SHARE }, &[]);
        assert!(matches!(error, KernelError::InvalidPath { .. }), "{server:?} {path:?}: {error}");
    }
    for option in [FsOption::new("addr", "10.0.0.1"), FsOption::new("vers", "3,addr=10.0.0.1"), FsOption::flag("ro")] {
        let error = mount(SHARE, &[option]);
        assert!(matches!(error, KernelError::InvalidOption { .. }), "{error}");
    }
}

pub fn the_secrets_of_a_mount_are_in_no_message(world: &dyn World) {
    let before = world.mount_count();
    let share = Share { fs_type: "cifs", server: "127.0.0.1", path: "/share" };
    let secret = |key: &str, value: &str| SecretOption { key: key.to_owned(), value: value.as_bytes().into() };
    let mount = |secrets: &[SecretOption]| {
        let port = FsOption::new("port", "1");
        world.kernel().mount_share(&share, &[LOOPBACK], &[port], secrets).unwrap_err()
    };
    // A server that can't be reached, a value that is no line, and an option that takes none.
    let credentials = [secret("username", "node"), secret("password", "correct,horse")];
    for (secrets, kind) in [
        (&credentials[..], ErrorKind::Unreachable),
        (&[secret("password", "correct\nhorse")], ErrorKind::InvalidArgument),
        (&[secret("vers", "horse")], ErrorKind::InvalidArgument),
    ] {
        let error = mount(secrets);
        assert_eq!(error.kind(), kind, "{error}");
        assert!(!format!("{error} {error:?} {secrets:?}").contains("horse"), "{error:?}");
    }
    assert_eq!(world.mount_count(), before);
}
