//! The Listwatch client: list once, then watch every change.
//!
//! Three layers, each built on the one before:
//!
//! - [`Client`]: typed calls with deadlines, bounded retries and errors that say what to do.
//! - [`watcher()`]: a stream of [`Event`]s that goes on by itself. It reconnects, resumes from
//!   its last bookmark, backs off, notices silence, and starts over when history is gone.
//! - [`reflector()`]: a copy of what a selector matches that is always a consistent snapshot,
//!   with indexes, handlers and a saved state.
//!
//! ```no_run
//! use std::time::Duration;
//! use listwatch_client::{Client, Codec, ObjectKey, Select, WatchOptions, reflector};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::connect("127.0.0.1:7450").await?;
//! let pods = reflector(client, WatchOptions::new(Select::all("pods")), Codec::<serde_json::Value>::json())
//!     .index("node", |pod| pod.value()["spec"]["nodeName"].as_str().map(String::from).into_iter().collect())
//!     .spawn();
//! let snapshot = pods.wait_until_ready(Duration::from_secs(60)).await?;
//! println!("{} pods, {} of them on n1", snapshot.len(), snapshot.indexed("node", "n1").count());
//! println!("{:?}", pods.get(&ObjectKey::new("default", "web-1")));
//! # Ok(())
//! # }
//! ```
//!
//! # What it is not
//!
//! A reflector holds everything that its selector matches in memory. It is no cache for
//! single reads of large collections: for those there are [`Client::get`] and
//! [`Client::list_all`]. It does not write; write with the client and, to read what was
//! written, wait with [`reflector::Reader::wait_for_revision`]. There is no TLS yet.

pub mod backoff;
pub mod bench;
pub mod cli;
pub mod client;
pub mod compare;
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
