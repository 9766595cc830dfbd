//! The Listwatch server: a versioned object store with List and Watch over gRPC.

pub mod clock;
pub mod hub;
pub mod limits;
pub mod selector;
pub mod store;
