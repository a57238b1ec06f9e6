//! Registries that lie, babble, stall and send astray.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "tests may panic"
)]

mod common;

use std::io::Read as _;
use std::net::TcpStream;
use std::time::Duration;

use common::{Asked, COMPONENT, Stranger, WASM_CONFIG, WASM_LAYER, access, babble, good_manifest, manifest, now, say};
use volhost_registry::pull::PullError;
use volhost_registry::{Access, Credentials, Digest, PulledPlugin, SessionError, TransportError, pull};

/// A loaded machine answers within it; no test waits for it to pass.
const TIMEOUT: Duration = Duration::from_secs(60);
/// More than any plugin of these tests has.
const LIMIT: u64 = 1 << 20;

fn try_pull(stranger: &Stranger, rest: &str) -> Result<PulledPlugin, PullError> {
    now(pull(&access(TIMEOUT), &stranger.reference(rest), LIMIT, &|_| {}))
}

/// A registry that is as it should be, but for the manifest and the blob.
fn serve(manifest: String, blob: &'static [u8]) -> Stranger {
    Stranger::start(move |asked, stream| match asked.line.as_str() {
        line if line.contains("/referrers/") || line.contains("manifests/sha256-") => {
            say(stream, "404 Not Found", &[], b"")
        }
        line if line.contains("/manifests/") => say(stream, "200 OK", &[], manifest.as_bytes()),
        _ => say(stream, "200 OK", &[], blob),
    })
}

fn session(error: PullError) -> SessionError {
    match error {
        PullError::Session(error) => error,
        other => panic!("{other}"),
    }
}

fn transport(error: PullError) -> TransportError {
    match session(error) {
        SessionError::Transport(error) => error,
        other => panic!("{other}"),
    }
}

#[test]
fn what_is_as_its_manifest_says_is_pulled_whatever_title_it_suggests() {
    let pulled = try_pull(&serve(good_manifest(), COMPONENT), "acme/archive:1").unwrap();
    assert_eq!(pulled.component, COMPONENT);
    assert_eq!(pulled.digest, Digest::of(good_manifest().as_bytes()));
    assert_eq!(pulled.signature, None);
}

#[test]
fn content_that_does_not_fit_its_digest_is_refused() {
    let other: &'static [u8] = b"\0asm\x0d\0\x01\0 and what a plugin hax";
    assert_eq!(other.len(), COMPONENT.len());
    let error = try_pull(&serve(good_manifest(), other), "a:1").unwrap_err();
    assert!(matches!(&error, PullError::Digest { what: "the component", .. }), "{error}");
    let error = try_pull(&serve(good_manifest(), &other[..9]), "a:1").unwrap_err();
    assert!(matches!(error, PullError::Size { found: 9, .. }), "{error}");
    let error = try_pull(&serve(good_manifest(), COMPONENT), &format!("a@{}", Digest::of(b"another"))).unwrap_err();
    assert!(matches!(error, PullError::Digest { by: "the reference", .. }), "{error}");
    let liar = Stranger::start(|_, stream| {
        let digest = Digest::of(b"another");
        say(stream, "200 OK", &[("docker-content-digest", digest.as_str())], good_manifest().as_bytes());
    });
    let error = try_pull(&liar, "a:1").unwrap_err();
    assert!(matches!(error, PullError::Digest { by: "the registry", .. }), "{error}");
}

#[test]
fn an_answer_without_an_end_is_cut_off() {
    let endless = Stranger::start(|_, stream| babble(stream, ""));
    assert!(matches!(transport(try_pull(&endless, "a:1").unwrap_err()), TransportError::TooLarge { .. }));
    let endless = Stranger::start(|asked, stream| match asked.line.contains("/manifests/") {
        true => say(stream, "200 OK", &[], good_manifest().as_bytes()),
        false => babble(stream, ""),
    });
    assert!(matches!(transport(try_pull(&endless, "a:1").unwrap_err()), TransportError::TooLarge { .. }));
    let headers = Stranger::start(|_, stream| babble(stream, "x-long: "));
    assert!(matches!(transport(try_pull(&headers, "a:1").unwrap_err()), TransportError::Http { .. }));
}

#[test]
fn what_is_announced_too_large_is_not_begun() {
    let manifest_of_ten = Stranger::start(|_, stream| babble(stream, "content-length: 10000000\r\n"));
    assert!(matches!(transport(try_pull(&manifest_of_ten, "a:1").unwrap_err()), TransportError::TooLarge { .. }));
    let huge = serve(manifest(WASM_CONFIG, &[(WASM_LAYER, Digest::of(b"").as_str(), LIMIT + 1)]), b"");
    assert!(matches!(try_pull(&huge, "a:1").unwrap_err(), PullError::TooLarge { .. }));
    assert_eq!(huge.asked().len(), 1, "the layer was asked for");
}

