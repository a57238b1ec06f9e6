//! The command line against a running daemon: what an operator types, and what they read.

mod apply;
mod debug;
mod delete;
mod diff;
mod doctor;
mod explain;
mod get;
mod plan;
mod replay;
mod schema;
mod status;

use std::fs;

use volhost_tests::Node;

/// Writes a file into the node's folder, and returns its path.
fn file(node: &Node, name: &str, text: &str) -> String {
    let path = node.folder().join(name);
    fs::write(&path, text).unwrap();
    path.display().to_string()
}
