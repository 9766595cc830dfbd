//! Compiles the part of etcd's API that the load tool speaks, with protox: the `etcd-client`
//! crate would need protoc on the machine.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto");
    let descriptors = protox::compile(["proto/etcd/rpc.proto"], ["proto"])?;
    tonic_prost_build::configure()
        .build_transport(false)
        .build_server(false)
        // As Listwatch's own stubs are made: the loader's work is the same for both.
        .bytes(".")
        .compile_fds(descriptors)?;
    Ok(())
}
