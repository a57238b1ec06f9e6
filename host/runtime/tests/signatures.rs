//! Whose plugins are taken. The keys and signatures are made here, in the format of minisign.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::common::blake2b::blake2b_512;
use crate::common::guest::Guest;
use crate::common::host::{config, no_compiler};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use ring::signature::{Ed25519KeyPair, KeyPair};
use tempfile::TempDir;
use volhost_runtime::{LoadProblem, Plugin, Runtime, SignatureError, Signatures, TrustedKeysError};
use volhost_testing_kernel::InMemoryKernel;

/// A maker of plugins.
struct Maker {
    id: [u8; 8],
    key: Ed25519KeyPair,
}

/// What is signed: the content, as old versions of minisign did, or its digest.
#[derive(Clone, Copy)]
enum Over {
    Content,
    Digest,
}

impl Maker {
    fn new(seed: u8) -> Self {
        Self { id: [seed; 8], key: Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).unwrap() }
    }

    fn public(&self) -> String {
        let key = [b"Ed", &self.id[..], self.key.public_key().as_ref()].concat();
        format!("untrusted comment: a maker\n{}\n", BASE64.encode(key))
    }

    fn sign(&self, content: &[u8], over: Over) -> String {
        let (algorithm, signed) = match over {
            Over::Content => (b"Ed", self.key.sign(content)),
            Over::Digest => (b"ED", self.key.sign(&blake2b_512(content))),
        };
        let comment = "made for a test";
        let whole = self.key.sign(&[signed.as_ref(), comment.as_bytes()].concat());
        let signature = [&algorithm[..], &self.id, signed.as_ref()].concat();
        let (signature, whole) = (BASE64.encode(signature), BASE64.encode(whole.as_ref()));
        format!("untrusted comment: a plugin\n{signature}\ntrusted comment: {comment}\n{whole}\n")
    }
}

/// A node that trusts makers.
struct Node {
    folder: TempDir,
}

impl Node {
    fn trusting(makers: &[&Maker]) -> Self {
        let node = Self { folder: tempfile::tempdir().unwrap() };
        std::fs::create_dir(node.keys()).unwrap();
        for (index, maker) in makers.iter().enumerate() {
            std::fs::write(node.keys().join(format!("{index}.pub")), maker.public()).unwrap();
        }
        node
    }

    fn keys(&self) -> PathBuf {
        self.folder.path().join("keys")
    }

    /// Puts a plugin and its signature, if it has one, into the folder.
    fn plugin(&self, content: &[u8], signature: Option<&str>) -> PathBuf {
        let file = self.folder.path().join("guest.wasm");
        std::fs::write(&file, content).unwrap();
        let signed = volhost_runtime::signature_file(&file);
        match signature {
            Some(signature) => std::fs::write(signed, signature).unwrap(),
            None => drop(std::fs::remove_file(signed)),
        }
        file
    }

    fn load(&self, file: &Path, required: bool, grants: &str) -> Result<Arc<Plugin>, LoadProblem> {
        let mut config = config(self.folder.path());
        config.grants = config.grants.overridden_by(toml::from_str(grants).unwrap());
        let signatures = Signatures::of_folder(Some(&self.keys()), required).unwrap();
        let runtime = Runtime::new(config, Arc::new(InMemoryKernel::new())).unwrap().trusting(signatures);
        runtime.load(file).map_err(|error| *error.problem)
    }
}

fn content() -> Vec<u8> {
    Guest::default().component()
}

#[test]
fn what_a_trusted_maker_has_signed_is_taken() {
    let (one, two) = (Maker::new(1), Maker::new(2));
    let node = Node::trusting(&[&one, &two]);
    for over in [Over::Content, Over::Digest] {
        for maker in [&one, &two] {
            let file = node.plugin(&content(), Some(&maker.sign(&content(), over)));
            node.load(&file, true, "").unwrap();
        }
    }
}

#[test]
fn an_unsigned_plugin_is_taken_unless_signatures_are_required_and_its_content_is_not_granted() {
    let node = Node::trusting(&[&Maker::new(1)]);
    let file = node.plugin(&content(), None);
    node.load(&file, false, "").unwrap();
    let refused = node.load(&file, true, "").unwrap_err();
    assert!(matches!(refused, LoadProblem::Signature(SignatureError::Missing { .. })), "{refused}");
    let text = refused.to_string();
    assert!(text.contains("guest.wasm.minisig is not there") && text.contains("sha256"), "{text}");
    let digest: String = {
        use sha2::Digest;
        sha2::Sha256::digest(content()).iter().map(|byte| format!("{byte:02x}")).collect()
    };
    node.load(&file, true, &format!("[\"test.io/guest\"]\nsha256 = [{digest:?}]\n")).unwrap();
    let other = "0".repeat(64);
    node.load(&file, true, &format!("[\"test.io/guest\"]\nsha256 = [{other:?}]\n")).unwrap_err();
}

