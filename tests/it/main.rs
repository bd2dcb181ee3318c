//! The shipped binary as an operator meets it: one module a journey.

mod binary;
mod commands;
mod serve;
mod settings;
