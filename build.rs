//! Compiles `proto/` with protox, so that no `protoc` is needed on the machine.

use std::{env, fs, path::PathBuf};

use prost::Message as _;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    const PROTO: &str = "proto/listwatch/v1/listwatch.proto";
    println!("cargo:rerun-if-changed=proto");

    let descriptors = protox::compile([PROTO], ["proto"])?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("descriptors.bin"), descriptors.encode_to_vec())?;

    tonic_prost_build::configure()
        // Stubs over any tower service: the transport is the user's choice, and this crate compiles alone.
        .build_transport(false)
        // Values and encoded events are shared between watchers, never copied.
        .bytes(".")
        // Sorted labels: equal objects have equal bytes.
        .btree_map(".")
        .compile_fds(descriptors)?;
    Ok(())
}