#[test]
fn a_signature_that_does_not_fit_is_refused_whether_or_not_one_is_required() {
    let (trusted, stranger) = (Maker::new(1), Maker::new(2));
    let node = Node::trusting(&[&trusted]);
    let good = trusted.sign(&content(), Over::Digest);
    let mut other = content();
    other.extend_from_slice(b"\0\x05\x04more");
    // The trusted comment is signed too.
    let renamed = good.replace("made for a test", "made for a job");
    for required in [false, true] {
        for (content, signature, words) in [
            (&other, good.as_str(), "does not fit its content"),
            (&content(), stranger.sign(&content(), Over::Digest).as_str(), "none of the 1 trusted keys"),
            (&content(), renamed.as_str(), "does not fit its content"),
            (&content(), "garbage", "none of minisign's"),
            (&content(), "", "none of minisign's"),
        ] {
            let file = node.plugin(content, Some(signature));
            let refused = node.load(&file, required, "").unwrap_err();
            assert!(refused.to_string().contains(words), "{words}: {refused}");
        }
    }
    // A stranger that gives its key the number of a trusted one.
    let forger = Maker { id: trusted.id, ..Maker::new(3) };
    let file = node.plugin(&content(), Some(&forger.sign(&content(), Over::Digest)));
    assert!(matches!(node.load(&file, true, "").unwrap_err(), LoadProblem::Signature(SignatureError::Forged { .. })));
}

#[test]
fn a_key_signs_plugins_of_its_vendors_and_of_no_reserved_one_without_a_word() {
    let maker = Maker::new(1);
    let node = Node::trusting(&[&maker]);
    let of = |name: &str| Guest { name: name.into(), ..Guest::default() }.component();
    let load = |name: &str, grants: &str| {
        let file = node.plugin(&of(name), Some(&maker.sign(&of(name), Over::Digest)));
        node.load(&file, true, grants)
    };
    let other_vendor =
        |refused: &LoadProblem| matches!(refused, LoadProblem::Signature(SignatureError::OtherVendor { .. }));
    load("test.io/guest", "").unwrap();
    let digest = |name: &str| -> String {
        use sha2::Digest;
        sha2::Sha256::digest(of(name)).iter().map(|byte| format!("{byte:02x}")).collect()
    };
    let refused = load("volhost.io/loop", "").unwrap_err();
    assert!(matches!(refused, LoadProblem::NameReserved(_)), "{refused}");
    load("volhost.io/loop", &format!("[\"volhost.io/loop\"]\nsha256 = [{:?}]\n", digest("volhost.io/loop"))).unwrap();

    let key = node.keys().join("0.pub");
    std::fs::write(&key, format!("{}\nvendors: acme.example, test.io\n", maker.public().trim_end())).unwrap();
    load("test.io/guest", "").unwrap();
    load("acme.example/guest", "").unwrap();
    let refused = load("other.example/guest", "").unwrap_err();
    let text = refused.to_string();
    assert!(other_vendor(&refused) && text.contains("acme.example, test.io") && text.contains("0.pub"), "{text}");
    // Content that the operator has named needs no signature.
    load(
        "other.example/guest",
        &format!("[\"other.example/guest\"]\nsha256 = [{:?}]\n", digest("other.example/guest")),
    )
    .unwrap();

    std::fs::write(&key, format!("{}\nvendors:\n", maker.public().trim_end())).unwrap();
    let bad = Signatures::of_folder(Some(&node.keys()), true).unwrap_err().to_string();
    assert!(bad.contains("names no vendor"), "{bad}");
}

#[test]
fn the_compiler_sees_nothing_that_is_not_signed() {
    let node = Node::trusting(&[&Maker::new(1)]);
    let file = node.plugin(&content(), None);
    let mut config = config(node.folder.path());
    config.compiler = no_compiler();
    let signatures = Signatures::of_folder(Some(&node.keys()), true).unwrap();
    let runtime = Runtime::new(config, Arc::new(InMemoryKernel::new())).unwrap().trusting(signatures);
    let refused = runtime.load(&file).unwrap_err();
    assert!(matches!(*refused.problem, LoadProblem::Signature(_)), "{refused}");
}

#[test]
fn a_key_that_cannot_be_used_is_reported_and_none_is_not_enough() {
    let refused = |node: &Node| Signatures::of_folder(Some(&node.keys()), true).unwrap_err();
    assert!(matches!(refused(&Node::trusting(&[])), TrustedKeysError::NoKeys));
    assert!(matches!(Signatures::of_folder(None, true).unwrap_err(), TrustedKeysError::NoKeys));
    Signatures::of_folder(None, false).unwrap();
    let node = Node::trusting(&[&Maker::new(1)]);
    std::fs::write(node.keys().join("bad.pub"), "no key").unwrap();
    assert!(refused(&node).to_string().contains("bad.pub is no public key"));
    std::fs::remove_file(node.keys().join("bad.pub")).unwrap();
    std::fs::set_permissions(node.keys(), std::fs::Permissions::from_mode(0o777)).unwrap();
    assert!(matches!(refused(&node), TrustedKeysError::WritableByOthers { .. }));
    let gone = Signatures::of_folder(Some(Path::new("/no/such/keys")), false).unwrap_err();
    assert!(gone.to_string().contains("/no/such/keys"), "{gone}");
}
