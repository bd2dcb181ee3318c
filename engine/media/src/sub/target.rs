//! Which video a command works on, and where its output belongs.

use camino::{Utf8Path, Utf8PathBuf};
use clap::Args;
use tokio_util::sync::CancellationToken;

use super::Surroundings;
use super::bucket::locate;
use super::envelope::Failure;
use crate::media::Media;
use crate::source::Source;

/// Suffixes under which a video of the folder may stand: those that people's files have, then those that the engine gives.
pub(super) const SUFFIXES: [&str; 21] = [
    "mp4", "mov", "avi", "mkv", "webm", "flv", "wmv", "mpeg", "mpg", "m4v", "3gp", "3g2", "mj2", "ts", "ogv", "gif",
    "mxf", "rm", "nut", "ivf", "video",
];
/// Longer than every id of ours, and short enough for a file name.
const LONGEST_ID: usize = 128;

/// How a video is named on the command line.
#[derive(Args, Debug)]
#[group(required = true, multiple = true)]
pub(super) struct Target {
    /// The id of a video in `VIDEO_FOLDER`, such as `vid_0123456789abcdef`
    #[arg(long, value_name = "ID")]
    video_id: Option<String>,

    /// The path of a video file; stronger than the id
    #[arg(long, value_name = "PATH", allow_hyphen_values = true)]
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
    /// Finds the video; what is made of it goes to the sub-folder `kind` of its folder.
    pub(super) async fn find(
        self,
        around: &Surroundings,
        kind: &str,
        stop: &CancellationToken,
    ) -> Result<Found, Failure> {
        if let Some(id) = &self.video_id {
            check_id(id)?;
        }
        let source = match (&self.source_path, &self.video_id) {
            (Some(path), _id) => Source::File(given(path).await?),
            (None, Some(id)) => locate(around, id, stop).await?,
            (None, None) => return Err(Failure::bad_request("name a video with --video-id or --source-path")),
        };
        let mut config = around.media.clone();
        config.work_folder = match &self.video_id {
            Some(id) => around.video_folder.join(id).join(kind),
            None => around.temporary_folder.clone(),
        };
        let label = match (&self.video_id, &source) {
            (Some(id), _source) => id.clone(),
            (None, Source::File(path)) => plain(path.file_stem().unwrap_or("video")),
            (None, Source::Object(key)) => plain(key.file_name()),
        };
        let media = match &around.bucket {
            Some(bucket) => Media::with_bucket(config, bucket.clone())?,
            None => Media::new(config),
        };
        Ok(Found { video_id: self.video_id, label, source, media })
    }
}

/// Refuses an id that could not stand in a path as it is.
pub(super) fn check_id(id: &str) -> Result<(), Failure> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    if !id.is_empty() && id.len() <= LONGEST_ID && id.bytes().all(is_plain) {
        return Ok(());
    }
    Err(Failure::bad_request(format!(
        "`{id}` is no video id: accepted are up to {LONGEST_ID} letters, digits, `_` and `-`"
    )))
}

async fn given(path: &Utf8Path) -> Result<Utf8PathBuf, Failure> {
    match fs_err::tokio::metadata(path).await {
        Ok(_there) => Ok(path.to_owned()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Err(Failure::new("SourceNotFound", format!("there is no file `{path}`")))
        }
        Err(error) => Err(Failure::new("FileError", format!("could not look at the source: {error}"))),
    }
}

/// The file of a video in its folder, with whatever suffix it has.
pub(super) async fn in_folder(around: &Surroundings, id: &str) -> Result<Utf8PathBuf, Failure> {
    for folder in [around.video_folder.clone(), around.video_folder.join(id)] {
        for suffix in SUFFIXES {
            let path = folder.join(format!("{id}.{suffix}"));
            if fs_err::tokio::metadata(&path).await.is_ok_and(|facts| facts.is_file()) {
                return Ok(path);
            }
        }
    }
    Err(Failure::new("SourceNotFound", format!("there is no video `{id}` in `{}`", around.video_folder)))
}

/// A file's stem as part of an id.
fn plain(stem: &str) -> String {
    let keep =
        |character: char| if character.is_ascii_alphanumeric() || "._-".contains(character) { character } else { '_' };
    stem.chars().map(keep).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_never_leaves_the_folder() {
        for bad in ["", "../up", "a/b", "a.b", "é", "a b", &"x".repeat(129)] {
            assert!(check_id(bad).is_err(), "{bad:?} was taken");
        }
        assert!(check_id("vid_0123456789abcdef").is_ok());
        assert_eq!(plain("my holiday/é:1"), "my_holiday___1");
    }
}
