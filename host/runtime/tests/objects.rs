//! Objects and files: what a plugin may open, what it may show, and what is said of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::common::guest::Guest;
use crate::common::host::{Host, pod, spec};
use volhost_model::FailureClass;
use volhost_model::objects::KeyedObject;
use volhost_runtime::{CallError, ErrorCase, GrantPolicy};

const OPEN_SECRET: &str =
    r#"(import "volhost:plugin/secrets@V" "open" (func $open_secret (param i32 i32 i32 i32 i32)))"#;
const OPEN_MAP: &str = r#"(import "volhost:plugin/config-maps@V" "open" (func $open_map (param i32 i32 i32 i32 i32)))"#;
const CONTENT: &str =
    r#"(import "volhost:plugin/secrets@V" "[method]secret.content" (func $content (param i32 i32 i32 i32)))"#;
const NEW_PAYLOAD: &str = r#"(import "volhost:plugin/files@V" "[constructor]payload" (func $payload (result i32)))"#;
const ADD: &str =
    r#"(import "volhost:plugin/files@V" "[method]payload.add" (func $add (param i32 i32 i32 i32 i32 i32 i32)))"#;
const ADD_CONTENT: &str = r#"(import "volhost:plugin/files@V" "[method]payload.add-content" (func $add_content (param i32 i32 i32 i32 i32 i32)))"#;
const PUBLISH: &str =
    r#"(import "volhost:plugin/files@V" "[method]payload.publish" (func $replace_files (param i32 i32 i32)))"#;
const MAKE_FOLDER: &str = r#"(import "volhost:plugin/mounts@V" "[method]mount-target.make-folder" (func $make_folder (param i32 i32 i32 i32 i32)))"#;

/// Opens the secret `db`, puts its key `pin` into the file `pin`, and shows it.
const SHOW_SECRET: &str = "(local $secret i32) (local $payload i32)
    (call $open_secret (local.get $volume) (local.get $pod) {db} (global.get $answer))
    (if (i32.load8_u (global.get $answer)) (then (return (global.get $answer))))
    (local.set $secret (i32.load offset=4 (global.get $answer)))
    (call $content (local.get $secret) {pin} (global.get $answer))
    (if (i32.eqz (i32.load8_u (global.get $answer))) (then (return (call $err (i32.const 1) {no pin}))))
    (local.set $payload (call $payload))
    (call $add_content (local.get $payload) {pin} (i32.load offset=4 (global.get $answer)) (i32.const 256) (global.get $answer))
    (if (i32.load8_u (global.get $answer)) (then (return (global.get $answer))))
    (call $make_folder (local.get $target) (i32.const 448) (i32.const 0) (i32.const 0) (global.get $answer))
    (call $replace_files (local.get $payload) (local.get $target) (global.get $answer))
    (if (i32.load8_u (global.get $answer)) (then (return (global.get $answer))))
    (call $ok)";

fn granting(interfaces: &str) -> Host {
    let text = format!("[\"test.io/guest\"]\ninterfaces = [{interfaces}]");
    Host::with(|config| config.grants = toml::from_str::<GrantPolicy>(&text).unwrap())
}

fn with_secret(host: &Host) {
    let data = BTreeMap::from([("pin".to_owned(), Arc::from(&b"hush-1234"[..]))]);
    host.objects.secrets.lock().unwrap().insert("ns/db".to_owned(), KeyedObject::new(data));
}

fn show_secret() -> Guest {
    Guest::setting_up(SHOW_SECRET, &[OPEN_SECRET, CONTENT, NEW_PAYLOAD, ADD_CONTENT, PUBLISH, MAKE_FOLDER])
}

fn publish(host: &Host, guest: &Guest, fields: serde_json::Value) -> Result<(), CallError> {
    host.load(guest).publish(&host.call(), &spec(fields), &pod(), host.target("v")).map(drop)
}

