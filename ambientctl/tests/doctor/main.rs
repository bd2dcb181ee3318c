//! `ambientctl doctor` on real parts: each fault is made, found, mended as the remedy says, and gone.
//!
//! The bucket is a server that checks signatures and takes rights away; PostgreSQL and Redis are real; E2B's control plane is a
//! stand-in on the protocol's own types, since the real one is a cloud.

mod bucket;
mod e2b;
mod files;
mod lab;
mod model;
mod models;
mod output;
mod postgres;
mod sandboxes;
mod stores;
mod troubleshooting;
