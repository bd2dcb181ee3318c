//! The video that a question is about: a file of this machine, or an address that the engine fetches.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use tokio_util::sync::CancellationToken;

use super::AskError;
use crate::engine_client::{EngineClient, VideoFile};

/// From this size on an upload tells how far it is.
const WORTH_TELLING_BYTES: u64 = 64 << 20;
/// Hundredths between two words about that.
const STEP_PERCENT: u64 = 10;

/// A video, as the user names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Video {
    /// A file that can be read.
    File(PathBuf),
    /// An address.
    Address(String),
}

impl Video {
    /// Tells the two apart, and looks whether the file is there.
    ///
    /// # Errors
    /// When it is a file that cannot be read, or none.
    pub fn named(text: &str) -> Result<Self, AskError> {
        let scheme = text.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
        if matches!(scheme.as_deref(), Some("http" | "https")) {
            return Ok(Self::Address(text.to_owned()));
        }
        let path = PathBuf::from(text);
        let opened = std::fs::File::open(&path).and_then(|file| file.metadata());
        match opened {
            Ok(facts) if facts.is_file() => Ok(Self::File(path)),
            Ok(_) => Err(AskError::NoFile(path)),
            Err(source) => Err(AskError::NoVideo { path, source }),
        }
    }

    /// Brings the video into the engine: an upload, or the wish to fetch it, which a session may be asked over at once.
    /// `told` hears how far it is, in words.
    ///
    /// # Errors
    /// When the engine refuses it or does not answer, or `stop` was cancelled.
    pub async fn bring(
        &self,
        engine: &EngineClient,
        stop: &CancellationToken,
        told: impl Fn(&str) + Send + Sync + 'static,
    ) -> Result<VideoFile, AskError> {
        let bringing = async {
            match self {
                Self::File(path) => {
                    let name = file_name(path);
                    let steps = AtomicU64::new(0);
                    let heard = move |sent, of| {
                        if let Some(percent) = next_step(&steps, sent, of) {
                            told(&format!("uploading {name}: {percent} %"));
                        }
                    };
                    engine.upload(path, heard).await
                }
                Self::Address(url) => engine.import(url).await,
            }
        };
        tokio::select! {
            brought = bringing => Ok(brought?),
            () = stop.cancelled() => Err(AskError::Interrupted),
        }
    }
}

/// The percentage to tell of, if there is a new one and the file is large enough for one.
fn next_step(steps: &AtomicU64, sent: u64, of: u64) -> Option<u64> {
    if of < WORTH_TELLING_BYTES {
        return None;
    }
    let step = sent.saturating_mul(100 / STEP_PERCENT) / of;
    (steps.fetch_max(step, Ordering::Relaxed) < step).then_some(step * STEP_PERCENT)
}

fn file_name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_not_looked_for_on_disk() {
        for text in ["https://youtu.be/dQw4w9WgXcQ", "HTTP://example.com/x"] {
            assert_eq!(Video::named(text).unwrap(), Video::Address(text.to_owned()));
        }
    }

    #[test]
    fn a_file_has_to_be_one() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a: b.mp4");
        std::fs::write(&file, "x").unwrap();
        assert_eq!(Video::named(&file.to_string_lossy()).unwrap(), Video::File(file));
        assert!(matches!(Video::named(&folder.path().to_string_lossy()), Err(AskError::NoFile(_))));
        assert!(matches!(Video::named("ftp://host/x.mp4"), Err(AskError::NoVideo { .. })));
    }

    #[test]
    fn a_large_upload_tells_each_step_once() {
        let steps = AtomicU64::new(0);
        let of = 100 << 20;
        let told: Vec<u64> = (0..=1000).filter_map(|at| next_step(&steps, of * at / 1000, of)).collect();
        assert_eq!(told, [10, 20, 30, 40, 50, 60, 70, 80, 90, 100]);
        assert_eq!(next_step(&AtomicU64::new(0), 5, 5), None);
    }
}
