//! Generates the API's Rust code from `proto/volhost.proto`. Compiled by protox: no `protoc` is needed.

use std::error::Error;

const PROTO: &str = "../../proto/volhost.proto";
const INCLUDE: &str = "../../proto";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={PROTO}");
    let descriptors = protox::compile([PROTO], [INCLUDE])?;
    tonic_prost_build::configure().compile_fds(descriptors)?;
    Ok(())
}
