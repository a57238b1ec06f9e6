//! Whose plugins are taken. The keys and signatures are made here, in the formats of minisign and
//! cosign.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::common::blake2b::blake2b_512;
use crate::common::guest::Guest;
use crate::common::host::{config, no_compiler};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair};
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
        let [signed, ..] = volhost_runtime::signature_files(&file);
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

/// A maker who uses cosign.
struct CosignMaker(EcdsaKeyPair);

impl CosignMaker {
    fn new() -> Self {
        let random = SystemRandom::new();
        let key = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &random).unwrap();
        Self(EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, key.as_ref(), &random).unwrap())
    }

    /// cosign.pub: a SubjectPublicKeyInfo in PEM, in lines of 64 characters.
    fn public(&self) -> String {
        // The same for every key on P-256, up to the point.
        let algorithm = BASE64.decode("MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgA=").unwrap();
        let text = BASE64.encode([&algorithm, self.0.public_key().as_ref()].concat());
        let (first, second) = text.split_at(64);
        format!("-----BEGIN PUBLIC KEY-----\n{first}\n{second}\n-----END PUBLIC KEY-----\n")
    }

    fn sign(&self, content: &[u8]) -> String {
        BASE64.encode(self.0.sign(&SystemRandom::new(), content).unwrap().as_ref())
    }

    /// What `volhost plugin pull` writes for an artifact whose layer is this content.
    fn sign_artifact(&self, content: &[u8], manifest_of_payload: Option<&str>) -> String {
        let manifest = format!("{{\"layers\": [{{\"digest\": \"sha256:{}\"}}]}}", digest_of(content));
        let digest = format!("sha256:{}", digest_of(manifest.as_bytes()));
        let payload = format!(
            "{{\"critical\":{{\"identity\":{{\"docker-reference\":\"registry.example/a\"}},\"image\":{{\"docker-manifest-digest\":{:?}}},\"type\":\"cosign container image signature\"}},\"optional\":null}}",
            manifest_of_payload.unwrap_or(&digest)
        );
        let (signature, payload) = (self.sign(payload.as_bytes()), BASE64.encode(payload));
        format!(
            "{{\"manifest\": {:?}, \"signatures\": [{{\"payload\": {payload:?}, \"signature\": {signature:?}}}]}}",
            BASE64.encode(manifest)
        )
    }
}

