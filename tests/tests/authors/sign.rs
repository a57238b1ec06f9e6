//! Signatures of plugins: those that volhost makes are verified by minisign, and the reverse.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use sha2::Digest as _;
use tempfile::TempDir;
use volhost_tests::{Node, artifacts};

use crate::registry::{refused, said};

const PASSWORD: &str = "correct horse battery staple\n";

/// An author's folder, with a plugin in it.
struct Author(TempDir);

impl Author {
    fn new() -> Self {
        let author = Self(tempfile::tempdir().unwrap());
        fs::copy(artifacts::fixture("fixture-well-behaved"), author.plugin()).unwrap();
        author
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn plugin(&self) -> PathBuf {
        self.path("well-behaved.wasm")
    }

    fn signature(&self) -> PathBuf {
        self.path("well-behaved.wasm.minisig")
    }

    /// Runs a program in the folder, with this standard input.
    fn run(&self, program: &Path, words: &[&str], input: &str) -> Output {
        let mut command = Command::new(program);
        command.args(words).current_dir(self.0.path()).env_remove("SOURCE_DATE_EPOCH");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{}: {error}", program.display()));
        // A program that asks for nothing may have ended.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        child.wait_with_output().unwrap()
    }

    fn volhost(&self, words: &[&str], input: &str) -> Output {
        self.run(&artifacts::volhost(), &[&["plugin"], words].concat(), input)
    }

    fn minisign(&self, words: &[&str], input: &str) -> Output {
        self.run(Path::new("minisign"), words, input)
    }

    fn sign(&self, key: &str, more: &[&str], input: &str) -> Output {
        self.volhost(&[&["sign", "well-behaved.wasm", "--key", key], more].concat(), input)
    }

    /// What minisign says of the plugin's signature.
    fn verify(&self, public: &str) -> Output {
        self.minisign(&["-V", "-m", "well-behaved.wasm", "-p", public], "")
    }

    fn digest(&self) -> String {
        sha2::Sha256::digest(fs::read(self.plugin()).unwrap()).iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Whether a daemon that trusts this key, and requires a signature, loads the plugin.
    fn is_loaded_by_a_daemon_that_trusts(&self, public: &str) {
        let keys = self.path("trusted-keys");
        fs::create_dir(&keys).unwrap();
        fs::set_permissions(&keys, PermissionsExt::from_mode(0o755)).unwrap();
        fs::copy(self.path(public), keys.join("author.pub")).unwrap();
        fs::set_permissions(keys.join("author.pub"), PermissionsExt::from_mode(0o644)).unwrap();
        let config = format!("trusted-keys = {keys:?}\nrequire-signature = true\n");
        let node = Node::builder().config(&config).start();
        for file in [self.signature(), self.plugin()] {
            fs::copy(&file, node.folder().join("plugins").join(file.file_name().unwrap())).unwrap();
        }
        node.wait_event(&["PluginLoaded", "fixture.volhost/well-behaved"]);
    }
}

#[test]
fn minisign_verifies_what_volhost_signs() {
    let author = Author::new();
    said(&author.volhost(&["key", "new", "acme", "--password-file", "-"], PASSWORD));
    let mode = fs::metadata(author.path("acme.key")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "the secret key is its owner's");
    let printed = said(&author.sign("acme.key", &["--password-file", "-"], PASSWORD));
    assert!(printed.contains("well-behaved.wasm.minisig: fixture.volhost/well-behaved 1.0.0"), "{printed}");

    let verified = said(&author.verify("acme.pub"));
    for words in ["verified", "plugin:fixture.volhost/well-behaved", "version:1.0.0", &author.digest()] {
        assert!(verified.contains(words), "{words}: {verified}");
    }
    let public = said(&author.volhost(&["key", "public", "--key", "acme.key", "--password-file", "-"], PASSWORD));
    assert_eq!(public, fs::read_to_string(author.path("acme.pub")).unwrap().trim());
    // minisign reads the secret key, too.
    said(&author.minisign(&["-S", "-s", "acme.key", "-m", "well-behaved.wasm", "-x", "other.minisig"], PASSWORD));
    said(&author.minisign(&["-V", "-m", "well-behaved.wasm", "-x", "other.minisig", "-p", "acme.pub"], ""));
    author.is_loaded_by_a_daemon_that_trusts("acme.pub");
}

#[test]
fn keys_of_minisign_sign_with_and_without_a_password() {
    let author = Author::new();
    let twice = PASSWORD.repeat(2);
    said(&author.minisign(&["-G", "-p", "locked.pub", "-s", "locked.key"], &twice));
    said(&author.minisign(&["-G", "-W", "-p", "open.pub", "-s", "open.key"], ""));
    fs::write(author.path("password"), PASSWORD).unwrap();
    said(&author.sign("locked.key", &["--password-file", "password"], ""));
    said(&author.verify("locked.pub"));
    let other = author.verify("open.pub");
    assert!(!other.status.success(), "another key has not signed it");
    said(&author.sign("open.key", &["--force"], ""));
    said(&author.verify("open.pub"));
    author.is_loaded_by_a_daemon_that_trusts("open.pub");
}

#[test]
fn nothing_is_replaced_without_force_and_a_wrong_password_signs_nothing() {
    let author = Author::new();
    said(&author.volhost(&["key", "new", "acme", "-W"], ""));
    let (secret, public) = (fs::read(author.path("acme.key")).unwrap(), fs::read(author.path("acme.pub")).unwrap());
    let printed = refused(&author.volhost(&["key", "new", "acme", "-W"], ""));
    assert!(printed.contains("acme.key exists and is kept"), "{printed}");
    assert_eq!(fs::read(author.path("acme.key")).unwrap(), secret);
    fs::remove_file(author.path("acme.key")).unwrap();
    let printed = refused(&author.volhost(&["key", "new", "acme", "-W"], ""));
    assert!(printed.contains("acme.pub exists and is kept"), "{printed}");
    assert_eq!(fs::read(author.path("acme.pub")).unwrap(), public);
    fs::write(author.path("acme.key"), secret).unwrap();

    // minisign signs with a key that has no password, too.
    said(&author.minisign(&["-S", "-s", "acme.key", "-m", "well-behaved.wasm"], ""));
    said(&author.verify("acme.pub"));
    fs::write(author.signature(), "precious").unwrap();
    let printed = refused(&author.sign("acme.key", &[], ""));
    assert!(printed.contains("well-behaved.wasm.minisig exists") && printed.contains("--force"), "{printed}");
    assert_eq!(fs::read_to_string(author.signature()).unwrap(), "precious");
    fs::remove_file(author.signature()).unwrap();

    said(&author.volhost(&["key", "new", "locked", "--password-file", "-"], PASSWORD));
    let printed = refused(&author.sign("locked.key", &["--password-file", "-"], "wrong\n"));
    assert!(printed.contains("locked.key: Wrong password"), "{printed}");
    let asked = author.sign("locked.key", &[], "");
    assert_eq!(asked.status.code(), Some(2), "there is no terminal to ask");
    assert!(String::from_utf8_lossy(&asked.stderr).contains("--password-file"));

    // One file that is no plugin: the other one is not signed either.
    fs::write(author.path("a.wasm"), b"\0asm\x01\0\0\0").unwrap();
    let printed = refused(&author.volhost(&["sign", "well-behaved.wasm", "a.wasm", "--key", "acme.key"], ""));
    assert!(printed.contains("a.wasm: "), "{printed}");
    assert!(!author.signature().exists(), "all are signed, or none");
    let printed = refused(&author.sign("acme.pub", &[], ""));
    assert!(printed.contains("acme.pub: it is no secret key"), "{printed}");
}
