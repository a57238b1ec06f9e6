//! The container image of the programs under test, as `make image` makes it.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use volhost_tests::artifacts::{self, workspace};

/// The archive of the image. The first test that asks for it makes it.
pub(crate) fn image() -> PathBuf {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    MADE.get_or_init(make).clone()
}

fn make() -> PathBuf {
    let built = artifacts::volhost();
    let from = built.parent().unwrap();
    let mut command = Command::new(workspace().join("deploy/image.sh"));
    let out = from.parent().unwrap().join("image");
    let output = command.arg("--fast").arg("--from").arg(from).arg("--out").arg(&out).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().into()
}
