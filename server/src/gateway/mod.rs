//! Kubernetes' wire format over the same store: what can be told without store and network.
#![allow(dead_code)] // Until the requests that use these modules are served.

mod cause;
mod discovery;
mod fields;
mod kinds;
mod labels;
mod media;
mod names;
mod openapi;
mod patch;
mod strict;
mod table;
mod validation;
