//! What happens in a directory, as a stream or to be asked for.

use std::collections::{HashMap, VecDeque};
use std::fs;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ambient_e2b::protocol::connect::{Code, ConnectError};
use ambient_e2b::protocol::filesystem::{FileEvent, FileEventType, WatchDir, WatchEvent, WatcherEvents, WatcherId};
use ambient_e2b::protocol::process::Empty;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Response};
use bytes::Bytes;
use nix::errno::Errno;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, InotifyEvent, WatchDescriptor};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::entry::describe;
use super::filesystem::{existing_folder, on_disk, resolve};
use super::kernel;
use super::rpc;
use super::state::{Agent, Shared};
use super::users::User;

/// Events that wait to be taken; past it the oldest are lost, since nobody may ever come for them.
const WAITING: usize = 10_000;

/// Most watchers of one sandbox that wait to be asked.
const WATCHERS: usize = 256;

/// Those that are asked for their events, by id.
#[derive(Debug, Default)]
pub(super) struct Watchers {
    known: Mutex<HashMap<String, Arc<Watch>>>,
}

impl Watchers {
    fn known(&self) -> MutexGuard<'_, HashMap<String, Arc<Watch>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, id: &str) -> Result<Arc<Watch>, ConnectError> {
        self.known().get(id).cloned().ok_or_else(|| unknown(id))
    }
}

fn unknown(id: &str) -> ConnectError {
    ConnectError::new(Code::NotFound, format!("watcher with id {id} not found"))
}

/// `CreateWatcher`.
pub(super) async fn create_watcher(agent: Shared, user: User, request: WatchDir) -> Result<WatcherId, ConnectError> {
    let watch = Watch::start(&agent, &user, request).await?;
    let mut known = agent.watchers.known();
    if known.len() >= WATCHERS {
        let message = format!("{WATCHERS} watchers wait to be asked; remove one first");
        return Err(ConnectError::new(Code::ResourceExhausted, message));
    }
    let watcher_id = format!("w{:032x}", rand::random::<u128>());
    known.insert(watcher_id.clone(), watch);
    Ok(WatcherId { watcher_id })
}

/// `GetWatcherEvents`.
pub(super) async fn watcher_events(
    agent: Shared,
    _user: User,
    request: WatcherId,
) -> Result<WatcherEvents, ConnectError> {
    let watch = agent.watchers.find(&request.watcher_id)?;
    Ok(WatcherEvents { events: watch.take_all() })
}

/// `RemoveWatcher`.
pub(super) async fn remove_watcher(agent: Shared, _user: User, request: WatcherId) -> Result<Empty, ConnectError> {
    agent.watchers.known().remove(&request.watcher_id).ok_or_else(|| unknown(&request.watcher_id))?;
    Ok(Empty {})
}

/// `WatchDir`.
pub(super) async fn watch_dir(State(agent): State<Shared>, headers: HeaderMap, body: Body) -> Response<Body> {
    let begun = async {
        let request: WatchDir = rpc::first_message(body).await?;
        let user = rpc::user(&headers, &agent)?;
        Watch::start(&agent, &user, request).await
    };
    match begun.await {
        Ok(watch) => rpc::stream(Follow {
            watch,
            is_started: false,
            until: rpc::timeout(&headers).and_then(|limit| Instant::now().checked_add(limit)),
            keepalive: rpc::keepalive(&headers),
        }),
        Err(error) => rpc::failed_stream(&error),
    }
}

struct Follow {
    watch: Arc<Watch>,
    is_started: bool,
    until: Option<Instant>,
    keepalive: Duration,
}

impl rpc::Messages for Follow {
    async fn next(&mut self) -> Result<Option<Bytes>, ConnectError> {
        if !self.is_started {
            self.is_started = true;
            return rpc::message(&WatchEvent::Start).map(Some);
        }
        let at_deadline = async {
            match self.until {
                Some(until) => tokio::time::sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        let event = tokio::select! {
            event = self.watch.next() => WatchEvent::File(Box::new(event)),
            () = at_deadline => return Err(ConnectError::new(Code::DeadlineExceeded, "context deadline exceeded")),
            () = tokio::time::sleep(self.keepalive) => WatchEvent::Keepalive,
        };
        rpc::message(&event).map(Some)
    }
}

/// One watched directory. Ends when the last handle goes.
#[derive(Debug)]
struct Watch {
    tree: Arc<Mutex<Tree>>,
    arrived: Arc<Notify>,
    _reader: AbortOnDropHandle<()>,
}

impl Watch {
    async fn start(agent: &Agent, user: &User, request: WatchDir) -> Result<Arc<Self>, ConnectError> {
        let path = resolve(&request.path, user, agent)?;
        let tree = on_disk(move || {
            existing_folder(&path)?;
            Tree::new(path.clone(), request.recursive, request.include_entry).map_err(|error| watching(&path, &error))
        });
        let tree = tree.await?;
        let kernel = tree.inotify.as_fd().try_clone_to_owned();
        let kernel = kernel.and_then(|fd| kernel::awaited(fd, Interest::READABLE));
        let kernel = kernel.map_err(|error| watching(&tree.root, &error))?;
        let tree = Arc::new(Mutex::new(tree));
        let arrived = Arc::new(Notify::new());
        let reader = agent.tasks.spawn(read(kernel, Arc::clone(&tree), Arc::clone(&arrived)));
        Ok(Arc::new(Self { tree, arrived, _reader: AbortOnDropHandle::new(reader) }))
    }

    /// What happened so far, also what the reader has not come to yet.
    fn take_all(&self) -> Vec<FileEvent> {
        let mut tree = locked(&self.tree);
        tree.read();
        tree.waiting.drain(..).collect()
    }

    async fn next(&self) -> FileEvent {
        loop {
            let arrived = self.arrived.notified();
            if let Some(event) = locked(&self.tree).waiting.pop_front() {
                return event;
            }
            arrived.await;
        }
    }
}

async fn read(kernel: AsyncFd<OwnedFd>, tree: Arc<Mutex<Tree>>, arrived: Arc<Notify>) {
    while let Ok(mut ready) = kernel.readable().await {
        ready.clear_ready();
        locked(&tree).read();
        arrived.notify_one();
    }
}

fn locked(tree: &Mutex<Tree>) -> MutexGuard<'_, Tree> {
    tree.lock().unwrap_or_else(PoisonError::into_inner)
}

fn watching(path: &Path, error: &io::Error) -> ConnectError {
    ConnectError::new(Code::Internal, format!("error watching {}: {error}", path.display()))
}

/// The kernel's watches and what they told.
#[derive(Debug)]
struct Tree {
    inotify: Inotify,
    root: PathBuf,
    is_recursive: bool,
    with_entries: bool,
    /// Of each watched directory, its path from the root.
    folders: HashMap<WatchDescriptor, PathBuf>,
    waiting: VecDeque<FileEvent>,
}

impl Tree {
    fn new(root: PathBuf, is_recursive: bool, with_entries: bool) -> io::Result<Self> {
        let inotify = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC)?;
        let mut tree =
            Self { inotify, root, is_recursive, with_entries, folders: HashMap::new(), waiting: VecDeque::new() };
        tree.watch(Path::new(""), false)?;
        Ok(tree)
    }

