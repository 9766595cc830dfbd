//! The Listwatch client.
