//! Mounting what a server exports: `fsopen` with the server's address, which the kernel does not
//! look up by itself.

use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::Duration;

use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags};

use super::LinuxKernel;
use super::fs_context::{configure, log, refused};
use super::rpc_ping::{self, Program};
use super::smb_ping;
use super::walk::{FOLDER_PLACE, directory, open_beneath};
use crate::error::{KernelError, NetworkError, Result};
use crate::handle::{DetachedMount, Directory};
use crate::names::text;
use crate::network_mounts::share_types::{CIFS, ShareType};
use crate::network_mounts::{NetworkMounts, SecretOption, Share, check_server, check_share, share_type};
use crate::step::Step;
use crate::types::FsOption;

/// How long a server may take to accept a connection, and then to answer: several tries of TCP,
/// which sends again after one, three and seven seconds.
const ANSWER_TIME: Duration = Duration::from_secs(10);
/// `f_type` of NFS, every version: `NFS_SUPER_MAGIC`.
const NFS_MAGIC: rustix::fs::FsWord = 0x6969;
/// The port of NFS.
const NFS_PORT: u16 = 2049;
/// The port of rpcbind, which knows those of NFS 3 and of its mount protocol.
const RPCBIND_PORT: u16 = 111;
/// The port of SMB.
const SMB_PORT: u16 = 445;

/// A question that a server answers whatever it thinks of the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ping {
    Rpc(Program),
    Smb,
}

impl Ping {
    fn ask(self, stream: &TcpStream, time: Duration) -> std::result::Result<(), Errno> {
        match self {
            Self::Rpc(program) => rpc_ping::ping(stream, program, time),
            Self::Smb => smb_ping::ping(stream, time),
        }
    }
}

impl NetworkMounts for LinuxKernel {
    fn server_addresses(&self, server: &str) -> Result<Vec<IpAddr>> {
        check_server(server)?;
        if let Ok(address) = server.parse() {
            return Ok(vec![address]);
        }
        let unresolved = |why| KernelError::Network(NetworkError::Unresolved { server: server.to_owned(), why });
        let found = (server, 0).to_socket_addrs().map_err(|error| unresolved(error.to_string()))?;
        let mut addresses: Vec<IpAddr> = Vec::new();
        for address in found.map(|found| found.ip()) {
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
        if addresses.is_empty() { Err(unresolved("it has no address".to_owned())) } else { Ok(addresses) }
    }

    fn mount_share(
        &self,
        share: &Share<'_>,
        addresses: &[IpAddr],
        options: &[FsOption],
        secrets: &[SecretOption],
    ) -> Result<DetachedMount> {
        check_share(share, options, secrets)?;
        let of = share_type(share)?;
        let address = answering(share, of, addresses, probed_port(of, options), ANSWER_TIME)?;
        let failed = |step, errno, detail| KernelError::Failed { step, path: share.to_string(), errno, detail };
        let context = rustix::mount::fsopen(of.name, FsOpenFlags::FSOPEN_CLOEXEC).map_err(|errno| {
            let known = if errno == Errno::NODEV { format!("this kernel knows no {}", of.name) } else { String::new() };
            failed(Step::MountShare, errno, known)
        })?;
        let said = |errno| failed(Step::MountShare, errno, log(context.as_fd()));
        rustix::mount::fsconfig_set_string(&context, "source", share.to_string()).map_err(said)?;
        rustix::mount::fsconfig_set_string(&context, "addr", address.to_string()).map_err(said)?;
        if of.name == CIFS {
            // A server could refer the kernel to another one, which would get the password.
            rustix::mount::fsconfig_set_flag(&context, "nodfs").map_err(said)?;
        }
        for option in options {
            configure(context.as_fd(), option)
                .map_err(|errno| refused(share.fs_type, option, errno, log(context.as_fd())))?;
        }
        for secret in secrets {
            // Without the kernel's words: they could have a part of the value.
            let value = secret.line().unwrap_or_default();
            rustix::mount::fsconfig_set_string(&context, secret.key.as_str(), value).map_err(|errno| {
                let _ = log(context.as_fd());
                failed(Step::MountShare, errno, format!("the kernel refuses the secret value of {}", secret.key))
            })?;
        }
        rustix::mount::fsconfig_create(&context)
            .map_err(|errno| not_mounted(share, of, address, errno, log(context.as_fd())))?;
        let mount = rustix::mount::fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())
            .map_err(|errno| not_mounted(share, of, address, errno, log(context.as_fd())))?;
        Ok(DetachedMount { fd: mount, label: PathBuf::from(share.to_string()) })
    }

