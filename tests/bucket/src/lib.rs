//! An S3 server for tests: a real one, over a folder, that checks each signature, and that can be told to behave like the stores and networks
//! that people really have.
//!
//! It promises what S3 does: a permission that is taken away answers 403 after the signature was checked; without the right to list, a missing
//! object is a 403 too; a link ends. It has one bucket at the start, and knows one key pair.

mod conduct;
mod door;
mod policy;
mod rights;
mod seen;

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use s3s::auth::SimpleAuth;
use s3s::service::S3ServiceBuilder;
use s3s_fs::FileSystem;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

pub use conduct::{Conduct, Permission};
pub use seen::Seen;

/// The access key that the server knows.
pub const ACCESS_KEY_ID: &str = "test-access-key";

/// The secret that belongs to it.
pub const SECRET_ACCESS_KEY: &str = "test-secret-that-no-log-may-show";

/// The bucket that exists.
pub const BUCKET: &str = "films";

/// A running server on a free port of the loopback. It ends when this is dropped.
#[derive(Debug)]
pub struct TestBucket {
    endpoint: String,
    folder: TempDir,
    state: Arc<State>,
    _server: JoinSet<()>,
}

/// What the server is told, and what it was asked.
#[derive(Debug, Default)]
pub(crate) struct State {
    conduct: Mutex<Conduct>,
    seen: Mutex<Vec<Seen>>,
    /// How often each presigned link was followed, by its signature.
    followed: Mutex<HashMap<String, u32>>,
}

impl State {
    pub(crate) fn conduct(&self) -> MutexGuard<'_, Conduct> {
        self.conduct.lock().expect("nothing panics while it holds the lock")
    }

    /// Counts a link that is followed, and says how often it was.
    pub(crate) fn follow(&self, signature: &str) -> u32 {
        let mut followed = self.followed.lock().expect("nothing panics while it holds the lock");
        let times = followed.entry(signature.to_owned()).or_default();
        *times += 1;
        *times
    }

    pub(crate) fn seen(&self) -> MutexGuard<'_, Vec<Seen>> {
        self.seen.lock().expect("nothing panics while it holds the lock")
    }
}

impl TestBucket {
    /// Starts a well-behaved server with one empty bucket.
    ///
    /// # Errors
    ///
    /// When there is no folder or port to be had.
    pub async fn start() -> io::Result<Self> {
        let folder = tempfile::tempdir()?;
        std::fs::create_dir(folder.path().join(BUCKET))?;
        let state = Arc::new(State::default());
        let files = FileSystem::new(folder.path()).map_err(|error| io::Error::other(format!("{error:?}")))?;
        let mut service = S3ServiceBuilder::new(rights::Guarded::new(files, Arc::clone(&state), folder.path()));
        service.set_auth(SimpleAuth::from_single(ACCESS_KEY_ID, SECRET_ACCESS_KEY));
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let endpoint = format!("http://{}", listener.local_addr()?);
        let router = door::router(service.build(), Arc::clone(&state), folder.path());
        let port = door::Port { listener, state: Arc::clone(&state) };
        let mut server = JoinSet::new();
        server.spawn(async move {
            let _never_ends = axum::serve(port, router).await;
        });
        Ok(Self { endpoint, folder, state, _server: server })
    }

    /// The server's address, `http://127.0.0.1:<port>`.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Changes how the server behaves from the next request on.
    pub fn behave(&self, change: impl FnOnce(&mut Conduct)) {
        change(&mut self.state.conduct());
    }

    /// Adds a statement to the policy of the key, written as AWS has it.
    ///
    /// # Errors
    ///
    /// With what is wrong with the statement; it gives no right then.
    pub fn add_to_policy(&self, statement: &str) -> Result<(), String> {
        let permission = policy::allowed(statement, BUCKET)?;
        self.state.conduct().denied.remove(&permission);
        Ok(())
    }

    /// All requests so far, in the order in which they were answered.
    pub fn seen(&self) -> Vec<Seen> {
        self.state.seen().clone()
    }

    /// Forgets the requests so far.
    pub fn forget(&self) {
        self.state.seen().clear();
    }

    /// Where an object lies on the disk.
    pub fn path_of(&self, key: &str) -> PathBuf {
        self.folder.path().join(BUCKET).join(key)
    }

    /// Whether parts of an upload that has not ended lie around.
    ///
    /// # Errors
    ///
    /// When the folder cannot be read.
    pub fn has_parts(&self) -> io::Result<bool> {
        any(self.folder.path(), |name| name.starts_with(".upload_id-"))
    }

    /// All objects, as paths below the bucket.
    ///
    /// # Errors
    ///
    /// When the folder cannot be read.
    pub fn objects(&self) -> io::Result<Vec<String>> {
        let bucket = self.folder.path().join(BUCKET);
        let mut found = Vec::new();
        let mut folders = vec![bucket.clone()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder)? {
                let path = entry?.path();
                if path.is_dir() {
                    folders.push(path);
                } else if let Ok(below) = path.strip_prefix(&bucket) {
                    found.push(below.to_string_lossy().into_owned());
                }
            }
        }
        found.sort();
        Ok(found)
    }
}

fn any(folder: &Path, fits: impl Fn(&str) -> bool) -> io::Result<bool> {
    for entry in std::fs::read_dir(folder)? {
        if fits(&entry?.file_name().to_string_lossy()) {
            return Ok(true);
        }
    }
    Ok(false)
}
