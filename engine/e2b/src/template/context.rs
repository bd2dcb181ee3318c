//! The files that a COPY takes out of its context.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use super::ignore::{Glob, Ignore};
use crate::error::Error;

/// What a COPY takes, in the order in which it is hashed and packed: path from the context (`.` is the context itself) and where it is.
pub(super) type Entries = BTreeMap<String, PathBuf>;

/// A folder of files beside a Dockerfile.
#[derive(Debug)]
pub(super) struct Context {
    root: PathBuf,
    ignore: Ignore,
}

impl Context {
    /// A context whose `.dockerignore`, if there is one, and `patterns` say what is left out.
    pub(super) fn open(root: &Path, patterns: &[String]) -> Result<Self, Error> {
        let path = root.join(".dockerignore");
        let file = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(source) => return Err(cannot_read(&path, source)),
        };
        let lines = file.trim_start_matches('\u{FEFF}').split('\n').filter(|line| !line.starts_with('#'));
        let ignore = Ignore::new(lines.chain(patterns.iter().map(String::as_str)))?;
        Ok(Self { root: root.to_owned(), ignore })
    }

    /// Everything that `source` names: a path or a pattern, and what is below it.
    pub(super) fn entries(&self, source: &str) -> Result<Entries, Error> {
        check_inside(source)?;
        let mut matches = BTreeSet::new();
        let segments: Vec<&str> = source.split('/').collect();
        self.find(&PathBuf::new(), &segments, &mut matches)?;
        let mut entries = Entries::new();
        for relative in matches {
            let path = self.root.join(&relative);
            let name = text(&relative)?;
            if name != "." && self.ignore.leaves_out(&name) {
                continue;
            }
            if is_directory(&path)? {
                self.walk(&path, &name, &mut entries)?;
            }
            entries.insert(key(&name), path);
        }
        if entries.is_empty() {
            let message = format!("COPY `{source}`: there is no such file in `{}`", self.root.display());
            return Err(Error::BadTemplate { message });
        }
        Ok(entries)
    }

    /// Finds what the segments of a pattern name below `base`, which is relative to the context and has no `..`.
    fn find(&self, base: &Path, segments: &[&str], found: &mut BTreeSet<PathBuf>) -> Result<(), Error> {
        let Some((segment, rest)) = segments.split_first() else {
            found.insert(base.to_owned());
            return Ok(());
        };
        match *segment {
            "" | "." => {
                if is_directory_or_link_to_one(&self.root.join(base)) {
                    self.find(base, rest, found)
                } else {
                    Ok(())
                }
            }
            ".." => {
                let parent = base.parent().map(Path::to_owned).unwrap_or_default();
                self.find(&parent, rest, found)
            }
            "**" => self.find_below(base, rest, found),
            literal if !literal.contains(['*', '?', '[', '\\']) => {
                let next = base.join(literal);
                match fs::symlink_metadata(self.root.join(&next)) {
                    Ok(_) => self.find(&next, rest, found),
                    Err(_not_there) => Ok(()),
                }
            }
            pattern => {
                let broken = || Error::BadTemplate { message: format!("COPY: the pattern `{pattern}` breaks off") };
                let glob = Glob::new(pattern).ok_or_else(broken)?;
                for name in self.names(base)? {
                    if glob.matches(&name) {
                        self.find(&base.join(name), rest, found)?;
                    }
                }
                Ok(())
            }
        }
    }

    /// `**`: here, and in every folder below; links are not followed.
    fn find_below(&self, base: &Path, rest: &[&str], found: &mut BTreeSet<PathBuf>) -> Result<(), Error> {
        // Alone, it names everything in the context but not the context itself.
        if !rest.is_empty() || base != Path::new("") {
            self.find(base, rest, found)?;
        }
        for name in self.names(base)? {
            let next = base.join(name);
            if is_directory(&self.root.join(&next))? {
                self.find_below(&next, rest, found)?;
            } else if rest.is_empty() {
                found.insert(next);
            }
        }
        Ok(())
    }

    fn names(&self, base: &Path) -> Result<Vec<String>, Error> {
        let folder = self.root.join(base);
        if !is_directory_or_link_to_one(&folder) {
            return Ok(Vec::new());
        }
        let read = fs::read_dir(&folder).map_err(|source| cannot_read(&folder, source))?;
        read.map(|entry| {
            let entry = entry.map_err(|source| cannot_read(&folder, source))?;
            text(Path::new(&entry.file_name()))
        })
        .collect()
    }

    /// Adds what is below a folder and not left out.
    fn walk(&self, folder: &Path, name: &str, entries: &mut Entries) -> Result<(), Error> {
        let read = fs::read_dir(folder).map_err(|source| cannot_read(folder, source))?;
        for entry in read {
            let entry = entry.map_err(|source| cannot_read(folder, source))?;
            let file_name = text(Path::new(&entry.file_name()))?;
            let relative = if name == "." { file_name } else { format!("{name}/{file_name}") };
            let left_out = self.ignore.leaves_out(&relative);
            let path = entry.path();
            if is_directory(&path)? && (!left_out || self.ignore.may_bring_back_below(&relative)) {
                self.walk(&path, &relative, entries)?;
            }
            if !left_out {
                entries.insert(relative, path);
            }
        }
        Ok(())
    }
}

/// The context itself comes before everything in it.
fn key(name: &str) -> String {
    if name == "." { String::new() } else { name.to_owned() }
}

/// A path as text with `/`; the context itself is `.`.
fn text(path: &Path) -> Result<String, Error> {
    let no_utf8 = || Error::BadTemplate { message: format!("the name `{}` is no UTF-8", path.display()) };
    let name = path.to_str().ok_or_else(no_utf8)?;
    Ok(if name.is_empty() { ".".to_owned() } else { name.to_owned() })
}

fn is_directory(path: &Path) -> Result<bool, Error> {
    fs::symlink_metadata(path).map(|metadata| metadata.is_dir()).map_err(|source| cannot_read(path, source))
}

fn is_directory_or_link_to_one(path: &Path) -> bool {
    path.is_dir()
}

pub(super) fn cannot_read(path: &Path, source: io::Error) -> Error {
    Error::Io { action: format!("read `{}`", path.display()), source }
}

/// That a source stays in its context.
pub(super) fn check_inside(source: &str) -> Result<(), Error> {
    let refused = |reason| Err(Error::BadTemplate { message: format!("COPY `{source}`: {reason}") });
    let mut depth = 0_usize;
    for component in Path::new(source).components() {
        match component {
            Component::Prefix(_) | Component::RootDir => return refused("a source is relative to the context"),
            Component::CurDir => {}
            Component::Normal(_) => depth += 1,
            Component::ParentDir if depth == 0 => return refused("it leaves the context"),
            Component::ParentDir => depth -= 1,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::check_inside;

    #[test]
    fn sources_stay_in_their_context() {
        for (source, inside) in [
            ("a/b", true),
            ("./a", true),
            ("a/../b", true),
            ("..a", true),
            ("/a", false),
            ("../a", false),
            ("a/../../b", false),
        ] {
            assert_eq!(check_inside(source).is_ok(), inside, "{source}");
        }
    }
}
