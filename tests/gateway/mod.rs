//! Kubernetes' wire format over the same store.

mod bad_input;
mod client;
mod deletions;
mod discovery;
mod kubectl;
mod lists;
mod objects;
mod patches;
mod selectors;
mod watches;
