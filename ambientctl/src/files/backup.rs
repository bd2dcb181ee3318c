//! Old texts, kept for the day when a change turns out to have been wrong.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use super::FilesError;
use super::replace::{Mode, replace};

/// How many old texts of one file are kept.
const KEPT: usize = 10;

/// The folder, in that of the installation.
const FOLDER: &str = "backups";

/// Keeps `text`, which stands in `file` of `folder` and is about to be replaced: as `backups/FILE.000001`, the number one
/// above the last. Numbers and not times, so that a clock that was set back loses nothing.
pub(super) fn keep(folder: &Path, file: &str, text: &[u8]) -> Result<PathBuf, FilesError> {
    let backups = folder.join(FOLDER);
    match DirBuilder::new().mode(0o700).create(&backups) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(FilesError::Write { step: "create", path: backups, source: error });
        }
        Ok(()) | Err(_) => {}
    }
    let numbered = numbered(&backups, file)?;
    let next = numbered.last().map_or(1, |(number, _)| number + 1);
    let path = backups.join(format!("{file}.{next:06}"));
    replace(&path, text, Mode::Private, &mut |_| ())?;
    let surplus = (numbered.len() + 1).saturating_sub(KEPT);
    for (_, old) in numbered.into_iter().take(surplus) {
        fs::remove_file(&old).map_err(|source| FilesError::Write { step: "remove", path: old, source })?;
    }
    Ok(path)
}

/// The old texts of one file, oldest first.
fn numbered(backups: &Path, file: &str) -> Result<Vec<(u64, PathBuf)>, FilesError> {
    let failed = |source| FilesError::Read { path: backups.to_owned(), source };
    let mut found = Vec::new();
    for entry in fs::read_dir(backups).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let number = entry
            .file_name()
            .to_str()
            .and_then(|name| name.strip_prefix(file)?.strip_prefix('.'))
            .filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))
            .and_then(|digits| digits.parse().ok());
        if let Some(number) = number {
            found.push((number, entry.path()));
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn the_last_ten_are_kept_and_are_private() {
        let folder = tempfile::tempdir().unwrap();
        let backups = folder.path().join(FOLDER);
        for text in 1..=13 {
            keep(folder.path(), ".env", text.to_string().as_bytes()).unwrap();
        }
        keep(folder.path(), "docker-compose.override.yml", b"other").unwrap();
        fs::write(backups.join(".env.mine"), "somebody's own").unwrap();
        keep(folder.path(), ".env", b"14").unwrap();

        let kept = numbered(&backups, ".env").unwrap();
        let texts: Vec<_> = kept.iter().map(|(_, path)| fs::read_to_string(path).unwrap()).collect();
        assert_eq!(texts, (5..=14).map(|text| text.to_string()).collect::<Vec<_>>());
        for (_, path) in &kept {
            assert_eq!(fs::metadata(path).unwrap().mode() & 0o777, 0o600);
        }
        assert_eq!(fs::metadata(&backups).unwrap().mode() & 0o777, 0o700);
        assert!(backups.join(".env.mine").exists());
        assert_eq!(numbered(&backups, "docker-compose.override.yml").unwrap().len(), 1);
    }
}
