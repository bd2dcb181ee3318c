//! A Dockerfile as steps of a build, as E2B's SDK reads it.

mod convert;
mod heredoc;
mod lines;
mod words;

pub(super) use convert::{Planned, convert};
