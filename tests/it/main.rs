//! The shipped binary as an operator meets it: one module a journey.

mod binary;
mod commands;
mod media;
mod serve;
mod settings;
