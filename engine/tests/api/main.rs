//! The HTTP surface over a real socket, with a real SQLite file, the in-process broker and real ffmpeg. Only the model is
//! a script: a run that answers with what it was asked, and one that waits until it is stopped.

mod agents;
mod basics;
mod environments;
mod events;
mod files;
mod fuzz;
mod sessions;
mod support;
