//! The Listwatch API, generated from `proto/listwatch/v1/listwatch.proto`.
//!
//! This crate holds the protobuf messages and the gRPC stubs and nothing else.
//! Programs that want to *use* Listwatch from Rust start with the
//! `listwatch-client` crate (typed calls, watcher, reflector); programs that want to
//! embed the server start with `listwatch-server`.

/// Version 1 of the API.
// What a comment in the .proto would only repeat has none.
#[allow(clippy::all, missing_docs)]
pub mod v1 {
    tonic::include_proto!("listwatch.v1");

    /// The encoded `FileDescriptorSet` of the API, for gRPC reflection.
    pub const FILE_DESCRIPTOR_SET: &[u8] =
        include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
}

/// `ErrorInfo.domain` of every error that Listwatch itself raises.
pub const ERROR_DOMAIN: &str = "listwatch";
