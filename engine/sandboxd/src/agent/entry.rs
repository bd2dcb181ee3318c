//! What a client is told about something in the file system.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;

use ambient_e2b::protocol::filesystem::{EntryInfo, FileType};
use jiff::Timestamp;

use super::users;

/// Names of the attributes that an upload may set.
pub(super) const ATTRIBUTE_PREFIX: &str = "user.e2b.";

/// Most bytes of the names of all attributes of a file, and of one value: the kernel's own limit.
const ATTRIBUTE_BYTES: usize = 64 << 10;

/// About what is at `path`, told under that path. A link is not followed, but for its type and mode.
pub(super) fn describe(path: &Path) -> io::Result<EntryInfo> {
    let own = fs::symlink_metadata(path)?;
    let shown = path.to_string_lossy().into_owned();
    let (kind, mode, symlink_target) = if own.is_symlink() {
        match fs::canonicalize(path).and_then(|target| Ok((fs::metadata(&target)?, target))) {
            Ok((target, place)) => (kind(&target), target.mode() & 0o777, Some(place.to_string_lossy().into_owned())),
            Err(_broken) => (FileType::Other, 0, Some(shown.clone())),
        }
    } else {
        (kind(&own), own.mode() & 0o777, None)
    };
    let name = path.file_name().map_or_else(|| "/".into(), |name| name.to_string_lossy().into_owned());
    Ok(EntryInfo {
        name,
        kind,
        path: shown,
        size: own.size().cast_signed(),
        mode,
        permissions: permissions(&own),
        owner: users::user_name(own.uid()),
        group: users::group_name(own.gid()),
        modified_time: modified(&own),
        symlink_target,
        is_symlink: false,
        metadata: attributes(path),
    })
}

fn kind(metadata: &Metadata) -> FileType {
    if metadata.is_file() {
        FileType::File
    } else if metadata.is_dir() {
        FileType::Directory
    } else {
        FileType::Other
    }
}

fn modified(metadata: &Metadata) -> Option<Timestamp> {
    let nanoseconds = i32::try_from(metadata.mtime_nsec()).ok()?;
    Timestamp::new(metadata.mtime(), nanoseconds).ok()
}

/// As Go writes a mode: letters for the kind and the special bits, a dash when there are none, then nine for the permissions.
fn permissions(metadata: &Metadata) -> String {
    let kind = metadata.file_type();
    let mode = metadata.mode();
    let letters = [
        (kind.is_dir(), 'd'),
        (kind.is_symlink(), 'L'),
        (kind.is_block_device() || kind.is_char_device(), 'D'),
        (kind.is_fifo(), 'p'),
        (kind.is_socket(), 'S'),
        (mode & 0o4000 != 0, 'u'),
        (mode & 0o2000 != 0, 'g'),
        (kind.is_char_device(), 'c'),
        (mode & 0o1000 != 0, 't'),
    ];
    let mut text: String = letters.into_iter().filter(|(set, _letter)| *set).map(|(_set, letter)| letter).collect();
    if text.is_empty() {
        text.push('-');
    }
    for (place, letter) in "rwxrwxrwx".chars().enumerate() {
        text.push(if mode & (0o400 >> place) == 0 { '-' } else { letter });
    }
    text
}

/// What uploads stored with the file. A file system without attributes, or a broken link, has none.
pub(super) fn attributes(path: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for name in attribute_names(path) {
        let mut value = vec![0; ATTRIBUTE_BYTES];
        if let Ok(length) = rustix::fs::getxattr(path, name.as_str(), &mut value) {
            let value = String::from_utf8_lossy(&value[..length]).into_owned();
            found.insert(name[ATTRIBUTE_PREFIX.len()..].to_owned(), value);
        }
    }
    found
}

/// The full names of those attributes.
pub(super) fn attribute_names(path: &Path) -> Vec<String> {
    // Most files have none: that is asked first, without room for an answer.
    if matches!(rustix::fs::listxattr_query(path), Ok(0) | Err(_)) {
        return Vec::new();
    }
    let mut names = vec![0_u8; ATTRIBUTE_BYTES];
    let length = rustix::fs::listxattr(path, &mut names).unwrap_or(0);
    names[..length]
        .split(|byte| *byte == 0)
        .filter_map(|name| std::str::from_utf8(name).ok())
        .filter(|name| name.starts_with(ATTRIBUTE_PREFIX))
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use ambient_e2b::protocol::filesystem::FileType;

    use super::describe;

    #[test]
    fn entries_are_told_as_the_service_tells_them() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "four").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
        let entry = describe(&file).unwrap();
        assert_eq!((entry.kind, entry.size, entry.mode), (FileType::File, 4, 0o640));
        assert_eq!(entry.permissions, "-rw-r-----");
        assert_eq!(entry.symlink_target, None);

        fs::set_permissions(&file, Permissions::from_mode(0o4755)).unwrap();
        assert_eq!(describe(&file).unwrap().permissions, "urwxr-xr-x");

        let sticky = folder.path().join("sticky");
        fs::create_dir(&sticky).unwrap();
        fs::set_permissions(&sticky, Permissions::from_mode(0o1777)).unwrap();
        let entry = describe(&sticky).unwrap();
        assert_eq!((entry.kind, entry.permissions.as_str()), (FileType::Directory, "dtrwxrwxrwx"));

        let link = folder.path().join("link");
        symlink(&file, &link).unwrap();
        let entry = describe(&link).unwrap();
        assert_eq!((entry.kind, entry.mode), (FileType::File, 0o755));
        assert!(entry.permissions.starts_with('L'), "{}", entry.permissions);
        let target = fs::canonicalize(&file).unwrap();
        assert_eq!(entry.symlink_target.as_deref(), target.to_str());

        let broken = folder.path().join("broken");
        symlink("nowhere", &broken).unwrap();
        let entry = describe(&broken).unwrap();
        assert_eq!(entry.kind, FileType::Other);
        assert_eq!(entry.symlink_target.as_deref(), broken.to_str());
    }
}
