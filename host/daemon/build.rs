//! Generates Rust code from `proto/`. Compiled by protox: no `protoc` is needed.

use std::error::Error;

const FOLDER: &str = "../../proto";
const PROTOS: [&str; 1] = ["../../proto/volhost.proto"];

fn main() -> Result<(), Box<dyn Error>> {
    for proto in PROTOS {
        println!("cargo::rerun-if-changed={proto}");
        let descriptors = protox::compile([proto], [FOLDER])?;
        tonic_prost_build::configure().compile_fds(descriptors)?;
    }
    Ok(())
}
