use std::path::Path;

use volhost_kernel::{KernelError, Payload, PayloadFile};

use super::{House, World, name};

fn payload(paths: &[&str]) -> Payload {
    let files = paths.iter().map(|path| PayloadFile::new(*path, *b"x", 0o644)).collect();
    Payload { files, ..Payload::default() }
}

pub fn a_payload_with_a_bad_path_is_refused_and_changes_nothing(world: &dyn World) {
    let house = House::new(world);
    world.add_folder(&house.at("volume"));
    let long_name = "n".repeat(256);
    let long_path = "p/".repeat(2048) + "p";
    // What is wrong, the files, and a part of the message.
    let cases: &[(&str, &[&str], &str)] = &[
        ("empty", &[""], "has a name"),
        ("only a dot", &["."], "has a name"),
        ("absolute", &["/etc/passwd"], "relative"),
        ("`..` at the start", &["../escaped"], "`..`"),
        ("`..` in the middle", &["a/../../escaped"], "`..`"),
        ("`..` that stays inside", &["a/../b"], "`..`"),
        ("`..` at the end", &["a/.."], "`..`"),
        ("only `..`", &[".."], "`..`"),
        ("the protocol's link", &["..data"], "host's own"),
        ("the protocol's temporary", &["..data_tmp/x"], "host's own"),
        ("a hidden name of the protocol's form", &["..sneaky.txt"], "host's own"),
        ("three dots", &["..."], "host's own"),
        ("hidden behind a dot", &["./..sneaky.txt"], "host's own"),
        ("a name of 256 bytes", &[&long_name], "255"),
        ("a path of 4097 bytes", &[&long_path], "4096"),
        ("NUL", &["a\0b"], "NUL"),
        ("the same file twice", &["a", "a"], "two files"),
        ("the same file after cleaning", &["a/b", "a//./b"], "two files"),
        ("a file below a file", &["a", "a/b"], "is a file of the same payload"),
        ("a file above a file", &["a/b/c", "a/b"], "a file and a folder"),
        ("a good one beside a bad one", &["good", "/bad"], "relative"),
    ];
    for (case, paths, expected) in cases {
        let error = house.kernel.publish_payload(&house.root, name("volume"), &payload(paths)).unwrap_err();
        assert!(matches!(error, KernelError::InvalidPath { .. }), "{case}: {error:?}");
        let text = error.to_string();
        assert!(text.contains(expected), "{case}: {text}");
        assert!(text.len() < 300, "{case}: {text}");
        assert!(world.list(&house.at("volume")).is_empty(), "{case}");
    }
    let bad_modes = [
        Payload { folder_mode: 0o10000, ..payload(&["a"]) },
        Payload { owner: Some(u32::MAX), ..payload(&["a"]) },
        Payload { group: Some(u32::MAX), ..payload(&["a"]) },
        Payload { files: vec![PayloadFile::new("a", *b"x", 0o100_644)], ..Payload::default() },
    ];
    for bad in bad_modes {
        let error = house.kernel.publish_payload(&house.root, name("volume"), &bad).unwrap_err();
        assert!(matches!(error, KernelError::InvalidPath { .. }), "{error:?}");
        assert!(world.list(&house.at("volume")).is_empty());
    }
}

pub fn payload_paths_that_are_allowed_are_published(world: &dyn World) {
    let house = House::new(world);
    world.add_folder(&house.at("volume"));
    let long_name = "n".repeat(255);
    // What is asked for, and where it is seen.
    let cases = [
        ("keep_your_head_down.txt", "keep_your_head_down.txt"),
        ("i/am/well/behaved.txt", "i/am/well/behaved.txt"),
        ("a//b/./c", "a/b/c"),
        ("./leading", "leading"),
        (".hidden", ".hidden"),
        ("a/..inner", "a/..inner"),
        ("sp ace\n\u{fc}", "sp ace\n\u{fc}"),
        (&long_name, &long_name),
    ];
    for (path, seen) in cases {
        let published = house.kernel.publish_payload(&house.root, name("volume"), &payload(&[path]));
        assert!(published.unwrap().changed, "{path}");
        assert_eq!(world.read(&house.at("volume").join(Path::new(seen))).unwrap(), b"x", "{path}");
    }
}
