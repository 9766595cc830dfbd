//! Kubernetes' wire format over the same store.

mod bad_input;
mod client;
mod client_go;
mod declared_kinds;
mod defined_fields;
mod deletions;
mod discovery;
mod informers;
mod kube_rs;
mod kubectl;
mod lists;
mod node;
mod objects;
mod patches;
mod protobuf;
mod python;
mod relay;
mod scale;
mod selectors;
mod watches;
