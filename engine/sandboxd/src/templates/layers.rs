//! Layers on the disk: each made once, under a name that says what it is made of.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io;
use std::sync::Arc;

use camino::{Utf8Path, Utf8PathBuf};

use crate::folders::Folders;
use crate::names::random_name;

/// The layers of a data folder.
#[derive(Clone, Debug)]
pub(crate) struct Layers {
    folders: Arc<Folders>,
}

impl Layers {
    pub(crate) fn new(folders: Arc<Folders>) -> Self {
        Self { folders }
    }

    /// Whether it is there, whole.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.folders.layer(name).is_dir()
    }

    /// An empty folder to make a layer in.
    pub(crate) fn begin(&self) -> io::Result<Utf8PathBuf> {
        let folder = self.folders.unfinished().join(random_name(12));
        fs::create_dir(&folder)?;
        Ok(folder)
    }

    /// Makes a folder the layer of this name, once everything in it is on the disk. One that is there already stays.
    pub(crate) fn finish(&self, folder: &Utf8Path, name: &str) -> io::Result<()> {
        nix::unistd::syncfs(File::open(folder)?)?;
        match fs::rename(folder, self.folders.layer(name)) {
            Err(_there_already) if self.has(name) => fs::remove_dir_all(folder),
            other => other,
        }
    }

    /// Removes those that are not in use, and gives their names. `is_kept` names the rest.
    pub(crate) fn sweep(&self, used: &HashSet<String>, is_kept: impl Fn(&str) -> bool) -> io::Result<Vec<String>> {
        let mut removed = Vec::new();
        for entry in fs::read_dir(self.folders.layers())? {
            let entry = entry?;
            let name = entry.file_name();
            let is_in_use = name.to_str().is_none_or(|name| used.contains(name) || is_kept(name));
            if !is_in_use {
                fs::remove_dir_all(entry.path())?;
                removed.push(name.to_string_lossy().into_owned());
            }
        }
        Ok(removed)
    }
}
