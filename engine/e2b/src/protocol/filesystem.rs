//! `filesystem.Filesystem` and the answer of an upload: files in a sandbox.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::json::{int64, is_default, null_as_default};
use super::process::Empty;

/// Path of the unary call [`PathRequest`] → [`EntryAnswer`].
pub const STAT: &str = "/filesystem.Filesystem/Stat";
/// Path of the unary call [`ListDir`] → [`Entries`].
pub const LIST_DIR: &str = "/filesystem.Filesystem/ListDir";
/// Path of the unary call [`PathRequest`] → [`EntryAnswer`].
pub const MAKE_DIR: &str = "/filesystem.Filesystem/MakeDir";
/// Path of the unary call [`MoveEntry`] → [`EntryAnswer`].
pub const MOVE: &str = "/filesystem.Filesystem/Move";
/// Path of the unary call [`PathRequest`] → [`Empty`].
pub const REMOVE: &str = "/filesystem.Filesystem/Remove";
/// Path of the stream [`WatchDir`] → [`WatchEvent`]s.
pub const WATCH_DIR: &str = "/filesystem.Filesystem/WatchDir";
/// Path of the unary call [`WatchDir`] → [`WatcherId`].
pub const CREATE_WATCHER: &str = "/filesystem.Filesystem/CreateWatcher";
/// Path of the unary call [`WatcherId`] → [`WatcherEvents`].
pub const GET_WATCHER_EVENTS: &str = "/filesystem.Filesystem/GetWatcherEvents";
/// Path of the unary call [`WatcherId`] → [`Empty`].
pub const REMOVE_WATCHER: &str = "/filesystem.Filesystem/RemoveWatcher";

/// A request about one path.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathRequest {
    /// Absolute, or from the user's home.
    #[serde(default)]
    pub path: String,
}

/// Asks what is in a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListDir {
    /// Absolute, or from the user's home.
    #[serde(default)]
    pub path: String,
    /// How many levels; 0 means 1.
    #[serde(default, skip_serializing_if = "is_default")]
    pub depth: u32,
}

/// Moves or renames.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MoveEntry {
    /// From where.
    #[serde(default)]
    pub source: String,
    /// To where; missing parents are made.
    #[serde(default)]
    pub destination: String,
}

/// What something in the file system is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum FileType {
    /// A regular file.
    #[serde(rename = "FILE_TYPE_FILE")]
    File,
    /// A directory.
    #[serde(rename = "FILE_TYPE_DIRECTORY")]
    Directory,
    /// A symbolic link.
    #[serde(rename = "FILE_TYPE_SYMLINK")]
    Symlink,
    /// A device, a socket, a broken link: left out on the wire.
    #[default]
    #[serde(rename = "FILE_TYPE_UNSPECIFIED", other)]
    Other,
}

/// One thing in the file system. Of a link, `kind` and `mode` are the target's and the rest its own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EntryInfo {
    /// Last part of the path.
    #[serde(default)]
    pub name: String,
    /// What it is.
    #[serde(rename = "type", default, skip_serializing_if = "is_default")]
    pub kind: FileType,
    /// The path.
    #[serde(default)]
    pub path: String,
    /// Bytes.
    #[serde(default, with = "int64", skip_serializing_if = "is_default")]
    pub size: i64,
    /// The nine bits of permission.
    #[serde(default, skip_serializing_if = "is_default")]
    pub mode: u32,
    /// The same as text, as `-rw-r--r--`; links begin with `L`.
    #[serde(default)]
    pub permissions: String,
    /// Name of the owner.
    #[serde(default)]
    pub owner: String,
    /// Name of the group.
    #[serde(default)]
    pub group: String,
    /// When its content last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modified_time: Option<Timestamp>,
    /// Where a link leads in the end; of a broken one its own path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub symlink_target: Option<String>,
    /// Whether it is a link; only newer servers say so.
    #[serde(default, skip_serializing_if = "is_default")]
    pub is_symlink: bool,
    /// What was uploaded with it.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
}

/// Answer of the calls about one entry.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntryAnswer {
    /// The entry.
    #[serde(default)]
    pub entry: EntryInfo,
}

/// What is in a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entries {
    /// Depth first, by name, without the directory itself.
    #[serde(default, deserialize_with = "null_as_default")]
    pub entries: Vec<EntryInfo>,
}

/// Asks for what happens in a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WatchDir {
    /// Absolute, or from the user's home.
    #[serde(default)]
    pub path: String,
    /// Whether to watch everything below.
    #[serde(default, skip_serializing_if = "is_default")]
    pub recursive: bool,
    /// Whether events tell about their entry.
    #[serde(default, skip_serializing_if = "is_default")]
    pub include_entry: bool,
    /// Whether to watch file systems of other machines too.
    #[serde(default, skip_serializing_if = "is_default")]
    pub allow_network_mounts: bool,
}