#[test]
fn each_kind_of_object_takes_a_grant_of_its_own() {
    let host = granting("\"config-maps\", \"files\"");
    let text = host.try_load(&show_secret()).unwrap_err().message();
    assert!(text.contains("secrets"), "{text}");
    let host = granting("\"secrets\"");
    let text = host.try_load(&show_secret()).unwrap_err().message();
    assert!(text.contains("files"), "{text}");
    granting("\"secrets\", \"files\"").load(&show_secret());
}

#[test]
fn a_secret_goes_into_the_file_and_the_log_says_that_it_was_used_and_not_its_value() {
    let host = granting("\"secrets\", \"files\"");
    with_secret(&host);
    publish(&host, &show_secret(), serde_json::json!({"secretName": "db"})).unwrap();
    let lines = host.lines();
    assert!(lines.iter().any(|(_, line)| line == "audit: secret ns/db was used, 1 of its keys"), "{lines:?}");
    assert!(!format!("{lines:?} {:?}", host.objects).contains("hush"), "{lines:?}");
}

#[test]
fn an_object_that_the_volume_does_not_name_is_not_opened() {
    let host = granting("\"secrets\", \"files\"");
    with_secret(&host);
    for fields in [serde_json::json!({}), serde_json::json!({"secretName": "dbx", "db": {"x": ["d"]}})] {
        let error = publish(&host, &show_secret(), fields).unwrap_err();
        let CallError::Plugin(error) = &error else { panic!("{error}") };
        assert_eq!(error.case, ErrorCase::PermissionDenied, "{error}");
    }
    assert!(host.lines().is_empty(), "nothing was used");
}

#[test]
fn what_is_missing_is_said_and_final() {
    let host = granting("\"config-maps\"");
    let body = "(call $open_map (local.get $volume) (local.get $pod) {app} (global.get $answer)) (global.get $answer)";
    let error = publish(&host, &Guest::setting_up(body, &[OPEN_MAP]), serde_json::json!({"name": "app"})).unwrap_err();
    assert_eq!(error.class(), FailureClass::Final);
    let CallError::Plugin(error) = &error else { panic!("{error}") };
    assert_eq!((&error.case, error.message.as_str()), (&ErrorCase::NotFound, "there is no ns/app"));
}

#[test]
fn files_are_bounded_in_mode_number_and_size() {
    let body = |mode: u32, length: u32, times: u32| {
        format!(
            "(local $payload i32) (local $n i32)
            (local.set $payload (call $payload))
            (loop $again
                (i32.store8 (i32.const 1024) (i32.add (i32.const 65) (local.get $n)))
                (call $add (local.get $payload) (i32.const 1024) (i32.const 1) (i32.const 2048) (i32.const {length})
                    (i32.const {mode}) (global.get $answer))
                (if (i32.load8_u (global.get $answer)) (then (return (global.get $answer))))
                (local.set $n (i32.add (local.get $n) (i32.const 1)))
                (br_if $again (i32.lt_u (local.get $n) (i32.const {times}))))
            (call $err (i32.const 5) {{all were taken}})"
        )
    };
    for (mode, length, times, words) in [
        (0o1000, 1, 1, "1000 is no mode of a file"),
        (0o644, 1000, 3, "more than 0 MiB together"),
        (0o644, 1, 6, "more than 5 files"),
        (0o777, 100, 5, "all were taken"),
    ] {
        let text = "[\"test.io/guest\"]\ninterfaces = [\"files\"]";
        let host = Host::with(|config| {
            config.grants = toml::from_str(text).unwrap();
            (config.limits.payload_bytes, config.limits.payload_files) = (2500, 5);
        });
        let guest = Guest::setting_up(&body(mode, length, times), &[NEW_PAYLOAD, ADD]);
        let error = publish(&host, &guest, serde_json::json!({})).unwrap_err().message();
        assert!(error.contains(words), "{words}: {error}");
    }
}

