//! The registry of the distribution project (Debian's package docker-registry), on a free port of
//! this machine.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use tempfile::TempDir;

use crate::artifacts;

/// Who may use a registry with a login.
pub const USER: &str = "maker";
/// The password that goes with it.
pub const PASSWORD: &str = "open sesame";
/// [`PASSWORD`] by bcrypt, which is the one way that the registry reads.
const HASH: &str = "$2b$04$9BozhfrcL4QovKLbRaVb0.qfelCbjbSN1AAhje1yG5DzXjDcL3VNC";

/// A running registry. Dropping it ends it and removes its content.
#[derive(Debug)]
pub struct Registry {
    folder: TempDir,
    address: SocketAddr,
    plain: bool,
    process: Child,
}

impl Registry {
    /// One without authentication and TLS.
    ///
    /// # Panics
    /// When it does not start.
    pub fn plain() -> Self {
        Self::start(tempfile::tempdir().expect("a temporary folder"), "", true)
    }

    /// One with a certificate of its own ([`Self::authority`]), for [`USER`] alone.
    ///
    /// # Panics
    /// When it does not start.
    pub fn protected() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let at = |name: &str| folder.path().join(name).display().to_string();
        let made = Command::new("openssl")
            .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"])
            .args(["-subj", "/CN=registry of a test", "-addext", "subjectAltName=IP:127.0.0.1"])
            .args(["-addext", "basicConstraints=critical,CA:FALSE", "-keyout", &at("key.pem"), "-out", &at("cert.pem")])
            .output()
            .expect("openssl runs");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        std::fs::write(folder.path().join("users"), format!("{USER}:{HASH}\n")).expect("the users are written");
        let more = format!(
            "  tls: {{ certificate: {}, key: {} }}\nauth:\n  htpasswd: {{ realm: test, path: {} }}\n",
            at("cert.pem"),
            at("key.pem"),
            at("users")
        );
        Self::start(folder, &more, false)
    }

    fn start(folder: TempDir, more: &str, plain: bool) -> Self {
        let data = folder.path().join("data");
        let config = format!(
            "version: 0.1\nstorage:\n  filesystem: {{ rootdirectory: {} }}\nhttp:\n  addr: 127.0.0.1:0\n  secret: of a test\n{more}",
            data.display()
        );
        let file = folder.path().join("config.yml");
        std::fs::write(&file, config).expect("the configuration is written");
        let mut process = Command::new("docker-registry")
            .arg("serve")
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("docker-registry runs (deploy/setup.sh --tests)");
        let mut log = BufReader::new(process.stderr.take().expect("its log")).lines();
        let mut printed = String::new();
        let address = loop {
            let line = log.next().unwrap_or_else(|| panic!("it has ended:\n{printed}")).expect("its log can be read");
            writeln!(printed, "{line}").expect("a string takes text");
            if let Some((_, rest)) = line.split_once("listening on ") {
                let address = rest.split(['"', ',']).next().expect("a first part");
                break address.parse().expect("an address");
            }
        };
        // The test reads no further; a full pipe would stop it.
        std::thread::spawn(move || log.for_each(drop));
        Self { folder, address, plain, process }
    }

    /// `HOST:PORT/` and what follows it.
    pub fn reference(&self, rest: &str) -> String {
        format!("{}/{rest}", self.address)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The certificate to believe.
    pub fn authority(&self) -> PathBuf {
        self.folder.path().join("cert.pem")
    }

    /// Returns every stored blob: contents, configs and manifests.
    ///
    /// # Panics
    /// When they cannot be read.
    pub fn blobs(&self) -> Vec<Vec<u8>> {
        let mut blobs = Vec::new();
        collect(&self.folder.path().join("data/docker/registry/v2/blobs"), &mut blobs);
        blobs
    }

    /// `volhost plugin ...` with `home` as the user's home, speaking to this registry.
    ///
    /// # Panics
    /// When the program does not run.
    pub fn volhost(&self, home: &Path, arguments: &[&str]) -> Output {
        let mut command = Command::new(artifacts::volhost());
        command.arg("plugin").args(arguments).args(self.plain.then_some("--plain-http"));
        command.env_remove("DOCKER_CONFIG").env("HOME", home).stdin(Stdio::null());
        if !self.plain {
            command.env("SSL_CERT_FILE", self.authority());
        }
        command.output().expect("volhost runs")
    }

    /// [`Self::volhost`] with only the machine's own certificate authorities.
    ///
    /// # Panics
    /// When the program does not run.
    pub fn untrusting(&self, home: &Path, arguments: &[&str]) -> Output {
        let mut command = Command::new(artifacts::volhost());
        command.arg("plugin").args(arguments).env_remove("SSL_CERT_FILE").env("HOME", home).stdin(Stdio::null());
        command.output().expect("volhost runs")
    }
}

fn collect(folder: &Path, blobs: &mut Vec<Vec<u8>>) {
    for entry in std::fs::read_dir(folder).expect("the registry's folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            collect(&path, blobs);
        } else {
            blobs.push(std::fs::read(&path).expect("a blob"));
        }
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
