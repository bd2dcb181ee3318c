//! Which video a command works on, and where its output belongs.

use camino::Utf8PathBuf;
use clap::Args;

use super::Places;
use super::envelope::Failure;
use crate::config::MediaConfig;
use crate::media::Media;
use crate::source::Source;

/// Suffixes under which a video of the folder may stand.
const SUFFIXES: [&str; 13] =
    ["mp4", "mov", "avi", "mkv", "webm", "flv", "wmv", "mpeg", "mpg", "m4v", "3gp", "3g2", "mj2"];

/// How a video is named on the command line.
#[derive(Args, Debug)]
pub struct Target {
    /// The id of a video in `VIDEO_FOLDER`, such as `vid_0123456789abcdef`.
    #[arg(long, required_unless_present = "source_path")]
    video_id: Option<String>,

    /// The path of a video file; stronger than the id.
    #[arg(long, value_name = "PATH")]
    source_path: Option<Utf8PathBuf>,
}

/// A video that was found, and a [`Media`] that makes its outputs where they belong.
pub(super) struct Found {
    pub(super) video_id: Option<String>,
    /// What ids of outputs begin with.
    pub(super) label: String,
    pub(super) source: Source,
    pub(super) media: Media,
}

impl Target {
    pub(super) async fn find(self, mut config: MediaConfig, places: &Places) -> Result<Found, Failure> {
        if let Some(id) = &self.video_id
            && !is_plain(id)
        {
            return Err(Failure::new("BadRequest", format!("`{id}` is no video id: only letters, digits, `_` and `-`")));
        }
        let path = match (&self.source_path, &self.video_id) {
            (Some(path), _id) => path.clone(),
            (None, Some(id)) => in_folder(places, id).await?,
            (None, None) => return Err(Failure::new("BadRequest", "name a video with --video-id or --source-path")),
        };
        config.work_folder = match &self.video_id {
            Some(id) => places.video_folder.join(id),
            None => places.temporary_folder.clone(),
        };
        let label = self.video_id.clone().unwrap_or_else(|| plain(path.file_stem().unwrap_or("video")));
        Ok(Found { video_id: self.video_id, label, source: Source::File(path), media: Media::new(config) })
    }
}

async fn in_folder(places: &Places, id: &str) -> Result<Utf8PathBuf, Failure> {
    for folder in [places.video_folder.clone(), places.video_folder.join(id)] {
        for suffix in SUFFIXES {
            let path = folder.join(format!("{id}.{suffix}"));
            if fs_err::tokio::try_exists(&path).await.is_ok_and(|there| there) {
                return Ok(path);
            }
        }
    }
    Err(Failure::new("SourceNotFound", format!("there is no video `{id}` in `{}`", places.video_folder)))
}

/// Whether a name may stand in a path as it is.
fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

/// A file's stem as part of an id.
fn plain(stem: &str) -> String {
    let keep = |character: char| if character.is_ascii_alphanumeric() || "._-".contains(character) { character } else { '_' };
    stem.chars().map(keep).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_never_leaves_the_folder() {
        for bad in ["", "../up", "a/b", "a.b", "é", "a b"] {
            assert!(!is_plain(bad), "{bad:?} was taken");
        }
        assert!(is_plain("vid_0123456789abcdef"));
        assert_eq!(plain("my holiday/é:1"), "my_holiday___1");
    }
}
