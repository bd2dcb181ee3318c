//! Layers on the disk: each made once, under a name that says what it is made of.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io;

use ambient_files::remove_tree;
use camino::{Utf8Path, Utf8PathBuf};

use crate::folders::Folders;
use crate::names::random_name;

/// The layers in one folder.
#[derive(Clone, Debug)]
pub(crate) struct Layers {
    all: Utf8PathBuf,
    unfinished: Utf8PathBuf,
}

impl Layers {
    /// Those that templates stand on.
    pub(crate) fn of_templates(folders: &Folders) -> Self {
        Self { all: folders.layers(), unfinished: folders.unfinished() }
    }

    /// Base roots, which are there for every driver.
    pub(crate) fn of_roots(folders: &Folders) -> Self {
        Self { all: folders.roots(), unfinished: folders.unfinished() }
    }

    /// Where a layer is, or would be.
    pub(crate) fn folder(&self, name: &str) -> Utf8PathBuf {
        self.all.join(name)
    }

    /// The names of all.
    pub(crate) fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.all)? {
            names.extend(entry?.file_name().into_string().ok());
        }
        Ok(names)
    }

    /// Whether it is there, whole.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.folder(name).is_dir()
    }

    /// An empty folder to make a layer in.
    pub(crate) fn begin(&self) -> io::Result<Utf8PathBuf> {
        let folder = self.unfinished.join(random_name(12));
        fs::create_dir(&folder)?;
        Ok(folder)
    }

    /// Makes a folder the layer of this name, once everything in it is on the disk. One that is there already stays.
    pub(crate) fn finish(&self, folder: &Utf8Path, name: &str) -> io::Result<()> {
        nix::unistd::syncfs(File::open(folder)?)?;
        match fs::rename(folder, self.folder(name)) {
            Err(_there_already) if self.has(name) => remove_tree(folder.as_std_path()),
            other => other,
        }
    }

    /// Removes one.
    pub(crate) fn remove(&self, name: &str) -> io::Result<()> {
        remove_tree(self.folder(name).as_std_path())
    }

    /// Removes those that are not in use. `is_kept` names the rest.
    pub(crate) fn sweep(&self, used: &HashSet<String>, is_kept: impl Fn(&str) -> bool) -> io::Result<()> {
        for name in self.names()? {
            if !used.contains(&name) && !is_kept(&name) {
                self.remove(&name)
                    .unwrap_or_else(|error| tracing::warn!(%error, name, "a layer that nothing needs stays"));
            }
        }
        Ok(())
    }
}
