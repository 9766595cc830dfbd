//! Kubernetes' wire format over the same store.

mod bad_input;
mod client;
mod deletions;
mod lists;
mod objects;
mod selectors;
mod watches;
