//! An SSH server (Debian's openssh-server) on a free port of this machine: one process of sshd for
//! each connection, as inetd starts them.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use rustix::process::{Pid, Signal, kill_process_group};
use tempfile::TempDir;

/// The user that may log in, and that sshd runs as: only root could start it for another one.
pub const USER: &str = "nobody";
const NOBODY: u32 = 65534;

/// A running server. Dropping it ends its connections and removes its files.
#[derive(Debug)]
pub struct SshServer {
    folder: TempDir,
    address: SocketAddr,
    state: Arc<Mutex<ServerState>>,
}

#[derive(Debug, Default)]
struct ServerState {
    is_closed: bool,
    is_dropped: bool,
    connections: Vec<Child>,
}

impl SshServer {
    /// A server with keys of its own, and the folder [`Self::exports`], which every user may write
    /// to.
    ///
    /// # Panics
    /// When it does not start.
    pub fn start() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let at = |name: &str| folder.path().join(name);
        allow(folder.path(), 0o755);
        for key in ["host-key", "user-key", "other-key"] {
            let made = Command::new("ssh-keygen")
                .args(["-q", "-t", "ed25519", "-N", "", "-C", "test", "-f"])
                .arg(at(key))
                .status()
                .expect("ssh-keygen runs");
            assert!(made.success());
            // sshd, which is not root, reads it.
            allow(&at(key), 0o644);
        }
        std::fs::create_dir(at("exports")).expect("a folder");
        allow(&at("exports"), 0o777);
        let config = format!(
            "HostKey {0}/host-key\nAuthorizedKeysFile {0}/user-key.pub\nStrictModes no\nUsePAM yes\n\
             PasswordAuthentication no\nPidFile none\nSubsystem sftp internal-sftp\n",
            folder.path().display()
        );
        std::fs::write(at("config"), config).expect("the configuration is written");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = listener.local_addr().expect("its address");
        let state = Arc::new(Mutex::new(ServerState::default()));
        let server = Self { folder, address, state: Arc::clone(&state) };
        let config = server.at("config");
        std::thread::spawn(move || accept(&listener, &config, &state));
        server
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.at(name)).expect("a key")
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The folder to mount, or to make folders in.
    pub fn exports(&self) -> PathBuf {
        self.at("exports")
    }

    /// The key of the user who may log in.
    pub fn user_key(&self) -> String {
        self.read("user-key")
    }

    /// A key that the server does not know.
    pub fn other_key(&self) -> String {
        self.read("other-key")
    }

    /// The line that makes ssh believe this server.
    pub fn known_hosts(&self) -> String {
        self.known_by("host-key.pub")
    }

    /// A line for this server with the key of another one.
    pub fn other_hosts(&self) -> String {
        self.known_by("other-key.pub")
    }

    fn known_by(&self, key: &str) -> String {
        format!("[{}]:{} {}", self.address.ip(), self.address.port(), self.read(key))
    }

    /// Closes every connection and takes no more.
    ///
    /// # Panics
    /// When the server's thread has.
    pub fn close(&self) {
        self.state.lock().unwrap().is_closed = true;
        self.signal(Signal::KILL);
    }

    /// Takes connections again after [`Self::close`].
    ///
    /// # Panics
    /// When the server's thread has.
    pub fn open_again(&self) {
        self.state.lock().unwrap().is_closed = false;
    }

    /// Stops answering, without closing the connections, and takes no new ones.
    ///
    /// # Panics
    /// When the server's thread has.
    pub fn hang(&self) {
        self.state.lock().unwrap().is_closed = true;
        self.signal(Signal::STOP);
    }

    /// Answers again after [`Self::hang`].
    ///
    /// # Panics
    /// When the server's thread has.
    pub fn go_on(&self) {
        self.state.lock().unwrap().is_closed = false;
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        for connection in &mut self.state.lock().unwrap().connections {
            // Its id is its own until it is waited for.
            if connection.try_wait().is_ok_and(|ended| ended.is_none()) {
                let _ = kill_process_group(Pid::from_child(connection), signal);
            }
        }
    }
}

impl Drop for SshServer {
    fn drop(&mut self) {
        self.close();
        self.state.lock().unwrap().is_dropped = true;
        // Its thread looks at the state again, and ends.
        let _ = TcpStream::connect(self.address);
        for connection in &mut self.state.lock().unwrap().connections {
            let _ = connection.wait();
        }
    }
}

fn accept(listener: &TcpListener, config: &Path, state: &Arc<Mutex<ServerState>>) {
    for stream in listener.incoming() {
        let mut state_now = state.lock().unwrap();
        if state_now.is_dropped {
            return;
        }
        let Ok(stream) = stream else { continue };
        if state_now.is_closed {
            continue;
        }
        let stream = OwnedFd::from(stream);
        let input = stream.try_clone().expect("a descriptor");
        let sshd = Command::new("/usr/sbin/sshd")
            .args(["-i", "-f"])
            .arg(config)
            .stdin(input)
            .stdout(stream)
            .stderr(Stdio::null())
            .uid(NOBODY)
            .gid(NOBODY)
            .process_group(0)
            .spawn()
            .expect("sshd runs (deploy/setup.sh --tests)");
        state_now.connections.push(sshd);
    }
}

fn allow(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("a mode");
}
