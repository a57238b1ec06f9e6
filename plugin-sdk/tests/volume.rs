//! Checks the getters of a volume's fields, and their errors.

use volhost_plugin_sdk::prelude::*;
use volhost_plugin_sdk::testing::TestVolume;

fn share() -> TestVolume {
    Volume::builder("share")
}

fn said<T: std::fmt::Debug>(result: Result<T>) -> String {
    match result.expect_err("it was accepted") {
        Error::InvalidArgument(text) => text,
        other => panic!("another case: {other:?}"),
    }
}

#[test]
fn a_present_field_is_read_as_its_type() {
    let volume = share()
        .field("server", "s1")
        .field("size", "1Ki")
        .field("port", 2049)
        .field("soft", true)
        .field("mode", "fast")
        .field("path", "/export");
    let volume = volume.handle();
    assert_eq!(volume.required("server").unwrap(), "s1");
    assert_eq!(volume.bytes("size").unwrap(), Some(1024));
    assert_eq!(volume.integer("port").unwrap(), Some(2049));
    assert_eq!(volume.boolean("soft").unwrap(), Some(true));
    assert_eq!(volume.one_of("mode", &[("slow", 1), ("fast", 2)]).unwrap(), Some(2));
    assert_eq!(volume.absolute_path("path").unwrap(), "/export");
    assert_eq!(volume.fields(), ["mode", "path", "port", "server", "size", "soft"]);
}

#[test]
fn an_absent_field_is_none_and_only_missed_where_required() {
    let volume = share();
    let volume = volume.handle();
    assert_eq!(volume.string("x"), None);
    assert_eq!(volume.bytes("x").unwrap(), None);
    assert_eq!(volume.integer("x").unwrap(), None);
    assert_eq!(volume.boolean("x").unwrap(), None);
    assert_eq!(volume.one_of("x", &[("a", ())]).unwrap(), None);
    assert_eq!(said(volume.required("x")), "share.x: is missing, and required");
    assert_eq!(said(volume.absolute_path("x")), "share.x: is missing, and required");
}

#[test]
fn a_wrong_field_is_named_by_its_whole_path_with_its_value() {
    let volume = share().field("a.b", "maybe").field("empty", "").field("path", "relative");
    let volume = volume.handle();
    assert_eq!(said(volume.boolean("a.b")), r#"share.a.b: "maybe" is not known. Known: "true", "false""#);
    assert_eq!(said(volume.integer("a.b")), r#"share.a.b: "maybe" is not a whole number"#);
    assert!(said(volume.bytes("a.b")).starts_with(r#"share.a.b: "maybe" is not a quantity"#));
    assert_eq!(said(volume.required("empty")), "share.empty: must not be empty");
    assert_eq!(said(volume.absolute_path("path")), r#"share.path: "relative" must be an absolute path"#);
}

#[test]
fn a_field_of_one_driver_is_named_without_the_driver() {
    let volume = Volume::builder("csi:example.com").field("fsType", "");
    assert_eq!(said(volume.handle().required("fsType")), "csi.fsType: must not be empty");
}

#[test]
fn an_unknown_field_is_refused_and_the_nearest_named() {
    let volume = share().field("server", "s1").field("sever.name", "s2");
    assert_eq!(
        said(volume.handle().known_fields(&["server", "path"])),
        "share.sever: no such field; did you mean server? Known: server, path"
    );
    assert_eq!(said(volume.handle().known_fields(&[])), "share.server: no such field. Known: none");
    volume.handle().known_fields(&["server", "sever"]).unwrap();
}

#[test]
fn a_value_of_ten_thousand_letters_does_not_fill_the_message() {
    let volume = share().field("size", "9".repeat(10_000)).field("mode", "x\n".repeat(5_000));
    for text in [said(volume.handle().bytes("size")), said(volume.handle().boolean("mode"))] {
        assert!(text.len() < 700 && !text.contains('\n'), "{text}");
    }
}