fn digest_of(content: &[u8]) -> String {
    use sha2::Digest;
    sha2::Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A node that trusts `cosign.pub` of a maker, with its plugin, which has no signature yet.
fn trusting_cosign(maker: &CosignMaker) -> (Node, PathBuf) {
    let node = Node::trusting(&[]);
    std::fs::write(node.keys().join("cosign.pub"), maker.public()).unwrap();
    let file = node.plugin(&content(), None);
    (node, file)
}

fn put(file: &Path, suffix: &str, text: &str) {
    std::fs::write(format!("{}{suffix}", file.display()), text).unwrap();
}

#[test]
fn what_cosign_has_signed_as_a_file_or_in_a_registry_is_taken() {
    let maker = CosignMaker::new();
    for (suffix, signature) in
        [(".sig", maker.sign(&content())), (".cosign.json", maker.sign_artifact(&content(), None))]
    {
        let (node, file) = trusting_cosign(&maker);
        let missing = node.load(&file, true, "").unwrap_err().to_string();
        assert!(missing.contains("guest.wasm.sig or ") && missing.contains("guest.wasm.cosign.json"), "{missing}");
        put(&file, suffix, &format!("{signature}\n"));
        node.load(&file, true, "").unwrap();
    }
}

#[test]
fn a_signature_of_cosign_that_does_not_fit_is_refused_with_what_does_not_match() {
    let (maker, stranger) = (CosignMaker::new(), CosignMaker::new());
    let other = Guest { name: "test.io/other".into(), ..Guest::default() }.component();
    let of_other = maker.sign_artifact(&other, None);
    let digests = (digest_of(&other), digest_of(&content()));
    let nowhere = format!("sha256:{}", "0".repeat(64));
    for (suffix, text, words) in [
        (".sig", maker.sign(&other), vec!["guest.wasm.sig", "cosign.pub", "none of the trusted keys of cosign"]),
        (".sig", stranger.sign(&content()), vec!["none of the trusted keys of cosign"]),
        (".sig", "no base64!".to_owned(), vec!["none of cosign's", "base64"]),
        (".sig", String::new(), vec!["none of cosign's", "empty"]),
        (".cosign.json", of_other, vec!["guest.wasm.cosign.json", "cosign.pub", &digests.0, &digests.1]),
        (".cosign.json", maker.sign_artifact(&content(), Some(&nowhere)), vec!["signs the manifest", &nowhere]),
        (".cosign.json", stranger.sign_artifact(&content(), None), vec!["none of the trusted keys of cosign"]),
        (".cosign.json", "{}".to_owned(), vec!["none of cosign's", "manifest"]),
    ] {
        let (node, file) = trusting_cosign(&maker);
        put(&file, suffix, &text);
        for required in [false, true] {
            let refused = node.load(&file, required, "").unwrap_err();
            assert!(matches!(refused, LoadProblem::Signature(_)), "{refused}");
            let refused = refused.to_string();
            assert!(words.iter().all(|word| refused.contains(word)), "{words:?}: {refused}");
        }
    }
}

#[test]
fn one_trusted_signature_is_enough_unless_another_trusted_key_contradicts() {
    let (one, two, cosign) = (Maker::new(1), Maker::new(2), CosignMaker::new());
    let node = Node::trusting(&[&one]);
    std::fs::write(node.keys().join("cosign.pub"), cosign.public()).unwrap();
    // minisign's of a stranger, cosign's of a trusted key.
    let file = node.plugin(&content(), Some(&two.sign(&content(), Over::Digest)));
    node.load(&file, true, "").unwrap_err();
    put(&file, ".sig", &cosign.sign(&content()));
    node.load(&file, true, "").unwrap();
    // A trusted key names itself, and has signed something else.
    let file = node.plugin(&content(), Some(&one.sign(b"something else", Over::Digest)));
    let refused = node.load(&file, true, "").unwrap_err();
    assert!(matches!(refused, LoadProblem::Signature(SignatureError::Forged { .. })), "{refused}");
    // Of a tool of which no key is trusted.
    let node = Node::trusting(&[&one]);
    let file = node.plugin(&content(), Some(&one.sign(&content(), Over::Digest)));
    put(&file, ".sig", "whatever");
    node.load(&file, true, "").unwrap();
}

#[test]
fn keys_of_cosign_are_limited_to_vendors_and_others_are_named() {
    let maker = CosignMaker::new();
    let (node, file) = trusting_cosign(&maker);
    put(&file, ".sig", &maker.sign(&content()));
    let key = node.keys().join("cosign.pub");
    std::fs::write(&key, format!("{}vendors: acme.example\n", maker.public())).unwrap();
    let refused = node.load(&file, true, "").unwrap_err().to_string();
    assert!(refused.contains("acme.example") && refused.contains("cosign.pub"), "{refused}");
    std::fs::write(&key, format!("{}vendors: test.io\n", maker.public())).unwrap();
    node.load(&file, true, "").unwrap();
    for (pem, words) in [
        ("-----BEGIN PUBLIC KEY-----\n", "does not end"),
        ("-----BEGIN PUBLIC KEY-----\n!\n-----END PUBLIC KEY-----\n", "base64"),
        (
            "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n-----END PUBLIC KEY-----\n",
            "P-256",
        ),
    ] {
        std::fs::write(&key, pem).unwrap();
        let refused = Signatures::of_folder(Some(&node.keys()), true).unwrap_err().to_string();
        assert!(refused.contains("cosign.pub is no public key") && refused.contains(words), "{refused}");
    }
}