#[test]
fn a_server_that_says_nothing_is_left() {
    let silent = Stranger::start(|_, stream| {
        let _ = stream.read(&mut [0]);
    });
    let idle_timeout = Duration::from_millis(50);
    let error = now(pull(&access(idle_timeout), &silent.reference("a:1"), LIMIT, &|_| {})).unwrap_err();
    assert!(matches!(transport(error), TransportError::Silent { .. }));
}

#[test]
fn redirects_end_and_lead_to_no_unprotected_place() {
    let circle = Stranger::start(|asked, stream| {
        let path = asked.line.split(' ').nth(1).unwrap();
        say(stream, "307 Temporary Redirect", &[("location", path)], b"");
    });
    assert!(matches!(session(try_pull(&circle, "a:1").unwrap_err()), SessionError::Redirects { .. }));
    assert_eq!(circle.asked().len(), 6);
    for (to, refused) in [
        ("http://registry.example/x", true),
        ("file:///etc/passwd", false),
        ("", false),
        ("//x", false),
        ("http://u:p@127.0.0.1/", false),
    ] {
        let astray = Stranger::start(move |_, stream| say(stream, "302 Found", &[("location", to)], b""));
        let error = session(try_pull(&astray, "a:1").unwrap_err());
        let unprotected = matches!(error, SessionError::Transport(TransportError::Unprotected { .. }));
        assert_eq!(unprotected, refused, "{to}: {error}");
        assert_eq!(astray.asked().len(), 1, "{to}");
    }
}

#[test]
fn only_the_registry_is_told_who_we_are() {
    let storage = Stranger::start(|_, stream| say(stream, "200 OK", &[], COMPONENT));
    let place = format!("http://localhost:{}/blob", storage.address.port());
    let registry = Stranger::start(move |asked, stream| match asked {
        Asked { authorization: None, .. } => {
            say(stream, "401 Unauthorized", &[("www-authenticate", "Basic realm=\"r\"")], b"")
        }
        Asked { line, .. } if line.contains("/blobs/") => {
            say(stream, "307 Temporary Redirect", &[("location", &place)], b"")
        }
        Asked { line, .. } if line.ends_with("/manifests/1") => say(stream, "200 OK", &[], good_manifest().as_bytes()),
        _ => say(stream, "404 Not Found", &[], b""),
    });
    let access = Access { credentials: Some(Credentials::new("me", "open")), ..access(TIMEOUT) };
    let pulled = now(pull(&access, &registry.reference("a:1"), LIMIT, &|_| {})).unwrap();
    assert_eq!(pulled.component, COMPONENT);
    let sent: Vec<_> = storage.asked().into_iter().map(|asked| asked.authorization).collect();
    assert_eq!(sent, [None]);
}

fn challenge(stream: &mut TcpStream, how: &str) {
    say(
        stream,
        "401 Unauthorized",
        &[("www-authenticate", how)],
        b"{\"errors\":[{\"code\":\"UNAUTHORIZED\",\"message\":\"no\\u001b[2J\"}]}",
    );
}

#[test]
fn whoever_asks_for_a_login_again_and_again_is_asked_twice() {
    let access = Access { credentials: Some(Credentials::new("me", "open sesame")), ..access(TIMEOUT) };
    let basic = Stranger::start(|_, stream| challenge(stream, "Basic realm=\"r\""));
    let error = now(pull(&access, &basic.reference("a:1"), LIMIT, &|_| {})).unwrap_err();
    let text = error.to_string();
    assert!(matches!(session(error), SessionError::Denied { .. }), "{text}");
    assert!(text.contains("UNAUTHORIZED no") && !text.contains(['\u{1b}']) && !text.contains("sesame"), "{text}");
    assert_eq!(basic.asked().len(), 2);

    let bearer = Stranger::start(|asked, stream| match asked.line.starts_with("GET /token?") {
        true => say(stream, "200 OK", &[], b"{\"token\":\"t0k3n\"}"),
        false => {
            challenge(stream, &format!("Bearer realm=\"http://{}/token\",service=\"s\"", stream.local_addr().unwrap()))
        }
    });
    let error = now(pull(&access, &bearer.reference("acme/a:1"), LIMIT, &|_| {})).unwrap_err();
    assert!(matches!(session(error), SessionError::Denied { .. }));
    let asked = bearer.asked();
    assert_eq!(asked.len(), 3);
    assert_eq!(asked[1].line, "GET /token?scope=repository:acme/a:pull&service=s");
    assert_eq!(asked[2].authorization.as_deref(), Some("Bearer t0k3n"));
}

