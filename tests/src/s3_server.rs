//! An S3 server (moto, in memory) on a free port of this machine, and another client of it (boto3).

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::artifacts::{tool_cache, workspace};

/// Where `deploy/setup.sh --tests` puts moto.
const MOTO: &str = "moto-5.2.5";

/// A running server that checks each request. Dropping it ends it.
#[derive(Debug)]
pub struct S3Server {
    process: Child,
    endpoint: String,
    access_key: String,
    secret_key: String,
}

/// An object of a bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct S3Object {
    /// Its key.
    pub key: String,
    /// Its size, in bytes.
    pub size: u64,
    /// The SHA-256 of its content, in hexadecimal.
    pub sha256: String,
}

fn tool(name: &str) -> PathBuf {
    tool_cache().join(MOTO).join("bin").join(name)
}

impl S3Server {
    /// A server with this bucket, empty.
    ///
    /// # Panics
    /// When it does not start.
    pub fn with_bucket(bucket: &str) -> Self {
        let mut process = Command::new(tool("moto_server"))
            .args(["-H", "127.0.0.1", "-p", "0"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("moto_server runs (deploy/setup.sh --tests)");
        let mut log = BufReader::new(process.stderr.take().expect("its log")).lines();
        let endpoint = log
            .by_ref()
            .map(|line| line.expect("its log can be read"))
            .find_map(|line| line.split_once("Running on ").map(|(_, url)| url.trim().to_owned()))
            .expect("it says where it listens");
        // The test reads no further; a full pipe would stop it.
        std::thread::spawn(move || log.for_each(drop));
        let mut server = Self { process, endpoint, access_key: "any".into(), secret_key: "any".into() };
        server.client(&["make", bucket], b"");
        let user = server.client(&["user"], b"");
        let (access_key, secret_key) = user.trim().split_once(' ').expect("a key");
        (server.access_key, server.secret_key) = (access_key.to_owned(), secret_key.to_owned());
        server
    }

    /// Its URL.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// The id of the key that may do everything.
    pub fn access_key(&self) -> &str {
        &self.access_key
    }

    /// The secret of that key.
    pub fn secret_key(&self) -> &str {
        &self.secret_key
    }

    /// Every object of a bucket, by its key, as another client reads it.
    ///
    /// # Panics
    /// When it cannot be read.
    pub fn objects(&self, bucket: &str) -> Vec<S3Object> {
        let printed = self.client(&["objects", bucket], b"");
        let object = |line: &str| {
            let mut words = line.rsplitn(3, ' ').map(str::to_owned);
            let (sha256, size, key) = (words.next()?, words.next()?, words.next()?);
            Some(S3Object { key, size: size.parse().ok()?, sha256 })
        };
        printed.lines().map(|line| object(line).unwrap_or_else(|| panic!("{line}"))).collect()
    }

    /// Makes an object, as another client.
    ///
    /// # Panics
    /// When it cannot be made.
    pub fn put(&self, bucket: &str, key: &str, content: &[u8]) {
        self.client(&["put", bucket, key], content);
    }

    /// Stops answering.
    ///
    /// # Panics
    /// When the server has ended.
    pub fn hang(&self) {
        kill_process(Pid::from_child(&self.process), Signal::STOP).expect("it runs");
    }

    /// Answers again after [`Self::hang`].
    ///
    /// # Panics
    /// When the server has ended.
    pub fn go_on(&self) {
        kill_process(Pid::from_child(&self.process), Signal::CONT).expect("it runs");
    }

    fn client(&self, arguments: &[&str], input: &[u8]) -> String {
        let mut client = Command::new(tool("python3"))
            .arg(workspace().join("tests/s3/client.py"))
            .args([self.endpoint.as_str(), &self.access_key, &self.secret_key])
            .args(arguments)
            // The machine's own settings of Amazon's libraries.
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("python3 runs (deploy/setup.sh --tests)");
        client.stdin.take().expect("its input").write_all(input).expect("it reads its input");
        let output = client.wait_with_output().expect("it ends");
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    }
}

impl Drop for S3Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
