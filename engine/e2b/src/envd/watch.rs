//! What happens in a directory.

use std::time::Duration;

use super::agent::Envd;
use super::stream::MessageStream;
use crate::error::Error;
use crate::protocol::filesystem::{self, FileEvent, WatchDir, WatchEvent};

/// How a directory is watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchOptions {
    /// Whether everything below it is watched too.
    pub recursive: bool,
    /// Whether events tell about what they happened to.
    pub include_entry: bool,
    /// For how long.
    pub timeout: Duration,
}

impl Default for WatchOptions {
    /// The directory alone, for an hour.
    fn default() -> Self {
        Self { recursive: false, include_entry: false, timeout: Duration::from_hours(1) }
    }
}

/// A directory that is watched. Dropping it ends the watch.
#[derive(Debug)]
pub struct Watch {
    stream: MessageStream,
    over: bool,
}

impl Watch {
    /// Returns once the watch stands: whatever happens after this is told.
    pub(crate) async fn open(
        envd: &Envd,
        path: &str,
        user: Option<&str>,
        options: &WatchOptions,
    ) -> Result<Self, Error> {
        let question = WatchDir {
            path: path.to_owned(),
            recursive: options.recursive,
            include_entry: options.include_entry,
            allow_network_mounts: false,
        };
        let mut stream = envd.stream(filesystem::WATCH_DIR, &question, user, options.timeout).await?;
        let limit = envd.config().request_timeout;
        let start = async {
            loop {
                match stream.next::<WatchEvent>().await? {
                    Some(WatchEvent::Start) => return Ok(()),
                    Some(WatchEvent::Keepalive | WatchEvent::Unknown) => {}
                    Some(WatchEvent::File(_)) | None => {
                        return Err(Error::Protocol {
                            message: "a watch that does not begin with its start".to_owned(),
                        });
                    }
                }
            }
        };
        match tokio::time::timeout(limit, start).await {
            Ok(outcome) => outcome?,
            Err(_elapsed) => return Err(envd.diagnose(Error::RequestTimedOut { limit }).await),
        }
        Ok(Self { stream, over: false })
    }

    /// What happens next; `None` when the time is over. May be dropped at any point and called again.
    ///
    /// # Errors
    /// When the sandbox is lost or the stream breaks.
    pub async fn next(&mut self) -> Result<Option<FileEvent>, Error> {
        if self.over {
            return Ok(None);
        }
        loop {
            match self.stream.next::<WatchEvent>().await {
                Ok(Some(WatchEvent::File(event))) => return Ok(Some(*event)),
                Ok(Some(WatchEvent::Start | WatchEvent::Keepalive | WatchEvent::Unknown)) => {}
                Ok(None) | Err(Error::CommandTimedOut { .. }) => {
                    self.over = true;
                    return Ok(None);
                }
                Err(error) => {
                    self.over = true;
                    return Err(error);
                }
            }
        }
    }
}