#[test]
fn a_login_is_given_to_no_strange_place_and_in_no_strange_way() {
    let access = Access { credentials: Some(Credentials::new("me", "open sesame")), ..access(TIMEOUT) };
    let ask = |how: &'static str| {
        let stranger = Stranger::start(move |_, stream| challenge(stream, how));
        session(now(pull(&access, &stranger.reference("a:1"), LIMIT, &|_| {})).unwrap_err())
    };
    assert!(matches!(
        ask("Bearer realm=\"http://registry.example/token\""),
        SessionError::Transport(TransportError::Unprotected { .. })
    ));
    for how in ["Negotiate", "Bearer service=\"s\"", "Bearer realm=\"\"", "Bearer realm=\"not an address\""] {
        let error = ask(how);
        assert!(!matches!(error, SessionError::Denied { .. }), "{how}: {error}");
    }
    let nobody = Stranger::start(|_, stream| challenge(stream, "Basic realm=\"r\""));
    let error = session(try_pull(&nobody, "a:1").unwrap_err());
    assert!(matches!(error, SessionError::LoginNeeded { .. }), "{error}");
}

#[test]
fn what_is_no_plugin_is_told_for_what_it_is() {
    let digest = Digest::of(COMPONENT);
    let (digest, size) = (digest.as_str(), COMPONENT.len() as u64);
    let text = |manifest: String, blob: &'static [u8]| try_pull(&serve(manifest, blob), "a:1").unwrap_err().to_string();
    let layer = (WASM_LAYER, digest, size);
    let image = text(manifest("application/vnd.oci.image.config.v1+json", &[layer]), COMPONENT);
    assert!(image.contains("application/vnd.oci.image.config.v1+json"), "{image}");
    assert!(text(manifest(WASM_CONFIG, &[layer, layer]), COMPONENT).contains("2 layers"));
    assert!(text(manifest(WASM_CONFIG, &[]), COMPONENT).contains("0 layers"));
    assert!(text(manifest(WASM_CONFIG, &[("text/plain", digest, size)]), COMPONENT).contains("text/plain"));
    assert!(text("{}".to_owned(), b"").contains("the manifest cannot be read"));
    assert!(text("[".repeat(100_000), b"").contains("the manifest cannot be read"));
    let core: &'static [u8] = b"\0asm\x01\0\0\0";
    let of_core = manifest(WASM_CONFIG, &[(WASM_LAYER, Digest::of(core).as_str(), core.len() as u64)]);
    assert!(text(of_core, core).contains("no WebAssembly component"));
    let index = Stranger::start(|_, stream| {
        say(stream, "200 OK", &[("content-type", "application/vnd.oci.image.index.v1+json")], b"{}")
    });
    assert!(try_pull(&index, "a:1").unwrap_err().to_string().contains("list of several"));
}

#[test]
fn a_digest_that_is_a_path_is_not_asked_for() {
    let astray = serve(manifest(WASM_CONFIG, &[(WASM_LAYER, "sha256:../../../v2/other/blobs/x", 5)]), COMPONENT);
    let error = try_pull(&astray, "a:1").unwrap_err();
    assert!(matches!(error, PullError::Digest { .. }), "{error}");
    assert_eq!(astray.asked().len(), 1);
}

#[test]
fn a_signature_that_is_changed_or_too_large_is_none() {
    const KIND: &str = "application/vnd.volhost.minisign.v1";
    let signed = |size: u64, blob: &'static [u8]| {
        let of_signature = manifest("application/vnd.oci.empty.v1+json", &[(KIND, Digest::of(b"good").as_str(), size)]);
        let referrer = Digest::of(of_signature.as_bytes());
        let index = format!(
            r#"{{"schemaVersion":2,"manifests":[7,{{"mediaType":"application/vnd.oci.image.manifest.v1+json","artifactType":"{KIND}","digest":"{referrer}","size":9}}]}}"#
        );
        Stranger::start(move |asked, stream| match asked.line.as_str() {
            line if line.contains("/referrers/") => say(stream, "200 OK", &[], index.as_bytes()),
            line if line.ends_with(referrer.as_str()) => say(stream, "200 OK", &[], of_signature.as_bytes()),
            line if line.contains("/manifests/") => say(stream, "200 OK", &[], good_manifest().as_bytes()),
            line if line.ends_with(Digest::of(COMPONENT).as_str()) => say(stream, "200 OK", &[], COMPONENT),
            _ => say(stream, "200 OK", &[], blob),
        })
    };
    assert_eq!(try_pull(&signed(4, b"good"), "a:1").unwrap().signature.as_deref(), Some(&b"good"[..]));
    let error = try_pull(&signed(4, b"evil"), "a:1").unwrap_err();
    assert!(matches!(error, PullError::Digest { what: "the signature", .. }), "{error}");
    let error = try_pull(&signed(1 << 30, b"good"), "a:1").unwrap_err();
    assert!(matches!(error, PullError::Size { what: "the signature", .. }), "{error}");
}

#[test]
fn words_of_a_refusal_move_no_cursor() {
    let rude = Stranger::start(|_, stream| {
        say(stream, "500 Oh", &[], "\u{1b}]0;gone\u{7} and \n more".repeat(100).as_bytes())
    });
    let text = try_pull(&rude, "a:1").unwrap_err().to_string();
    assert!(text.contains("500") && text.len() < 600 && !text.contains(char::is_control), "{text}");
}