    fn share_root(&self, mount: &DetachedMount) -> Result<Directory> {
        let path = text(&mount.label);
        let seen = rustix::fs::fstatfs(&mount.fd).map_err(|errno| KernelError::failed(Step::Inspect, &path, errno))?;
        if seen.f_type != NFS_MAGIC {
            return Err(KernelError::WrongType { path, expected: "a mount of a share of nfs", found: "another mount" });
        }
        let root = open_beneath(&mount.fd, ".", FOLDER_PLACE)
            .map_err(|errno| KernelError::walking(Step::OpenFolder, path, errno))?;
        Ok(directory(root, mount.label.clone()))
    }
}

/// The value of the last option of one of these names.
fn value<'a>(options: &'a [FsOption], names: &[&str]) -> Option<&'a str> {
    options.iter().rev().find(|option| names.contains(&option.key.as_str())).and_then(|option| option.value.as_deref())
}

/// The TCP port on which the kernel will ask the server first, and what the server answers there;
/// none if it does not use TCP.
fn probed_port(of: &ShareType, options: &[FsOption]) -> Option<(u16, Ping)> {
    let port = |name: &str| value(options, &[name]).and_then(|port| port.parse().ok());
    if of.name == CIFS {
        return Some((port("port").unwrap_or(SMB_PORT), Ping::Smb));
    }
    probed_by_nfs(options).map(|(port, program)| (port, Ping::Rpc(program)))
}

fn probed_by_nfs(options: &[FsOption]) -> Option<(u16, Program)> {
    let flag = |name: &str| options.iter().any(|option| option.key == name);
    let proto = value(options, &["proto"]).unwrap_or_default();
    if flag("udp") || flag("rdma") || proto.starts_with("udp") || proto.starts_with("rdma") {
        return None;
    }
    let old = value(options, &["vers", "nfsvers"]).is_some_and(|version| version.starts_with('3'));
    let port = |name: &str| value(options, &[name]).and_then(|port| port.parse().ok());
    let nfs = port("port").unwrap_or(NFS_PORT);
    if !old {
        return Some((nfs, Program::NFS));
    }
    let by_udp = value(options, &["mountproto"]).is_some_and(|proto| proto.starts_with("udp"));
    Some(match port("mountport") {
        _ if by_udp => (nfs, Program::NFS_3),
        Some(port) => (port, Program::MOUNT),
        None => (RPCBIND_PORT, Program::RPCBIND),
    })
}

/// The first address that answers. The kernel's own attempt would keep the caller for minutes where
/// no answer comes, and does not report which address and port it was.
fn answering(
    share: &Share<'_>,
    of: &ShareType,
    addresses: &[IpAddr],
    probed: Option<(u16, Ping)>,
    time: Duration,
) -> Result<IpAddr> {
    let mut last = None;
    for &address in addresses {
        let Some((port, ping)) = probed else { return Ok(address) };
        let share = share.to_string();
        match TcpStream::connect_timeout(&SocketAddr::new(address, port), time) {
            Ok(stream) => match ping.ask(&stream, time) {
                Ok(()) => return Ok(address),
                Err(errno) => {
                    let protocol = of.protocol;
                    last = Some(NetworkError::Silent { share, address, port, protocol, errno });
                }
            },
            Err(error) => {
                // Without an errno it was the time-out of this call.
                let errno = error.raw_os_error().map_or(Errno::TIMEDOUT, Errno::from_raw_os_error);
                last = Some(NetworkError::Unreachable { share, address, port, errno });
            }
        }
    }
    Err(last.map_or_else(
        || {
            let why = "it has no address that may be used".to_owned();
            KernelError::Network(NetworkError::Unresolved { server: share.server.to_owned(), why })
        },
        KernelError::Network,
    ))
}

/// Why there is no mount, and the way out.
fn not_mounted(share: &Share<'_>, of: &ShareType, address: IpAddr, errno: Errno, said: String) -> KernelError {
    let why = if of.name == CIFS { why_not_by_smb(errno) } else { why_not_by_nfs(errno) };
    KernelError::Network(NetworkError::Refused { share: share.to_string(), address, why, errno, said })
}

const fn why_not_by_nfs(errno: Errno) -> &'static str {
    match errno {
        Errno::PROTONOSUPPORT => "the server does not speak this version of the protocol, or this kernel does not",
        Errno::NOENT => "the server exports no such folder",
        Errno::ACCESS | Errno::PERM => "the server does not let this node mount it; look at its exports",
        Errno::STALE => "the folder was removed on the server and made again; its exports must be read again",
        Errno::NOTDIR => "it is no folder",
        Errno::INVAL => "the options do not fit one another, or the server",
        Errno::BUSY => "it is mounted with other options that it can't have beside these (see nosharecache)",
        Errno::TIMEDOUT => "the server takes connections and does not answer",
        Errno::CONNREFUSED => "one of the server's programs does not run (rpcbind, the mount daemon, NFS itself)",
        _ => "the kernel does not mount it",
    }
}

