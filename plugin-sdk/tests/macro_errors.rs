//! What an author is told whose plugin does not compile. Each file of `tests/errors` is such a plugin; its first lines say what must be
//! among the compiler's words. Only our own words are compared: the rest is the compiler's, and changes with it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "tests may panic"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What stands before words that the compiler must say.
const SAYS: &str = "// says: ";

/// Where cargo has put the SDK and this test.
fn libraries() -> PathBuf {
    std::env::current_exe().unwrap().parent().unwrap().to_owned()
}

/// The SDK as this test uses it: the one that was compiled last.
fn sdk() -> PathBuf {
    let is_sdk = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy();
        name.starts_with("libvolhost_plugin_sdk-") && name.ends_with(".rlib")
    };
    let files = fs::read_dir(libraries()).unwrap().map(|entry| entry.unwrap().path()).filter(is_sdk);
    files.max_by_key(|path| fs::metadata(path).unwrap().modified().unwrap()).expect("cargo has built the SDK")
}

/// Whether it compiles, and what the compiler says.
fn compile(source: &Path) -> (bool, String) {
    let folder = tempfile::tempdir().unwrap();
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let mut sdk_is = std::ffi::OsString::from("volhost_plugin_sdk=");
    sdk_is.push(sdk());
    let mut libraries_are = std::ffi::OsString::from("dependency=");
    libraries_are.push(libraries());
    let output = Command::new(rustc)
        .args(["--edition", "2024", "--emit", "metadata", "--color", "never", "-A", "warnings", "--extern"])
        .arg(sdk_is)
        .arg("-L")
        .arg(libraries_are)
        .arg("--out-dir")
        .arg(folder.path())
        .arg(source)
        .output()
        .expect("rustc runs");
    (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn errors_say_what_is_wrong_in_words_of_plugins() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/errors");
    let mut wrong = Vec::new();
    let mut seen = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let source = fs::read_to_string(&path).unwrap();
        let expected: Vec<&str> = source.lines().filter_map(|line| line.strip_prefix(SAYS)).collect();
        assert!(!expected.is_empty(), "{} expects nothing", path.display());
        let (compiled, words) = compile(&path);
        seen += 1;
        let missing: Vec<_> = expected.into_iter().filter(|line| !words.contains(line)).collect();
        if compiled || !missing.is_empty() {
            wrong.push(format!("{}: not said: {missing:#?}; said:\n{words}", path.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(seen >= 8, "only {seen} files");
}

#[test]
fn a_plugin_that_is_right_compiles_the_same_way() {
    let folder = tempfile::tempdir().unwrap();
    let source =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/errors/misspelt_capability.rs")).unwrap();
    let path = folder.path().join("right.rs");
    fs::write(&path, source.replace(", Atacher", "")).unwrap();
    let (compiled, words) = compile(&path);
    assert!(compiled, "{words}");
}