    /// Watches a directory, and in a recursive tree those below it. With `tell`, what is in them counts as made just now.
    fn watch(&mut self, below: &Path, tell: bool) -> io::Result<()> {
        let folder = self.root.join(below);
        let wanted = AddWatchFlags::IN_CREATE
            | AddWatchFlags::IN_MODIFY
            | AddWatchFlags::IN_DELETE
            | AddWatchFlags::IN_MOVE
            | AddWatchFlags::IN_ATTRIB
            | AddWatchFlags::IN_ONLYDIR;
        let watched = self.inotify.add_watch(&folder, wanted)?;
        self.folders.insert(watched, below.to_owned());
        if !self.is_recursive {
            return Ok(());
        }
        let Ok(names) = fs::read_dir(&folder) else { return Ok(()) };
        for known in names.flatten() {
            let path = below.join(known.file_name());
            if tell {
                self.tell(FileEventType::Create, &path);
            }
            if known.file_type().is_ok_and(|kind| kind.is_dir()) {
                match self.watch(&path, tell) {
                    // It is gone again.
                    Err(error)
                        if matches!(
                            error.raw_os_error().map(Errno::from_raw),
                            Some(Errno::ENOENT | Errno::ENOTDIR)
                        ) => {}
                    other => other?,
                }
            }
        }
        Ok(())
    }

    /// Takes everything that the kernel has.
    fn read(&mut self) {
        loop {
            match self.inotify.read_events() {
                Ok(events) => events.into_iter().for_each(|event| self.take(event)),
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => return,
                Err(error) => {
                    tracing::warn!(%error, "cannot read what happened in a watched directory");
                    return;
                }
            }
        }
    }

    fn take(&mut self, event: InotifyEvent) {
        let InotifyEvent { wd, mask, name, .. } = event;
        if mask.contains(AddWatchFlags::IN_IGNORED) {
            self.folders.remove(&wd);
            return;
        }
        let Some(folder) = self.folders.get(&wd) else { return };
        // What happens to the directory itself has no name; its parent's watch tells of it, and of the root nobody asked.
        let Some(name) = name else { return };
        let path = folder.join(name);
        let kind = if mask.intersects(AddWatchFlags::IN_CREATE | AddWatchFlags::IN_MOVED_TO) {
            FileEventType::Create
        } else if mask.contains(AddWatchFlags::IN_MOVED_FROM) {
            FileEventType::Rename
        } else if mask.contains(AddWatchFlags::IN_DELETE) {
            FileEventType::Remove
        } else if mask.contains(AddWatchFlags::IN_MODIFY) {
            FileEventType::Write
        } else if mask.contains(AddWatchFlags::IN_ATTRIB) {
            FileEventType::Chmod
        } else {
            return;
        };
        self.tell(kind, &path);
        if self.is_recursive && mask.contains(AddWatchFlags::IN_ISDIR) {
            match kind {
                FileEventType::Create => {
                    if let Err(error) = self.watch(&path, true) {
                        tracing::debug!(%error, path = %path.display(), "a new directory cannot be watched");
                    }
                }
                FileEventType::Rename => self.forget(&path),
                _ => {}
            }
        }
    }

    /// A directory that moved away takes its watches along, under names that are no longer true.
    fn forget(&mut self, path: &Path) {
        let gone: Vec<_> = self
            .folders
            .iter()
            .filter(|(_watched, folder)| folder.starts_with(path))
            .map(|(watched, _folder)| *watched)
            .collect();
        for watched in gone {
            self.folders.remove(&watched);
            let _may_be_gone_already = self.inotify.rm_watch(watched);
        }
    }

    fn tell(&mut self, kind: FileEventType, path: &Path) {
        let is_there = matches!(kind, FileEventType::Create | FileEventType::Write | FileEventType::Chmod);
        let entry = if self.with_entries && is_there { describe(&self.root.join(path)).ok() } else { None };
        if self.waiting.len() == WAITING {
            self.waiting.pop_front();
        }
        self.waiting.push_back(FileEvent { name: path.to_string_lossy().into_owned(), kind, entry });
    }
}
