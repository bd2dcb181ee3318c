//! The hash and the archive of the files of a COPY.
//!
//! The hash is E2B's own, so that what one of its SDKs has uploaded is not uploaded again: over the words of the COPY, then of each entry its path, its mode, its
//! size unless it is a folder, and its content or target. Owners and times are not in it. Links that are followed count as what they lead to.

use std::fmt::Write as _;
use std::fs::{self, File, Metadata};
use std::io::{self, Read as _, Seek as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest as _, Sha256};
use tar::{Builder, EntryType, Header};

use super::context::{Entries, cannot_read};
use crate::error::Error;

/// What becomes of the links among the entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Links {
    /// They are links.
    Kept,
    /// They are what they lead to.
    Followed,
}

impl Links {
    /// The facts about an entry. A link that leads nowhere is one, whatever was said.
    fn look(self, path: &Path) -> Result<Metadata, Error> {
        if self == Self::Followed
            && let Ok(followed) = fs::metadata(path)
        {
            return Ok(followed);
        }
        fs::symlink_metadata(path).map_err(|source| cannot_read(path, source))
    }
}

/// The files of a COPY.
#[derive(Clone, Debug)]
pub(super) struct Archive {
    pub(super) entries: Entries,
    pub(super) links: Links,
}

/// The hash of a COPY's files in hex.
pub(super) fn hash(source: &str, dest: &str, archive: &Archive) -> Result<String, Error> {
    let mut hash = Sha256::new();
    hash.update(format!("COPY {source} {dest}"));
    for (name, path) in &archive.entries {
        let metadata = archive.links.look(path)?;
        hash.update(shown(name));
        hash.update(metadata.mode().to_string());
        if !metadata.is_dir() {
            hash.update(metadata.size().to_string());
        }
        if metadata.is_symlink() {
            hash.update(target(path)?.as_os_str().as_encoded_bytes());
        } else if metadata.is_file() {
            hash_content(&mut hash, path)?;
        }
    }
    let mut hex = String::with_capacity(64);
    for byte in hash.finalize() {
        // Writing to a `String` cannot fail.
        let _ = write!(hex, "{byte:02x}");
    }
    Ok(hex)
}

fn hash_content(hash: &mut Sha256, path: &Path) -> Result<(), Error> {
    let mut file = File::open(path).map_err(|source| cannot_read(path, source))?;
    let mut buffer = vec![0; 256 << 10];
    loop {
        match file.read(&mut buffer).map_err(|source| cannot_read(path, source))? {
            0 => return Ok(()),
            read => hash.update(&buffer[..read]),
        }
    }
}

fn target(path: &Path) -> Result<std::path::PathBuf, Error> {
    fs::read_link(path).map_err(|source| cannot_read(path, source))
}

/// The context itself is `.`.
fn shown(name: &str) -> &str {
    if name.is_empty() { "." } else { name }
}

/// Packs the entries into a file that has no name and goes with its handle; gives it rewound, and its size.
pub(super) fn pack(files: &Archive) -> Result<(File, u64), Error> {
    let cannot_pack = |source: io::Error| Error::Io { action: "pack the files of a COPY".to_owned(), source };
    let file = tempfile::tempfile().map_err(cannot_pack)?;
    let mut archive = Builder::new(GzEncoder::new(io::BufWriter::new(file), Compression::default()));
    for (name, path) in &files.entries {
        append(&mut archive, shown(name), path, files.links)?;
    }
    let packed = archive.into_inner().and_then(GzEncoder::finish).map_err(cannot_pack)?;
    let mut file = packed.into_inner().map_err(|error| cannot_pack(error.into_error()))?;
    let size = file.stream_position().map_err(cannot_pack)?;
    file.rewind().map_err(cannot_pack)?;
    Ok((file, size))
}

/// One entry with its mode and time, and without its owner: that is the build's affair.
fn append<W: io::Write>(archive: &mut Builder<W>, name: &str, path: &Path, links: Links) -> Result<(), Error> {
    let cannot = |source| cannot_read(path, source);
    let metadata = links.look(path)?;
    let mut header = Header::new_gnu();
    header.set_mode(metadata.mode() & 0o7777);
    header.set_mtime(u64::try_from(metadata.mtime()).unwrap_or(0));
    header.set_size(0);
    if metadata.is_symlink() {
        header.set_entry_type(EntryType::Symlink);
        archive.append_link(&mut header, name, target(path)?).map_err(cannot)
    } else if metadata.is_dir() {
        header.set_entry_type(EntryType::Directory);
        archive.append_data(&mut header, name, io::empty()).map_err(cannot)
    } else if metadata.is_file() {
        header.set_entry_type(EntryType::Regular);
        header.set_size(metadata.size());
        let file = File::open(path).map_err(cannot)?;
        archive.append_data(&mut header, name, file.take(metadata.size())).map_err(cannot)
    } else {
        // Sockets, pipes and devices are nothing that a template could hold.
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Read as _;
    use std::os::unix::fs::symlink;

    use super::{Archive, Links, pack};

    /// Each entry of an archive: its path, its kind, and its content or target.
    fn packed(files: &Archive) -> Vec<(String, tar::EntryType, String)> {
        let (file, _size) = pack(files).unwrap();
        let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(file));
        let told = archive.entries().unwrap().map(|entry| {
            let mut entry = entry.unwrap();
            let path = entry.path().unwrap().display().to_string();
            let mut content = String::new();
            entry.read_to_string(&mut content).unwrap();
            if let Some(target) = entry.link_name().unwrap() {
                content = target.display().to_string();
            }
            (path, entry.header().entry_type(), content)
        });
        told.collect()
    }

    #[test]
    fn links_are_kept_or_followed() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::write(root.join("file"), "content").unwrap();
        fs::create_dir(root.join("folder")).unwrap();
        for (link, target) in [("broken", "nowhere"), ("to-file", "file"), ("to-folder", "folder")] {
            symlink(target, root.join(link)).unwrap();
        }
        let entries = ["broken", "to-file", "to-folder"].map(|name| (name.to_owned(), root.join(name)));
        let archive = |links| Archive { entries: entries.clone().into(), links };
        let entry = |path: &str, kind, content: &str| (path.to_owned(), kind, content.to_owned());
        let (link, file, folder) = (tar::EntryType::Symlink, tar::EntryType::Regular, tar::EntryType::Directory);
        assert_eq!(
            packed(&archive(Links::Kept)),
            [entry("broken", link, "nowhere"), entry("to-file", link, "file"), entry("to-folder", link, "folder")]
        );
        assert_eq!(
            packed(&archive(Links::Followed)),
            [entry("broken", link, "nowhere"), entry("to-file", file, "content"), entry("to-folder", folder, "")]
        );
    }
}