/// What happened to a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum FileEventType {
    /// It came.
    #[serde(rename = "EVENT_TYPE_CREATE")]
    Create,
    /// It was written to.
    #[serde(rename = "EVENT_TYPE_WRITE")]
    Write,
    /// It went.
    #[serde(rename = "EVENT_TYPE_REMOVE")]
    Remove,
    /// It went away under this name; its new name comes as `Create`.
    #[serde(rename = "EVENT_TYPE_RENAME")]
    Rename,
    /// Its owner or permissions changed.
    #[serde(rename = "EVENT_TYPE_CHMOD")]
    Chmod,
    /// Something newer than this crate.
    #[default]
    #[serde(rename = "EVENT_TYPE_UNSPECIFIED", other)]
    Unspecified,
}

/// One thing that happened.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileEvent {
    /// Path from the watched directory.
    #[serde(default)]
    pub name: String,
    /// What happened.
    #[serde(rename = "type", default)]
    pub kind: FileEventType,
    /// What it happened to, when asked for and still there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<EntryInfo>,
}

/// One message of the stream of `WatchDir`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "WatchFields", into = "WatchFields")]
pub enum WatchEvent {
    /// From here on everything is told. The first message.
    Start,
    /// Something happened.
    File(Box<FileEvent>),
    /// Nothing happened for a while.
    Keepalive,
    /// Something newer than this crate.
    Unknown,
}

#[derive(Default, Serialize, Deserialize)]
struct WatchFields {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    start: Option<Empty>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    filesystem: Option<Box<FileEvent>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    keepalive: Option<Empty>,
}

impl From<WatchFields> for WatchEvent {
    fn from(fields: WatchFields) -> Self {
        match fields {
            WatchFields { start: Some(Empty {}), .. } => Self::Start,
            WatchFields { filesystem: Some(event), .. } => Self::File(event),
            WatchFields { keepalive: Some(Empty {}), .. } => Self::Keepalive,
            WatchFields { start: None, filesystem: None, keepalive: None } => Self::Unknown,
        }
    }
}

impl From<WatchEvent> for WatchFields {
    fn from(event: WatchEvent) -> Self {
        match event {
            WatchEvent::Start => Self { start: Some(Empty {}), ..Self::default() },
            WatchEvent::File(event) => Self { filesystem: Some(event), ..Self::default() },
            WatchEvent::Keepalive => Self { keepalive: Some(Empty {}), ..Self::default() },
            WatchEvent::Unknown => Self::default(),
        }
    }
}

/// Names a watcher that is asked for its events.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WatcherId {
    /// The name.
    #[serde(default)]
    pub watcher_id: String,
}

/// What happened since the last question; each event is told once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatcherEvents {
    /// In order.
    #[serde(default, deserialize_with = "null_as_default")]
    pub events: Vec<FileEvent>,
}

/// One file of an answer to `POST /files`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UploadedFile {
    /// Last part of the path.
    pub name: String,
    /// The absolute path.
    pub path: String,
    /// Always `file`.
    #[serde(rename = "type")]
    pub kind: String,
    /// What was uploaded with it.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
}

#[cfg(test)]
mod tests {
    use super::{EntryInfo, FileEvent, FileEventType, FileType, WatchEvent};

    #[test]
    fn sizes_are_text_and_may_be_missing() {
        for (text, size) in
            [(r#"{"size":"5368709120"}"#, 5_368_709_120), (r#"{"size":3}"#, 3), ("{}", 0), (r#"{"size":null}"#, 0)]
        {
            assert_eq!(serde_json::from_str::<EntryInfo>(text).unwrap().size, size, "{text}");
        }
        assert!(serde_json::from_str::<EntryInfo>(r#"{"size":"many"}"#).is_err());
        let written =
            serde_json::to_value(EntryInfo { size: 7, kind: FileType::File, ..EntryInfo::default() }).unwrap();
        assert_eq!((&written["size"], &written["type"]), (&"7".into(), &"FILE_TYPE_FILE".into()));
    }

    #[test]
    fn watch_events_come_back() {
        for text in
            [r#"{"start":{}}"#, r#"{"filesystem":{"name":"a","type":"EVENT_TYPE_CHMOD"}}"#, r#"{"keepalive":{}}"#]
        {
            let event: WatchEvent = serde_json::from_str(text).unwrap();
            assert_ne!(event, WatchEvent::Unknown);
            assert_eq!(serde_json::to_string(&event).unwrap(), text);
        }
        let novel: FileEvent = serde_json::from_str(r#"{"name":"a","type":"EVENT_TYPE_NOVEL"}"#).unwrap();
        assert_eq!(novel.kind, FileEventType::Unspecified);
    }
}
