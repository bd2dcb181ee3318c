//! The hash and the archive of the files of a COPY.
//!
//! The hash is E2B's own, so that what one of its SDKs has uploaded is not uploaded again: over the words of the COPY, then of each entry its path, its mode, its
//! size unless it is a folder, and its content or target. Owners and times are not in it.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest as _, Sha256};
use tar::{Builder, EntryType, Header};

use super::context::{Entries, cannot_read};
use crate::error::Error;

/// The hash of a COPY's files in hex.
pub(super) fn hash(source: &str, dest: &str, entries: &Entries) -> Result<String, Error> {
    let mut hash = Sha256::new();
    hash.update(format!("COPY {source} {dest}"));
    for (name, path) in entries {
        let metadata = fs::symlink_metadata(path).map_err(|source| cannot_read(path, source))?;
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
pub(super) fn pack(entries: &Entries) -> Result<(File, u64), Error> {
    let cannot_pack = |source: io::Error| Error::Io { action: "pack the files of a COPY".to_owned(), source };
    let file = tempfile::tempfile().map_err(cannot_pack)?;
    let mut archive = Builder::new(GzEncoder::new(io::BufWriter::new(file), Compression::default()));
    for (name, path) in entries {
        append(&mut archive, shown(name), path)?;
    }
    let packed = archive.into_inner().and_then(GzEncoder::finish).map_err(cannot_pack)?;
    let mut file = packed.into_inner().map_err(|error| cannot_pack(error.into_error()))?;
    let size = file.stream_position().map_err(cannot_pack)?;
    file.rewind().map_err(cannot_pack)?;
    Ok((file, size))
}

/// One entry with its mode and time, and without its owner: that is the build's affair.
fn append<W: io::Write>(archive: &mut Builder<W>, name: &str, path: &Path) -> Result<(), Error> {
    let cannot = |source| cannot_read(path, source);
    let metadata = fs::symlink_metadata(path).map_err(cannot)?;
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