/// Puts the key `pin` of the secret `db` into files, and `length` bytes of the plugin's own into
/// another; then says whether all were taken.
fn showing(files: u32, length: u32) -> Guest {
    let body = format!(
        "(local $secret i32) (local $payload i32) (local $n i32) (local $kept i32)
        (call $open_secret (local.get $volume) (local.get $pod) {{db}} (global.get $answer))
        (local.set $secret (i32.load offset=4 (global.get $answer)))
        (local.set $payload (call $payload))
        (i32.store8 (i32.const 1024) (i32.const 65))
        (call $add (local.get $payload) (i32.const 1024) (i32.const 1) (i32.const 2048) (i32.const {length})
            (i32.const 256) (global.get $answer))
        (if (i32.load8_u (global.get $answer)) (then (return (global.get $answer))))
        (loop $again
            (local.set $n (i32.add (local.get $n) (i32.const 1)))
            (i32.store8 (i32.const 1024) (i32.add (i32.const 65) (local.get $n)))
            (call $content (local.get $secret) {{pin}} (global.get $answer))
            (local.set $kept (i32.load offset=4 (global.get $answer)))
            (call $add_content (local.get $payload) (i32.const 1024) (i32.const 1) (local.get $kept) (i32.const 256) (global.get $answer))
            (if (i32.load8_u (global.get $answer)) (then (return (global.get $answer))))
            (br_if $again (i32.lt_u (local.get $n) (i32.const {files}))))
        (call $err (i32.const 5) {{all were taken}})"
    );
    Guest::setting_up(&body, &[OPEN_SECRET, CONTENT, NEW_PAYLOAD, ADD, ADD_CONTENT])
}

#[test]
fn what_is_refused_says_nothing_of_how_long_a_secret_is() {
    for (files, length, words) in [
        (1, 1000, "all were taken"),
        (1, 1001, "more than 0 MiB together"),
        (8, 1000, "all were taken"),
        (9, 1, "one content can be in 8 files at the most"),
    ] {
        // The limit is 1,000 bytes: the same answer for a secret of one byte and for one that fills
        // it.
        let answers = [1, 999, 1000].map(|secret| {
            let host = Host::with(|config| {
                let text = "[\"test.io/guest\"]\ninterfaces = [\"secrets\", \"files\"]";
                config.grants = toml::from_str::<GrantPolicy>(text).unwrap();
                config.limits.payload_bytes = 1000;
            });
            let data = BTreeMap::from([("pin".to_owned(), Arc::from(vec![b'x'; secret].as_slice()))]);
            host.objects.secrets.lock().unwrap().insert("ns/db".to_owned(), KeyedObject::new(data));
            publish(&host, &showing(files, length), serde_json::json!({"secretName": "db"})).unwrap_err().message()
        });
        assert!(answers.iter().all(|answer| answer.contains(words) && *answer == answers[0]), "{words}: {answers:?}");
    }
}

#[test]
fn no_function_says_how_long_a_secret_is_or_whether_it_changed() {
    let host = granting("\"secrets\", \"files\"");
    let (types, files) = (include_str!("../../../wit/types.wit"), include_str!("../../../wit/files.wit"));
    assert!(types.contains("resource content;") && !files.contains("result<bool"), "{types}{files}");

    // The answer of `publish` is the same for the first time, for the same content again, and for
    // another.
    let mut answers = Vec::new();
    for pin in ["1234", "1234", "9876"] {
        let data = BTreeMap::from([("pin".to_owned(), Arc::from(pin.as_bytes()))]);
        host.objects.secrets.lock().unwrap().insert("ns/db".to_owned(), KeyedObject::new(data));
        let body = SHOW_SECRET.replace(
            "(if (i32.load8_u (global.get $answer)) (then (return (global.get $answer))))\n    (call $ok)",
            "(if (i32.load8_u offset=4 (global.get $answer)) (then (return (call $err (i32.const 5) {changed}))))\n    (call $ok)",
        );
        let guest = Guest::setting_up(&body, &[OPEN_SECRET, CONTENT, NEW_PAYLOAD, ADD_CONTENT, PUBLISH, MAKE_FOLDER]);
        answers.push(publish(&host, &guest, serde_json::json!({"secretName": "db"})).map_err(|error| error.message()));
    }
    assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
}
