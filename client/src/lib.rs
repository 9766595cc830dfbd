//! The Listwatch client.

pub mod backoff;
pub mod cli;
pub mod client;
pub mod connect;
pub mod error;
pub mod list;
pub mod reflector;
mod retry;
pub mod select;
pub mod watcher;

pub use client::{Client, ResponseStream};
pub use connect::ClientBuilder;
pub use error::{ClientError, Failure};
pub use list::{Listing, Pages};
pub use listwatch::v1;
pub use reflector::{Codec, Notice, Obj, ObjectKey, Persistence, Reflector, Snapshot, reflector};
pub use select::{Select, key};
pub use watcher::{Event, WatchOptions, Watcher, watcher};