const fn why_not_by_smb(errno: Errno) -> &'static str {
    match errno {
        Errno::ACCESS | Errno::PERM => {
            "the server does not accept the user name, password or domain, or does not let this user use the share"
        }
        Errno::KEYEXPIRED => "the password has expired, or the account is locked",
        Errno::NOENT | Errno::NXIO => "the server has no such share, or the share no such folder",
        Errno::NOTDIR => "it is no folder",
        Errno::OPNOTSUPP | Errno::PROTONOSUPPORT => {
            "the server does not speak this version of the protocol (`vers=`) or what an option asks for"
        }
        Errno::INVAL => "the options do not fit one another, or there are no credentials",
        Errno::NOKEY => "the kernel has no credentials of this kind (`sec=krb5` needs cifs.upcall and a ticket)",
        Errno::REMOTE => "the share refers to another server, which this does not follow; name that one",
        Errno::HOSTDOWN | Errno::TIMEDOUT | Errno::AGAIN => "the server takes connections and does not answer",
        _ => "the kernel does not mount it",
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;
    use crate::network_mounts::share_types::{NFS, of};

    const LOOPBACK: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
    const SHARE: Share<'_> = Share { fs_type: "nfs", server: "nas", path: "/export" };

    #[test]
    fn the_port_that_is_tried_is_the_one_that_the_kernel_asks_first() {
        for (options, probed) in [
            (vec![], Some((2049, Program::NFS))),
            (vec![FsOption::new("vers", "4.2")], Some((2049, Program::NFS))),
            (vec![FsOption::new("vers", "4.2"), FsOption::new("port", "20490")], Some((20490, Program::NFS))),
            (vec![FsOption::new("vers", "3")], Some((111, Program::RPCBIND))),
            (vec![FsOption::new("nfsvers", "3"), FsOption::new("mountport", "892")], Some((892, Program::MOUNT))),
            (vec![FsOption::new("vers", "3"), FsOption::new("mountproto", "udp")], Some((2049, Program::NFS_3))),
            (vec![FsOption::new("proto", "rdma")], None),
            (vec![FsOption::new("vers", "3"), FsOption::flag("udp")], None),
        ] {
            assert_eq!(probed_by_nfs(&options), probed, "{options:?}");
        }
        for (options, port) in [(vec![], 445), (vec![FsOption::new("port", "4450")], 4450)] {
            assert_eq!(probed_port(of(CIFS).unwrap(), &options), Some((port, Ping::Smb)), "{options:?}");
        }
    }

    #[test]
    fn an_address_that_takes_no_connection_is_named() {
        let listener = TcpListener::bind((LOOPBACK, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let error =
            answering(&SHARE, of(NFS).unwrap(), &[LOOPBACK], Some((port, Ping::Rpc(Program::NFS))), ANSWER_TIME)
                .unwrap_err();
        let message = error.to_string();
        assert!(message.contains("nas:/export") && message.contains(&format!("127.0.0.1, port {port}")), "{message}");
        assert!(message.contains("ECONNREFUSED") && message.contains("no server listens there"), "{message}");
        assert_eq!(error.kind(), crate::ErrorKind::Unreachable);
        let error =
            answering(&SHARE, of(NFS).unwrap(), &[], Some((port, Ping::Rpc(Program::NFS))), ANSWER_TIME).unwrap_err();
        assert!(error.to_string().contains("no address"), "{error}");
    }

    #[test]
    fn a_server_that_takes_connections_and_is_silent_keeps_nobody_for_long() {
        // The kernel takes the connection for the listener, which never answers.
        let listener = TcpListener::bind((LOOPBACK, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let time = Duration::from_millis(10);
        for (name, ping) in [(NFS, Ping::Rpc(Program::NFS)), (CIFS, Ping::Smb)] {
            let of = of(name).unwrap();
            let error = answering(&SHARE, of, &[LOOPBACK], Some((port, ping)), time).unwrap_err();
            let message = error.to_string();
            assert!(message.contains("takes connections") && message.contains("ETIMEDOUT"), "{message}");
            assert!(message.contains(of.protocol), "{message}");
            assert_eq!(error.kind(), crate::ErrorKind::Unreachable);
        }
    }
}
