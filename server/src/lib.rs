//! The Listwatch server: a versioned object store with List and Watch over gRPC.
//!
//! [`Server::builder`] puts one together: store, listener, limits and shutdown signal are
//! passed in. `listwatchd` is the same with flags in front.

pub mod backup;
pub mod clock;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod gateway;
pub mod hub;
#[cfg(all(test, feature = "interleavings"))]
mod interleavings;
pub mod limits;
pub mod measure;
mod metrics;
mod peer;
mod refusals;
mod seats;
pub mod selector;
mod server;
mod service;
pub mod store;
mod sync;
mod traces;

pub use self::{
    gateway::{DeclarationError, DeclaredKind},
    peer::Peer,
    refusals::{Load, Refusal, Refusals},
    server::{
        ConnectionOptions, InMemoryConnector, Io, Origin, Phase, Server, ServerBuilder,
        ServerError, ServerHandle, ServerOptions, raise_descriptor_limit,
    },
    service::{RequestOptions, ServiceOptions},
    traces::TRACE_TARGET,
};
