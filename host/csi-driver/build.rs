//! Generates Rust code from `proto/`. Compiled by protox: no `protoc` is needed.

use std::error::Error;

const FOLDER: &str = "../../proto";
const PROTOS: [&str; 2] = ["../../proto/pluginregistration.proto", "../../proto/csi.proto"];

fn main() -> Result<(), Box<dyn Error>> {
    for proto in PROTOS {
        println!("cargo::rerun-if-changed={proto}");
        let descriptors = protox::compile([proto], [FOLDER])?;
        // A call that a driver does not have is answered as not implemented.
        tonic_prost_build::configure().generate_default_stubs(true).compile_fds(descriptors)?;
    }
    Ok(())
}
