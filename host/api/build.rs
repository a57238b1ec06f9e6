//! Generates the Rust code of the API. Protox compiles the file, so `protoc` is not needed.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let file = "../../proto/volhost.proto";
    println!("cargo::rerun-if-changed={file}");
    let descriptors = protox::compile([file], ["../../proto"])?;
    tonic_prost_build::configure().compile_fds(descriptors)?;
    Ok(())
}
