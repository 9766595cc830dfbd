//! The Listwatch server.
