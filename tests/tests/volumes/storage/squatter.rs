//! A process that keeps a mount busy.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Stdio};

use volhost_tests::Node;

/// A process with its working folder in a folder of the node. Dropping it ends it.
pub(crate) struct Squatter(Child);

impl Squatter {
    /// Returns once it is there. It ends by itself when its input does.
    pub(crate) fn in_folder(node: &Node, folder: &Path) -> Self {
        let mut child = node
            .inside("sh")
            .args(["-euc", "cd \"$1\"; echo in; exec cat", "sh", folder.to_str().unwrap()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = [0; 3];
        child.stdout.as_mut().unwrap().read_exact(&mut line).unwrap();
        Self(child)
    }
}

impl Drop for Squatter {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
