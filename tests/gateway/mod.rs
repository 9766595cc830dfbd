//! Kubernetes' wire format over the same store.

mod bad_input;
mod client;
mod deletions;
mod discovery;
mod kube_rs;
mod kubectl;
mod lists;
mod objects;
mod patches;
mod python;
mod relay;
mod selectors;
mod watches;
