//! Taking in videos, and what is done with them in the background.

pub mod form;
mod hash;
pub mod import;
pub mod kind;
pub mod upload;
pub mod youtube;
