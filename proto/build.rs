//! Generates the Rust code. Protox compiles the files, so `protoc` is not needed.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    // A driver lacks most calls of these: the stubs answer "not implemented".
    for file in ["pluginregistration.proto", "csi.proto"] {
        println!("cargo::rerun-if-changed={file}");
        let descriptors = protox::compile([file], ["."])?;
        tonic_prost_build::configure().generate_default_stubs(true).compile_fds(descriptors)?;
    }
    Ok(())
}
