//! Templates: their names and tags, the builds behind them, the layers that builds leave.

mod archives;
mod base;
mod build;
mod catalogue;
mod docker;
mod image;
mod layers;
mod names;
mod steps;

pub(crate) use archives::{ArchiveFailure, Archives};
pub(crate) use base::{BaseFailure, PROVISION, is_root, make_base};
pub(crate) use build::{Builder, Job};
pub(crate) use catalogue::{Catalogue, TemplateFailure};
pub(crate) use docker::{layer_of_image, local_image};
pub(crate) use image::Image;
pub(crate) use layers::Layers;

/// What is told as the size of a sandbox's disk, in MiB. The disk is the host's, and has no quota for each.
pub(crate) const DISK_MB: u64 = 10_240;
