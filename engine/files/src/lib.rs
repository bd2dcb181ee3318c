//! Work on files and folders of somebody else's making: what a sandbox or a session's commands left. Neither their depth, nor their names, rights
//! and links, make it fail or lead it elsewhere.

mod remove;

pub use remove::{remove_tree, remove_tree_if_there};
