//! The shipped binary as an operator meets it: one module a journey.

mod ask;
mod binary;
mod commands;
mod container;
mod doctor;
mod media;
mod model;
mod repairs;
mod serve;
mod settings;
